//! The ring of an SRQ, which completions reach too.
//!
//! The ring is used in order: the card copies each WQE when it takes it. Completions come in any order, so
//! a WQE carries the slot that holds its wr_id, and the completion names that slot. Fewer WQEs are
//! outstanding than the ring has entries, so an entry is written again only after the card has taken it.
#![allow(unsafe_code)]

use crate::spin::Spin;

/// The part of an SRQ that completions reach.
pub(crate) type SrqShared = Spin<SrqRing>;

/// The writing side of the ring, and what its completions are called.
pub(crate) struct SrqRing {
    pub entries: *mut u8,
    /// What is in each slot.
    pub slots: Box<[Slot]>,
    /// Free slots: the first `free_count` of them.
    pub free: Box<[u16]>,
    pub free_count: u32,
    pub head: u32,
    pub srqn: u32,
    pub mask: u32,
    pub stride_log: u8,
    pub max_sge: u8,
    pub page: u8,
}

/// A receive between its post and its completion.
#[derive(Clone, Copy, Default)]
pub(crate) struct Slot {
    pub wr_id: u64,
    pub waiting: bool,
}

// SAFETY: `entries` leads to memory of the SRQ that owns this value; all access is under its lock.
unsafe impl Send for SrqRing {}

impl SrqRing {
    /// Frees a slot; `None` if it holds no outstanding receive.
    #[inline]
    pub fn complete(&mut self, slot: u32) -> Option<u64> {
        let waits = self.slots.get_mut(slot as usize)?;
        if !waits.waiting {
            return None;
        }
        waits.waiting = false;
        let wr_id = waits.wr_id;
        let place = self.free.get_mut(self.free_count as usize)?;
        *place = slot as u16;
        self.free_count += 1;
        Some(wr_id)
    }
}
