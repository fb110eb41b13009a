//! The VLANs that functions take by those of their flow rules that ask for it.

use super::parse::Fields;
use crate::device::tables::MAX_FUNCTIONS;
use crate::packet::PORTS;
use crate::plain::Plain;

/// VLANs that there are.
pub(crate) const VLANS: usize = 4096;

/// A set of them: the bit of each, the lowest first.
type Set = [u64; VLANS / 64];

/// For each function and port. Zero bytes are none.
#[derive(Plain)]
#[repr(C)]
pub(crate) struct Vlans {
    sets: [[Set; PORTS]; MAX_FUNCTIONS],
}

impl Vlans {
    /// Whether a function takes a VLAN at a port, counted from 0.
    pub fn set(&mut self, (function, port): (u16, u8), vlan: usize, on: bool) {
        let word = &mut self.sets[usize::from(function)][usize::from(port)][vlan / 64];
        let bit = 1 << (vlan % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// A function takes none any more.
    pub fn clear(&mut self, function: u16) {
        // What was never used takes no memory.
        let words = self.sets[usize::from(function)].iter_mut().flatten();
        words.filter(|word| **word != 0).for_each(|word| *word = 0);
    }

    /// Whether a frame has no tag, or is of a VLAN that a function takes at a port.
    pub fn take(&self, (function, port): (u16, u8), fields: &Fields) -> bool {
        let Some(tci) = fields.tag() else { return !fields.has_tag() };
        let vlan = usize::from(tci) % VLANS;
        let set = self.sets.get(usize::from(function)).and_then(|ports| ports.get(usize::from(port)));
        set.is_some_and(|set| set[vlan / 64] >> (vlan % 64) & 1 == 1)
    }
}
