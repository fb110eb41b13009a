//! docs/wqe.md.

use super::table::{all_names, end, section};
use fpga_regs::catalog::ENTRIES;
use fpga_regs::*;
use std::fmt::Write;

const OPENING: &str = "\
# Queue entries

What software and card leave for each other in memory to move data: send and
receive WQEs, CQEs, EQEs.

This page is generated from the crate `fpga-regs`; do not edit it. After a change
there, `UPDATE_DOCS=1 cargo test -p fpga-regs` rewrites it. The
[registers](registers.md) and the [admin commands](admin.md) have pages of their
own. `verbena decode` prints any of these formats field by field.

All numbers are little endian. *8..11* are bytes, *2.3* is bit 3 of byte 2.
Whatever a table leaves out is reserved and zero. A value that a table does not
name is kept and reported, never taken for another one.

";

const SEND: &str = "\
## Send WQE

The send queue is a ring of 64-byte blocks. A WQE starts at a block and may wrap
around the ring's end. It starts with `WqeCtrl`; then come the segments of its
opcode; then the data: `num_sge` times `WqeSge`, or, with the flag `inline`, the
bytes themselves, padded to 16.

";

const RECV: &str = "\
## Receive WQE

A receive ring has entries of a fixed stride, the least power of two that holds
the head and the queue's SGEs. A shared receive queue has the same entries; its
`next` links those that wait.

";

const QUEUES: &str = "\
## Completion and event queues

Rings in memory that the card writes. An entry is valid when its phase bit is
that of the lap: 1 on the first lap of the ring, 0 on the second, and so on. The
card writes that byte last. A CQE of a send queue retires every WQE up to the one
that it names.

";

pub fn page() -> String {
    let mut text = OPENING.to_string();
    limits(&mut text);
    text.push_str(SEND);
    opcodes(&mut text);
    let (sends, rest) = ENTRIES.split_at(7);
    section(&mut text, "", sends);
    section(&mut text, RECV, &rest[..1]);
    section(&mut text, QUEUES, &rest[1..]);
    text.push_str("## Values\n\n");
    all_names(&mut text, ENTRIES, &[]);
    end(text)
}

fn limits(text: &mut String) {
    let _ = writeln!(
        text,
        "| limit of the format | |\n|---|---|\n| bytes of a block | {WQE_BLOCK} |\n\
         | blocks of a send WQE | {MAX_WQE_BLOCKS} |\n| SGEs | {MAX_SGE} |\n\
         | bytes of inline data | {MAX_INLINE} |\n\
         | bytes of headers of a RAW_TSO | {MAX_TSO_HEADER} |\n\
         | bytes of a WQE in the push window | {PUSH_BYTES} |\n"
    );
}

fn opcodes(text: &mut String) {
    text.push_str("| opcode | segments | data | inline |\n|---|---|---|---|\n");
    let yes = |yes: bool| if yes { "yes" } else { "-" };
    for known in WqeOpcode::VALUES {
        let opcode = WqeOpcode(known.value as u8);
        let list = |service| {
            let names = opcode.segments(service).iter();
            let names: Vec<&str> = names.map(|segment| segment.format().name).collect();
            if names.is_empty() {
                "-".to_string()
            } else {
                names.join(", ")
            }
        };
        let connected = list(Service::Connected);
        let others = [("UD", list(Service::Datagram)), ("XRC", list(Service::Extended))];
        let other = others.iter().filter(|(_, segments)| *segments != connected);
        let other: String = other.map(|(kind, segments)| format!("; on {kind} {segments}")).collect();
        let segments = connected + &other;
        let _ = writeln!(
            text,
            "| {opcode} | {segments} | {} | {} |",
            yes(opcode.has_data()),
            yes(opcode.allows_inline())
        );
    }
    text.push('\n');
}
