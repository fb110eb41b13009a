//! Where the time of a message goes: its whole time divided among the phases.
//!
//! At each moment a message counts to one phase only, so that the parts add up. Where several are
//! busy with it at the same time (the packets of a long message), the moment counts to the one that
//! the message cannot go faster than: the first in [`PRECEDENCE`]. So a message of many packets
//! counts to the wire while any of its packets is on it, and to the payload fetch, RX and the rest
//! only where the wire waits for them. A moment in which nothing is busy with it is `waiting`.

use model::sim::trace::{Phase, Span};

use super::messages::{is_forward, Message, Pattern};

/// Number of parts: the phases, [`WAITING`] and [`PROGRAM`].
pub const PARTS: usize = Phase::COUNT + 2;
/// Part: nothing was busy with the message (it waited for others, or a phase is not traced).
pub const WAITING: usize = Phase::COUNT;
/// Part: the program's own time, until its next post.
pub const PROGRAM: usize = Phase::COUNT + 1;

/// Which of the busy phases a moment counts to. Those that carry the bytes come first; TX, which
/// includes waiting for the MAC, is last.
const PRECEDENCE: [Phase; Phase::COUNT] = [
    Phase::WIRE,
    Phase::PAYLOAD_FETCH,
    Phase::READ_RESPONSE,
    Phase::DMA_WRITE,
    Phase::WQE_FETCH,
    Phase::RX,
    Phase::ACK,
    Phase::CQE,
    Phase::INTERRUPT,
    Phase::DOORBELL,
    Phase::POST,
    Phase::POLL,
    Phase::TX,
];

/// Parts in the order in which a message goes through them.
pub const ORDER: [usize; PARTS] = [0, 1, 2, 3, 4, 5, 6, 11, 7, 8, 9, 12, 10, WAITING, PROGRAM];

pub fn part_name(part: usize) -> &'static str {
    match part {
        WAITING => "waiting",
        PROGRAM => "program",
        phase => Phase(phase as u8).name(),
    }
}

/// Picoseconds by part.
pub type Parts = [u64; PARTS];

/// Divides `start..end` among the spans; what is outside of it does not count.
pub fn divide(start: u64, end: u64, spans: impl Iterator<Item = Span>) -> Parts {
    let mut edges: Vec<(u64, usize, i32)> = Vec::new();
    for span in spans.filter(|span| usize::from(span.phase.0) < Phase::COUNT) {
        let (from, to) = (span.start.clamp(start, end), span.end.clamp(start, end));
        if from < to {
            let phase = usize::from(span.phase.0);
            edges.extend([(from, phase, 1), (to, phase, -1)]);
        }
    }
    edges.sort_unstable();
    let mut parts = [0; PARTS];
    let mut busy = [0i32; Phase::COUNT];
    let mut now = start;
    for (time, phase, change) in edges {
        parts[counts_to(&busy)] += time - now;
        now = time;
        busy[phase] += change;
    }
    parts[WAITING] += end - now;
    parts
}

fn counts_to(busy: &[i32; Phase::COUNT]) -> usize {
    PRECEDENCE.iter().map(|phase| usize::from(phase.0)).find(|&phase| busy[phase] > 0).unwrap_or(WAITING)
}

/// A sum with its extremes, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stat {
    pub sum: u64,
    pub min: u64,
    pub max: u64,
}

/// The budget of many messages of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    pub count: u64,
    /// By part; the sums add up to the total's.
    pub parts: [Stat; PARTS],
    pub total: Stat,
}

impl Budget {
    fn of(samples: &[Parts]) -> Budget {
        let stat = |values: &mut dyn Iterator<Item = u64>| {
            let mut stat = Stat { sum: 0, min: u64::MAX, max: 0 };
            for value in values {
                stat = Stat { sum: stat.sum + value, min: stat.min.min(value), max: stat.max.max(value) };
            }
            if samples.is_empty() {
                Stat::default()
            } else {
                stat
            }
        };
        Budget {
            count: samples.len() as u64,
            parts: std::array::from_fn(|part| stat(&mut samples.iter().map(|sample| sample[part]))),
            total: stat(&mut samples.iter().map(|sample| sample.iter().sum())),
        }
    }

    /// Mean of a sum, in nanoseconds.
    pub fn mean_ns(&self, stat: Stat) -> f64 {
        stat.sum as f64 / self.count.max(1) as f64 / 1000.0
    }
}

/// From post to poll, for every message.
pub fn post_to_poll(messages: &[Message]) -> Budget {
    let whole = |message: &Message| divide(message.start, message.end, message.spans.iter().copied());
    Budget::of(&messages.iter().map(whole).collect::<Vec<_>>())
}

/// What a latency test of perftest measures, divided.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// The parts of the latency, of the same messages as the figures; they add up to `average`.
    pub budget: Budget,
    /// As perftest's `t_typical` (median without the two longest), in picoseconds.
    pub typical: f64,
    /// As perftest's `t_avg` (mean without the two longest), in picoseconds.
    pub average: f64,
}

/// The latency as perftest takes it: from post to the same program's next post, halved where two
/// programs answer each other. `None` where messages are not sent one at a time.
pub fn latency(messages: &[Message], pattern: Pattern) -> Option<Latency> {
    // The way of one message ends where the next one is posted: by the other program, which has seen
    // this one arrive, or by the same one, which has polled its completion.
    let ways = messages.windows(2).map(|pair| {
        let (message, next) = (&pair[0], pair[1].start);
        let counts = |span: &&Span| pattern == Pattern::OneAtATime || is_forward(span);
        let spans = || message.spans.iter().filter(counts).copied();
        let done = spans().map(|span| span.end).max().unwrap_or(message.start).min(next);
        let mut parts = divide(message.start, done, spans());
        parts[PROGRAM] = next - done;
        parts
    });
    let ways: Vec<Parts> = ways.collect();
    // A round trip of two programs has two ways: both directions count the same.
    let per_trip = match pattern {
        Pattern::PingPong => 2,
        Pattern::OneAtATime => 1,
        Pattern::Pipelined => return None,
    };
    let mut trips: Vec<&[Parts]> = ways.chunks_exact(per_trip).collect();
    let took = |trip: &&[Parts]| trip.iter().flatten().sum::<u64>();
    trips.sort_by_key(took);
    if trips.len() > LONGEST {
        trips.truncate(trips.len() - LONGEST);
    }
    let times: Vec<u64> = trips.iter().map(took).collect();
    let average = times.iter().sum::<u64>() as f64 / times.len() as f64;
    let per_trip = per_trip as f64;
    let ways: Vec<Parts> = trips.into_iter().flatten().copied().collect();
    Some(Latency {
        budget: Budget::of(&ways),
        typical: median(&times)? / per_trip,
        average: average / per_trip,
    })
}

/// So many of the longest do not count in perftest's `print_report_lat`.
const LONGEST: usize = 2;

/// Of sorted times.
fn median(times: &[u64]) -> Option<f64> {
    let middle = times.len() / 2;
    match times.len() {
        0 => None,
        even if even % 2 == 0 => Some((times[middle] + times[middle - 1]) as f64 / 2.0),
        _ => Some(times[middle] as f64),
    }
}
