//! The phase budget of each message, as a table.

use std::io::{self, Write};

use model::sim::trace::Span;

use super::budget::{divide, part_name, ORDER, PROGRAM};
use super::file::Trace;
use super::messages::messages;

/// Writes a line for each message: whose it is, when it began, how long it took, and its parts, which add up to
/// that; times in picoseconds.
pub fn write(spans: Vec<Span>, out: &mut impl Write) -> io::Result<()> {
    // What a program takes between two messages is no message's.
    let parts = || ORDER.into_iter().filter(|part| *part != PROGRAM);
    write!(out, "card,qpn,message,process,bytes,start_ps,total_ps")?;
    for part in parts() {
        write!(out, ",{}", part_name(part).replace(' ', "_").to_lowercase())?;
    }
    writeln!(out)?;
    for message in messages(&Trace { spans, ..Trace::default() }) {
        let took = divide(message.start, message.end, message.spans.iter().copied());
        let (card, qpn, number, process) = (message.card, message.qpn, message.number, message.process);
        let total = message.end - message.start;
        write!(out, "{card},{qpn:#x},{number},{process},{},{},{total}", message.bytes, message.start)?;
        for part in parts() {
            write!(out, ",{}", took[part])?;
        }
        writeln!(out)?;
    }
    Ok(())
}
