//! The trace for Perfetto and chrome://tracing (Trace Event Format), in simulated time.
//!
//! A process for each card and program; in a card a thread for each block, in a program one for each
//! QP. Complete events (`X`) of a thread must not overlap, so what overlaps gets further threads of
//! the same name. A flow (`s`, `t`, `f`) joins the spans of a message.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use model::sim::trace::{Phase, Span};
use serde_json::{json, Value};

use super::file::Trace;
use super::place::Place;

/// Rows of one block: a row's time of last end.
#[derive(Default)]
struct Rows(Vec<u64>);

impl Rows {
    /// A row that is free from `start` on.
    fn take(&mut self, start: u64, end: u64) -> usize {
        let free = self.0.iter().position(|busy_until| *busy_until <= start);
        let row = free.unwrap_or(self.0.len());
        match free {
            Some(row) => self.0[row] = end,
            None => self.0.push(end),
        }
        row
    }
}

/// A block of a card (its phase), or a QP of a program.
type Block = (Place, u32);

/// Writes the spans as one JSON object.
pub fn write(trace: &Trace, mut spans: Vec<Span>, out: &mut impl Write) -> io::Result<()> {
    spans.sort_by_key(|span| (span.start, span.end, span.phase));
    let mut rows: BTreeMap<Block, Rows> = BTreeMap::new();
    let placed: Vec<(Span, Block, usize)> = spans
        .into_iter()
        .map(|span| {
            let block = block(&span);
            (span, block, rows.entry(block).or_default().take(span.start, span.end))
        })
        .collect();
    let threads = threads(&rows);
    let header = json!({
        "clock": "simulated time, ps resolution (ts and dur are microseconds)",
        "profile": trace.profile,
        "cards": trace.cards,
    });
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{header},\"traceEvents\":[")?;
    let mut events = Events { out, first: true };
    for event in names(&threads) {
        events.put(&event)?;
    }
    let mut left: HashMap<(u16, u32, u32), usize> = HashMap::new();
    for (span, ..) in &placed {
        *left.entry(key(span)).or_default() += 1;
    }
    let mut begun: HashMap<(u16, u32, u32), u64> = HashMap::new();
    for (span, block, row) in &placed {
        let (pid, tid, _) = threads[&(*block, *row)];
        events.put(&slice(span, pid, tid))?;
        let rest = left.get_mut(&key(span)).expect("counted above");
        *rest -= 1;
        let number = begun.len() as u64 + 1;
        let known = begun.contains_key(&key(span));
        let id = *begun.entry(key(span)).or_insert(number);
        // A flow needs two ends.
        let ph = match (known, *rest) {
            (false, 0) => continue,
            (false, _) => "s",
            (true, 0) => "f",
            (true, _) => "t",
        };
        events.put(&flow(span, pid, tid, id, ph))?;
    }
    writeln!(events.out, "\n]}}")
}

fn key(span: &Span) -> (u16, u32, u32) {
    (span.subject.card, span.subject.qpn, span.subject.message)
}

fn block(span: &Span) -> Block {
    let place = Place::of(span);
    match place {
        Place::Program(_) => (place, span.subject.qpn),
        _ => (place, u32::from(span.phase.0) << 8 | u32::from(span.subject.port)),
    }
}

/// Process id, thread id and name of each row.
type Threads = HashMap<(Block, usize), (u32, u32, String)>;

fn threads(rows: &BTreeMap<Block, Rows>) -> Threads {
    let mut threads = Threads::new();
    let (mut place, mut pid, mut tid) = (None, 0, 0);
    for (block, rows) in rows {
        if place != Some(block.0) {
            place = Some(block.0);
            pid += 1;
            tid = 0;
        }
        let name = match block.0 {
            Place::Program(_) => format!("QP {:#x}", block.1),
            _ => format!("{}, port {}", Phase((block.1 >> 8) as u8).name(), (block.1 & 0xff) + 1),
        };
        for row in 0..rows.0.len() {
            tid += 1;
            threads.insert((*block, row), (pid, tid, name.clone()));
        }
    }
    threads
}

fn names(threads: &Threads) -> Vec<Value> {
    let mut sorted: Vec<_> =
        threads.iter().map(|(((place, _), _), (pid, tid, name))| (*pid, *tid, *place, name)).collect();
    sorted.sort();
    let mut events = Vec::new();
    let mut last = 0;
    for (pid, tid, place, name) in sorted {
        if pid != last {
            events.push(json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": place.title()}}));
            events.push(json!({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}));
            last = pid;
        }
        events
            .push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}));
        events.push(json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}));
    }
    events
}

/// Microseconds: the format's unit.
fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

fn slice(span: &Span, pid: u32, tid: u32) -> Value {
    let subject = &span.subject;
    json!({
        "ph": "X", "name": span.phase.name(), "cat": if subject.responder.get() { "responder" } else { "requester" },
        "pid": pid, "tid": tid, "ts": us(span.start), "dur": us(span.end - span.start),
        "args": {
            "card": subject.card, "qpn": format!("{:#x}", subject.qpn), "message": subject.message, "bytes": span.bytes,
            "index": span.index, "start_ps": span.start, "end_ps": span.end,
        },
    })
}

fn flow(span: &Span, pid: u32, tid: u32, id: u64, ph: &str) -> Value {
    // At the start of the slice, which is inside it even when it is empty.
    let mut event = json!({"ph": ph, "name": "message", "cat": "message", "id": id, "pid": pid, "tid": tid, "ts": us(span.start)});
    if ph == "f" {
        event["bp"] = json!("e");
    }
    event
}

struct Events<'a, W> {
    out: &'a mut W,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    fn put(&mut self, event: &Value) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        self.out.write_all(comma.as_bytes())?;
        serde_json::to_writer(&mut *self.out, event)?;
        Ok(())
    }
}
