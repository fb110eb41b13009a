//! The spans of a trace, gathered by message, and the messages by size.

use std::collections::BTreeMap;

use model::sim::trace::{Phase, Span, Subject};

use super::file::Trace;

/// Everything that was done for one message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Card of the requester.
    pub card: u16,
    /// Its QP.
    pub qpn: u32,
    /// Running number on that QP.
    pub number: u32,
    /// Process that posted it.
    pub process: u16,
    /// Payload bytes.
    pub bytes: u32,
    /// Start of its first span (the post), in picoseconds.
    pub start: u64,
    /// End of its last span (the poll that reaped its completion, if it had one), in picoseconds.
    pub end: u64,
    /// By start.
    pub spans: Vec<Span>,
}

/// All messages, by start.
pub fn messages(trace: &Trace) -> Vec<Message> {
    let mut gathered: BTreeMap<(u16, u32, u32), Vec<Span>> = BTreeMap::new();
    for span in &trace.spans {
        let Subject { card, qpn, message, .. } = span.subject;
        gathered.entry((card, qpn, message)).or_default().push(*span);
    }
    let mut messages: Vec<Message> = gathered.into_iter().map(|(key, spans)| message(key, spans)).collect();
    messages.sort_by_key(|message| (message.start, message.card, message.qpn, message.number));
    messages
}

fn message((card, qpn, number): (u16, u32, u32), mut spans: Vec<Span>) -> Message {
    spans.sort_by_key(|span| (span.start, span.end, span.phase));
    let post = spans.iter().find(|span| span.phase == Phase::POST);
    let largest = spans.iter().map(|span| span.bytes).max().unwrap_or(0);
    Message {
        card,
        qpn,
        number,
        process: post.or(spans.first()).map_or(0, |span| span.subject.process),
        bytes: post.map_or(largest, |span| span.bytes),
        start: spans.iter().map(|span| span.start).min().unwrap_or(0),
        end: spans.iter().map(|span| span.end).max().unwrap_or(0),
        spans,
    }
}

/// Messages of each size, by start.
pub fn by_size(messages: Vec<Message>) -> BTreeMap<u32, Vec<Message>> {
    let mut sizes: BTreeMap<u32, Vec<Message>> = BTreeMap::new();
    for message in messages {
        sizes.entry(message.bytes).or_default().push(message);
    }
    sizes
}

/// Spans of the first `count` messages of each size (0: of all).
pub fn first_of_each_size(trace: &Trace, count: usize) -> Vec<Span> {
    if count == 0 {
        return trace.spans.clone();
    }
    let sizes = by_size(messages(trace));
    let kept = sizes.into_values().flat_map(|messages| messages.into_iter().take(count));
    kept.flat_map(|message| message.spans).collect()
}

/// How the messages of one size follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Two programs in turn, as in `ib_write_lat` and `ib_send_lat`: latency is half the round trip.
    PingPong,
    /// One program, which waits for each, as in `ib_read_lat`: latency is the whole round trip.
    OneAtATime,
    /// Several outstanding at once.
    Pipelined,
}

impl Pattern {
    /// Seen from the messages themselves.
    pub fn of(messages: &[Message]) -> Pattern {
        let poster = |message: &Message| (message.process, message.card, message.qpn);
        let pairs = || messages.windows(2).map(|pair| (&pair[0], &pair[1]));
        if messages.len() < 3 {
            return Pattern::Pipelined;
        }
        let in_turn = pairs().all(|(one, next)| poster(one) != poster(next));
        let two = messages.iter().zip(&messages[2..]).all(|(one, third)| poster(one) == poster(third));
        // A message has arrived before it is answered.
        let answered = || pairs().all(|(one, next)| arrived(one) <= next.start);
        let alone = pairs().all(|(one, next)| poster(one) == poster(next) && one.end <= next.start);
        match () {
            () if alone => Pattern::OneAtATime,
            () if in_turn && two && answered() => Pattern::PingPong,
            () => Pattern::Pipelined,
        }
    }
}

/// True for what brings the message to the other program; false for what only tells the sender.
pub fn is_forward(span: &Span) -> bool {
    let for_sender = [Phase::CQE, Phase::POLL, Phase::INTERRUPT].contains(&span.phase);
    span.phase != Phase::ACK && (span.subject.responder.get() || !for_sender)
}

/// When the other side has the whole message.
fn arrived(message: &Message) -> u64 {
    message.spans.iter().filter(|span| is_forward(span)).map(|span| span.end).max().unwrap_or(message.start)
}
