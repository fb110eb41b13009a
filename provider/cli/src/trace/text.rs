//! The phase budget as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use model::sim::trace::{Phase, Span};

use super::budget::{latency, part_name, post_to_poll, Budget, ORDER};
use super::file::Trace;
use super::messages::{by_size, messages, Message, Pattern};
use crate::measured::{Figure, Measurement};

/// The whole text. `reported` is what perftest itself said of the run, if that is known.
pub fn text(trace: &Trace, reported: Option<&Measurement>) -> String {
    let mut out = String::new();
    let (first, last) = interval(&trace.spans);
    let _ = writeln!(
        out,
        "{} spans of {} cards `{}`, from {} to {} of simulated time",
        trace.spans.len(),
        trace.cards,
        trace.profile,
        time(first as f64),
        time(last as f64)
    );
    if trace.cut {
        out += "The file ends within a record: the run was ended while it wrote.\n";
    }
    let (measured, others) = measured(messages(trace), reported);
    for (bytes, messages) in by_size(measured) {
        let row = reported.and_then(|run| run.rows.iter().find(|row| row.bytes == u64::from(bytes)));
        let figure = |figure| row.and_then(|row| row.figures.get(&figure)).copied();
        size(&mut out, bytes, &messages, &figure);
    }
    if others > 0 {
        let _ = writeln!(
            out,
            "\nNot in these budgets: {others} messages of queue pairs that perftest does not measure (it connects by them)."
        );
    }
    out
}

/// The messages that perftest measured, if it said of which queue pairs, else all; and the number of the others. With `-R`
/// the two sides tell each other their parameters by messages of their own, of the sizes of some that are measured.
fn measured(messages: Vec<Message>, reported: Option<&Measurement>) -> (Vec<Message>, usize) {
    let all = messages.len();
    let counts =
        |message: &Message| reported.is_none_or(|run| run.qpns.is_empty() || run.qpns.contains(&message.qpn));
    let measured: Vec<Message> = messages.into_iter().filter(counts).collect();
    let others = all - measured.len();
    (measured, others)
}

fn size(out: &mut String, bytes: u32, messages: &[Message], reported: &dyn Fn(Figure) -> Option<f64>) {
    let pattern = Pattern::of(messages);
    let _ = writeln!(out, "\n== {bytes} bytes, {} messages", messages.len());
    let completed = messages
        .iter()
        .filter(|m| m.spans.iter().any(|span| span.phase == Phase::POLL && !span.subject.responder.get()));
    let completed = completed.count();
    let _ = writeln!(
        out,
        "\nFrom post to poll, each message ({completed} had a completion of their own; the others \
        end with what was last done for them):\n"
    );
    table(out, &post_to_poll(messages));
    if let Some(latency) = latency(messages, pattern) {
        let how = match pattern {
            Pattern::PingPong => "Half the round trip: the mean of both directions, each from a post to the other program's \
                next post.\nACK, CQE and poll of the sender are not on this path and do not count; `program` is what the\n\
                other program takes from seeing the message to its post.",
            _ => "The whole round trip: from a post to the same program's next post; `program` is what it takes\n\
                between poll and post.",
        };
        let _ = writeln!(out, "\n{how}\n");
        table(out, &latency.budget);
        let us = |ps: f64| ps / 1e6;
        let _ = writeln!(
            out,
            "\nAs perftest counts (without the two longest): t_typical {:.4} us, t_avg {:.4} us",
            us(latency.typical),
            us(latency.average)
        );
        if let (Some(typical), Some(average)) = (reported(Figure::LatTypical), reported(Figure::LatAverage)) {
            let _ = writeln!(out, "perftest printed:                            t_typical {typical:.2} us, t_avg {average:.2} us");
            // perftest prints two digits.
            if (us(latency.average) - average).abs() > 0.0051 {
                let _ = writeln!(
                    out,
                    "NOTE: they differ by {:.4} us: the trace does not explain all of what perftest measured",
                    average - us(latency.average)
                );
            }
        }
    } else {
        pipelined(out, messages, reported);
    }
}

/// Rate and what bounds it, where messages overlap.
fn pipelined(out: &mut String, messages: &[Message], reported: &dyn Fn(Figure) -> Option<f64>) {
    let (Some(first), Some(last)) = (messages.first(), messages.iter().map(|m| m.end).max()) else {
        return;
    };
    let whole = (last - first.start).max(1) as f64;
    let each = whole / messages.len() as f64;
    let _ = writeln!(
        out,
        "\nMessages overlap: one each {} ({:.4} million a second, {:.2} MiB/s) from the first post to the last poll.",
        time(each),
        1e6 / each,
        f64::from(first.bytes) / each * 1e12 / 1_048_576.0
    );
    if let (Some(rate), Some(average)) = (reported(Figure::MsgRate), reported(Figure::BwAverage)) {
        let _ = writeln!(out, "perftest printed {rate:.6} million a second, {average:.2} MiB/s.");
    }
    let mut busy: BTreeMap<(u16, bool, Phase), Vec<(u64, u64)>> = BTreeMap::new();
    for span in messages.iter().flat_map(|message| &message.spans) {
        let subject = &span.subject;
        busy.entry((subject.card, subject.responder.get(), span.phase))
            .or_default()
            .push((span.start, span.end));
    }
    out.push_str("Share of this time in which at least one message was in the phase:\n\n");
    for ((card, responder, phase), spans) in busy {
        let share = covered(spans) as f64 / whole;
        let side = if responder { "responder" } else { "requester" };
        let _ = writeln!(
            out,
            "  messages of card {card}, {side:9}  {:14} {:5.1} %  {}",
            phase.name(),
            share * 100.0,
            bar(share)
        );
    }
}

fn table(out: &mut String, budget: &Budget) {
    let _ = writeln!(
        out,
        "  {:14} {:>13} {:>13} {:>13} {:>7}",
        "phase", "average ns", "least ns", "most ns", "share"
    );
    let total = budget.mean_ns(budget.total);
    for part in ORDER {
        let stat = budget.parts[part];
        if stat.max == 0 {
            continue;
        }
        let mean = budget.mean_ns(stat);
        let share = if total > 0.0 { mean / total } else { 0.0 };
        line(out, part_name(part), [mean, stat.min as f64 / 1e3, stat.max as f64 / 1e3], share);
    }
    let stat = budget.total;
    line(out, "total", [total, stat.min as f64 / 1e3, stat.max as f64 / 1e3], 1.0);
}

fn line(out: &mut String, name: &str, [mean, min, max]: [f64; 3], share: f64) {
    let bar = if name == "total" { String::new() } else { bar(share) };
    let line = format!("  {name:14} {mean:13.3} {min:13.3} {max:13.3} {:5.1} %  {bar}", share * 100.0);
    let _ = writeln!(out, "{}", line.trim_end());
}

fn bar(share: f64) -> String {
    "#".repeat((share * 30.0).round() as usize)
}

fn interval(spans: &[Span]) -> (u64, u64) {
    let first = spans.iter().map(|span| span.start).min().unwrap_or(0);
    (first, spans.iter().map(|span| span.end).max().unwrap_or(0))
}

/// Length of the union of intervals.
fn covered(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut sum, mut reached) = (0, 0);
    for (start, end) in spans {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

fn time(ps: f64) -> String {
    match ps {
        ps if ps < 1e6 => format!("{:.3} ns", ps / 1e3),
        ps if ps < 1e9 => format!("{:.3} us", ps / 1e6),
        ps => format!("{:.6} ms", ps / 1e9),
    }
}
