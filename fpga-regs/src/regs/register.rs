//! The entry of the register table.

use crate::field::{Field, Format};

/// How software may access a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Software reads.
    RO,
    /// Software reads and writes.
    RW,
    /// Software writes; reads give zero.
    WO,
    /// Software reads; a bit that it writes as 1 is cleared.
    W1C,
}

impl Mode {
    /// Its short name, as the declaration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::RO => "RO",
            Mode::RW => "RW",
            Mode::WO => "WO",
            Mode::W1C => "W1C",
        }
    }
}

/// One register of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name of the offset constant.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Offset in its block.
    pub offset: u32,
    /// Bytes of one cell, 4 or 8.
    pub bytes: u32,
    /// Number of cells, one after the other.
    pub count: u32,
    /// How software may access it.
    pub mode: Mode,
    /// Its bits, where it is not one number.
    pub value: Option<&'static Format>,
    /// Its value after a reset of the function (for a port's registers, of the
    /// card); none where that depends on the card, or where it cannot be read.
    pub reset: Option<u64>,
}

impl Register {
    /// The bits; none where the register is one number.
    pub fn fields(&self) -> &'static [Field] {
        self.value.map_or(&[], |value| value.fields)
    }
}
