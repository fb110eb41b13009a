//! Everything that is declared, in lists: what the pages and the exports are
//! made from.

use crate::commands::COMMANDS;
use crate::decode::CONTEXTS;
use crate::field::{Format, Kind, Named, Names};
use crate::regs::{gid, global, page, pci, port, Register};
use crate::{admin::*, context::*, cqe::*, doorbell, eqe::*, recv::*, wqe, wqe::*};

/// The parts of queue entries.
pub const ENTRIES: &[&Format] = &[
    &WqeCtrl::FORMAT,
    &WqeRemote::FORMAT,
    &WqeAtomic::FORMAT,
    &WqeAddress::FORMAT,
    &WqeSge::FORMAT,
    &WqeBind::FORMAT,
    &WqeTso::FORMAT,
    &RecvHead::FORMAT,
    &Cqe::FORMAT,
    &Eqe::FORMAT,
];

/// The entries of the admin queue.
pub const ADMIN: &[&Format] = &[&Command::FORMAT, &Reply::FORMAT];

/// Contexts and what they point to.
pub fn contexts() -> impl Iterator<Item = &'static Format> {
    CONTEXTS.iter().map(|(_, format)| *format).chain([&PageEntry::FORMAT])
}

/// Every format of bytes in memory.
pub fn formats() -> impl Iterator<Item = &'static Format> {
    ENTRIES.iter().chain(ADMIN).copied().chain(contexts())
}

/// A block of registers in BAR0.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Offset of the first one: in BAR0, and for the GID table in its port's block.
    pub base: u32,
    /// Bytes from one to the next.
    pub stride: u32,
    /// How many there are.
    pub count: u32,
    /// The registers.
    pub registers: &'static [Register],
}

/// The global registers.
pub const GLOBAL: Block =
    Block { name: "global", base: 0, stride: global::GLOBAL_BYTES, count: 1, registers: global::REGISTERS };

/// The ports.
pub const PORT: Block = Block {
    name: "port",
    base: port::PORT_BASE,
    stride: port::PORT_BYTES,
    count: pci::PORTS,
    registers: port::REGISTERS,
};

/// The GID table of a port.
pub const GID: Block = Block {
    name: "gid",
    base: port::GID_TABLE,
    stride: gid::GID_ENTRY_BYTES,
    count: gid::GID_ENTRIES,
    registers: gid::REGISTERS,
};

/// The doorbell pages.
pub const PAGE: Block = Block {
    name: "page",
    base: doorbell::DOORBELL_BASE,
    stride: doorbell::DOORBELL_PAGE_BYTES,
    count: doorbell::DOORBELL_PAGES,
    registers: page::REGISTERS,
};

/// The blocks of BAR0.
pub const BLOCKS: [Block; 4] = [GLOBAL, PORT, GID, PAGE];

/// The values of registers and doorbells that have fields, each once.
pub fn words() -> impl Iterator<Item = &'static Format> {
    BLOCKS.iter().flat_map(|block| block.registers).filter_map(|register| register.value)
}

/// Constants of the definition, beside offsets of registers.
pub fn constants() -> impl Iterator<Item = &'static Named> {
    [pci::CONSTANTS, global::CONSTANTS, port::CONSTANTS, gid::CONSTANTS, doorbell::CONSTANTS, wqe::CONSTANTS]
        .into_iter()
        .flatten()
}

/// Every open enum and, with `true`, every flag set; each once.
pub fn names() -> Vec<(&'static Names, bool)> {
    let parameters = COMMANDS.iter().flat_map(|spec| spec.params.iter().chain(spec.values));
    let fields = formats().chain(words()).flat_map(|format| format.fields).chain(parameters);
    let mut all: Vec<(&Names, bool)> = Vec::new();
    for kind in fields.map(|field| field.kind).chain([Mtu::KIND]) {
        let (names, set) = match kind {
            Kind::Enum(names) => (names, false),
            Kind::Flags(names) => (names, true),
            _ => continue,
        };
        if !all.iter().any(|(known, _)| known.name == names.name) {
            all.push((names, set));
        }
    }
    all
}
