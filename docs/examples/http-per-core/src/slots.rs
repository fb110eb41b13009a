//! Registered memory of a core's queues: a slot for each frame.
#![allow(unsafe_code)]

use std::sync::Arc;

use anyhow::{Context, Result};
use driver::{Region, Sge};
use fpga_regs::Access;
use memmap2::{MmapMut, MmapRaw};
use verbena::verbs::card::{Mr, Pd};

/// Bytes of a slot: a frame without jumbo, in whole cache lines.
pub const SLOT: usize = 1536;

/// The slots.
pub struct Slots {
    // Before the memory: it is deregistered first.
    region: Arc<Mr>,
    memory: MmapRaw,
}

impl Slots {
    /// So many slots.
    pub fn new(pd: &Arc<Pd>, count: usize) -> Result<Self> {
        let memory: MmapRaw = MmapMut::map_anon(count * SLOT).context("memory of a core's queues")?.into();
        let addr = memory.as_mut_ptr();
        let access = Access::LOCAL_WRITE;
        let region = Region { addr, len: memory.len(), wire_va: addr as u64, access, on_demand: false };
        // SAFETY: the memory stays until the region is destroyed; a slot is either the card's or the program's.
        let region = unsafe { pd.register(&region)? };
        Ok(Slots { region, memory })
    }

    /// The first `length` bytes of a slot, for the card.
    pub fn sge(&self, slot: u32, length: u32) -> Sge {
        Sge { addr: self.at(slot) as u64, length, lkey: self.region.lkey() }
    }

    /// A slot that the card does not use.
    pub fn bytes(&mut self, slot: u32) -> &mut [u8] {
        // SAFETY: within the memory, which nobody else touches: the caller has taken the slot from the card.
        unsafe { std::slice::from_raw_parts_mut(self.at(slot), SLOT) }
    }

    fn at(&self, slot: u32) -> *mut u8 {
        let begin = slot as usize * SLOT;
        assert!(begin + SLOT <= self.memory.len(), "slot {slot}");
        // SAFETY: within the memory.
        unsafe { self.memory.as_mut_ptr().add(begin) }
    }
}
