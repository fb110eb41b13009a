//! docs/registers.md.

use super::table::{all_names, end, line, register_fields};
use fpga_regs::field::Format;
use fpga_regs::regs::{self, gid, global, page, port, Register};
use fpga_regs::*;
use std::fmt::Write;

const OPENING: &str = "\
# Registers

BAR0 of a function, register by register: revision 1 of this project's own map.

This page is generated from the crate `fpga-regs`; do not edit it. After a change
there, `UPDATE_DOCS=1 cargo test -p fpga-regs` rewrites it. The
[queue entries](wqe.md) and the [admin commands](admin.md) have pages of their
own.

All numbers are little endian. A register of 8 bytes is read and written as a
whole. Reserved bits read as zero and are written as zero. *RO* is read by
software, *WO* written, *RW* both; a register that is *WO* reads as zero; in one
that is *W1C* a bit written as 1 is cleared. *reset* is the value after a reset of
the function (for a port's registers, of the card); a dash where that depends on
the card.

";

pub fn page() -> String {
    let mut text = OPENING.to_string();
    pci(&mut text);
    let pages = DOORBELL_PAGES;
    let blocks = [
        ("Global registers", "Offset 0x0000 of BAR0.".to_string(), global::REGISTERS),
        (
            "Port registers",
            format!(
                "Port 1 starts at {:#06x}, port 2 at {:#06x}. Counters count from the card's last reset and wrap.",
                port::base(0),
                port::base(1)
            ),
            port::REGISTERS,
        ),
        (
            "GID table",
            format!(
                "Entry i starts at {:#05x} + i * {:#04x} of its port's block; a port has {}.",
                port::GID_TABLE,
                gid::GID_ENTRY_BYTES,
                gid::GID_ENTRIES
            ),
            gid::REGISTERS,
        ),
        (
            "Doorbell page",
            format!(
                "Page n starts at {:#07x} + n * {:#06x}; a function has {pages}. A page is all \
                 that a process needs of BAR0 to post and to poll.",
                DOORBELL_BASE, DOORBELL_PAGE_BYTES
            ),
            page::REGISTERS,
        ),
    ];
    for (title, opening, registers) in &blocks {
        let _ = writeln!(text, "## {title}\n\n{opening}\n");
        table(&mut text, registers);
    }
    text.push_str("## Fields\n\n");
    let mut formats: Vec<&Format> = Vec::new();
    for register in blocks.iter().flat_map(|(_, _, registers)| *registers) {
        if let Some(format) = register.value {
            formats.push(format);
            let doc = line(format.doc);
            let _ = writeln!(text, "### {}\n\n{doc} ({})\n", format.name, register.name);
            register_fields(&mut text, format);
        }
    }
    text.push_str("## Values\n\n");
    all_names(&mut text, &formats, &[]);
    end(text)
}

fn pci(text: &mut String) {
    let _ = writeln!(
        text,
        "## PCI\n\n| what | value |\n|---|---|\n\
         | vendor | {:#06x} |\n| device | {:#06x} |\n| class | {:#08x} |\n\
         | BAR0 | {} KiB, 64 bits, not prefetchable |\n\
         | BAR{} | {} KiB: MSI-X table at {:#06x}, pending bits at {:#06x} |\n\
         | interrupt vectors | at most {} |\n| event queues | at most {} |\n",
        regs::VENDOR_ID,
        regs::DEVICE_ID,
        regs::CLASS_CODE,
        regs::BAR0_BYTES / 1024,
        regs::MSIX_BAR,
        regs::MSIX_BAR_BYTES / 1024,
        regs::MSIX_TABLE,
        regs::MSIX_PBA,
        regs::MAX_VECTORS,
        regs::MAX_EQS,
    );
}

fn table(text: &mut String, registers: &[Register]) {
    text.push_str("| offset | register | bytes | access | reset | meaning |\n|---|---|---|---|---|---|\n");
    for register in registers {
        let mode = register.mode.name();
        let reset = register.reset.map_or("-".to_string(), |value| format!("{value:#x}"));
        let size = match register.count {
            1 => register.bytes.to_string(),
            count => format!("{} x {count}", register.bytes),
        };
        let mut doc = line(register.doc);
        if let Some(format) = register.value {
            let anchor = format.name.to_lowercase();
            let _ = write!(doc, " Fields: [{}](#{anchor}).", format.name);
        }
        let _ = writeln!(
            text,
            "| {:#05x} | `{}` | {size} | {mode} | {reset} | {doc} |",
            register.offset, register.name
        );
    }
    text.push('\n');
}
