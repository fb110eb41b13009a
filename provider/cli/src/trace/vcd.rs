//! The trace as a value change dump, for waveform viewers (GTKWave, Surfer).
//!
//! A module for each card and program. For each phase a flag `..._busy` and the number of messages
//! or packets in it, `..._depth`; for each program and card the queues: `sq_waiting` (posted, not yet
//! fetched), `messages_open` (posted, not yet at their end) and `cq_entries` (visible, not yet reaped).

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::sim::trace::{Phase, Span};
use vcd::{IdCode, SimulationCommand, TimescaleUnit, Value, VarType, Writer};

use super::file::Trace;
use super::messages::{messages, Message};
use super::place::Place;

/// Width of a counter; more than a queue of any card is deep.
const WIDTH: u32 = 24;

/// Module and name of a counter.
type Signal = (Place, String);

/// A counter's variables and its value.
struct Counter {
    depth: IdCode,
    busy: Option<IdCode>,
    value: i64,
    shown: i64,
}

/// Writes the spans; the time is simulated time in picoseconds.
pub fn write(trace: &Trace, spans: Vec<Span>, out: &mut impl Write) -> io::Result<()> {
    let changes = changes(spans);
    let mut writer = Writer::new(out);
    writer.version("Verbena")?;
    writer.comment(&format!("profile {}, {} cards, simulated time", trace.profile, trace.cards))?;
    writer.timescale(1, TimescaleUnit::PS)?;
    let mut counters = declare(&mut writer, changes.values().flatten().map(|(signal, _)| signal))?;
    writer.enddefinitions()?;
    let first = changes.keys().next().copied().unwrap_or(0);
    writer.timestamp(first)?;
    writer.begin(SimulationCommand::Dumpvars)?;
    for counter in counters.values_mut() {
        show(&mut writer, counter, true)?;
    }
    writer.end()?;
    for (time, changed) in changes {
        if time != first {
            writer.timestamp(time)?;
        }
        for (signal, by) in &changed {
            counters.get_mut(signal).expect("declared").value += by;
        }
        for (signal, _) in &changed {
            show(&mut writer, counters.get_mut(signal).expect("declared"), false)?;
        }
    }
    writer.flush()
}

/// What changes, by time.
fn changes(spans: Vec<Span>) -> BTreeMap<u64, Vec<(Signal, i64)>> {
    let mut changes: BTreeMap<u64, Vec<(Signal, i64)>> = BTreeMap::new();
    let mut count = |signal: Signal, start: u64, end: u64| {
        if start < end {
            changes.entry(start).or_default().push((signal.clone(), 1));
            changes.entry(end).or_default().push((signal, -1));
        }
    };
    for span in &spans {
        let name = span.phase.name().to_lowercase().replace(' ', "_");
        let name = if span.phase == Phase::WIRE { format!("{name}{}", span.subject.port + 1) } else { name };
        count((Place::of(span), format!("{name}_depth")), span.start, span.end);
        if span.phase == Phase::POLL {
            count((Place::of(span), "cq_entries".to_owned()), span.start, span.end);
        }
    }
    let trace = Trace { spans, ..Trace::default() };
    for message in messages(&trace) {
        let card = Place::Card(message.card);
        count((card, "messages_open".to_owned()), message.start, message.end);
        if let Some((posted, fetched)) = waits_in_sq(&message) {
            count((card, "sq_waiting".to_owned()), posted, fetched);
        }
    }
    changes
}

/// From the end of the post to the card's first work on the WQE.
fn waits_in_sq(message: &Message) -> Option<(u64, u64)> {
    let posted = message.spans.iter().find(|span| span.phase == Phase::POST)?.end;
    let work = [Phase::WQE_FETCH, Phase::PAYLOAD_FETCH, Phase::TX, Phase::WIRE];
    let fetched =
        message.spans.iter().filter(|span| work.contains(&span.phase)).map(|span| span.start).min()?;
    Some((posted, fetched))
}

fn declare<'a, W: Write>(
    writer: &mut Writer<W>,
    signals: impl Iterator<Item = &'a Signal>,
) -> io::Result<BTreeMap<Signal, Counter>> {
    let mut modules: BTreeMap<Place, BTreeMap<String, ()>> = BTreeMap::new();
    for (place, name) in signals {
        modules.entry(*place).or_default().insert(name.clone(), ());
    }
    let mut counters = BTreeMap::new();
    for (place, names) in modules {
        writer.add_module(&place.title().replace(' ', "_"))?;
        for name in names.into_keys() {
            let depth = writer.add_var(VarType::Integer, WIDTH, &name, None)?;
            let busy = name.strip_suffix("_depth").map(|block| format!("{block}_busy"));
            let busy = busy.map(|name| writer.add_wire(1, &name)).transpose()?;
            counters.insert((place, name), Counter { depth, busy, value: 0, shown: 0 });
        }
        writer.upscope()?;
    }
    Ok(counters)
}

/// Writes a counter that has changed.
fn show<W: Write>(writer: &mut Writer<W>, counter: &mut Counter, always: bool) -> io::Result<()> {
    if counter.value == counter.shown && !always {
        return Ok(());
    }
    let bit = |at: u32| if counter.value >> at & 1 == 1 { Value::V1 } else { Value::V0 };
    writer.change_vector(counter.depth, (0..WIDTH).rev().map(bit))?;
    if let Some(busy) = counter.busy {
        if always || (counter.value > 0) != (counter.shown > 0) {
            writer.change_scalar(busy, counter.value > 0)?;
        }
    }
    counter.shown = counter.value;
    Ok(())
}
