//! docs/admin.md.

use super::table::{all_names, end, fields, line, names, section};
use fpga_regs::catalog::{self, ADMIN, ENTRIES};
use fpga_regs::commands::{CommandSpec, COMMANDS};
use fpga_regs::field::Format;
use fpga_regs::*;
use std::fmt::Write;

const OPENING: &str = "\
# Admin commands and contexts

How software makes and changes the card's objects: a ring of commands that the
card reads, a ring of replies that it writes, and the contexts that they carry.

This page is generated from the crate `fpga-regs`; do not edit it. After a change
there, `UPDATE_DOCS=1 cargo test -p fpga-regs` rewrites it. How the tables are
to be read is on the page of the [queue entries](wqe.md).

## Admin queue

What does not fit a command travels in memory, at `in_iova` (read by the card) or
`out_iova` (written by it). A reply is valid when its phase bit is that of the
lap; the card writes that byte last.

";

pub fn page() -> String {
    let mut text = OPENING.to_string();
    let contexts: Vec<&Format> = catalog::contexts().collect();
    section(&mut text, "", ADMIN);
    commands(&mut text);
    section(&mut text, "## Contexts\n\n", &contexts);
    text.push_str("## Values\n\n");
    let elsewhere: Vec<&str> = ENTRIES
        .iter()
        .flat_map(|format| format.fields)
        .filter_map(|field| match field.kind {
            Kind::Enum(names) | Kind::Flags(names) => Some(names.name),
            _ => None,
        })
        .collect();
    all_names(&mut text, &[ADMIN, &contexts].concat(), &elsewhere);
    names(&mut text, Mtu::NAMES, false);
    names(&mut text, MrAttrMask::NAMES, true);
    names(&mut text, QpAttrMask::NAMES, true);
    names(&mut text, PortAttrMask::NAMES, true);
    names(&mut text, XrcdFlags::NAMES, true);
    for name in elsewhere {
        let anchor = format!("](#{})", name.to_lowercase());
        let there = format!("](wqe.md#{})", name.to_lowercase());
        text = text.replace(&anchor, &there);
    }
    end(text)
}

fn commands(text: &mut String) {
    text.push_str("### What each command takes and gives\n\n");
    text.push_str("| command | object | reads | writes | reply's object |\n|---|---|---|---|---|\n");
    let name = |format: Option<&Format>| match format {
        Some(format) => format!("[{}](#{})", format.name, format.name.to_lowercase()),
        None => "-".to_string(),
    };
    let or_dash = |text: &'static str| if text.is_empty() { "-" } else { text };
    for spec in COMMANDS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            spec.opcode,
            or_dash(spec.object),
            name(spec.input),
            name(spec.output),
            or_dash(spec.result)
        );
    }
    text.push('\n');
    for spec in COMMANDS {
        own_fields(text, spec);
    }
}

/// The parameters and values of one command, where it has any.
fn own_fields(text: &mut String, spec: &CommandSpec) {
    for (what, own) in [("Parameters", spec.params), ("Values", spec.values)] {
        if !own.is_empty() {
            let _ = writeln!(text, "{what} of {}:\n", line(&spec.opcode.to_string()));
            fields(text, own);
        }
    }
}
