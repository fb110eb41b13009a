//! Registered memory of a core's queues: a slot for each frame.
#![allow(unsafe_code)]

use std::sync::Arc;

use anyhow::{Context, Result};
use driver::{Region, Sge};
use fpga_regs::Access;
use memmap2::{MmapMut, MmapRaw};
use verbena::verbs::card::{Mr, Pd};

/// The slots.
pub struct Slots {
    // Before the memory: it is deregistered first.
    region: Arc<Mr>,
    memory: MmapRaw,
    /// Bytes of a slot.
    size: usize,
}

impl Slots {
    /// So many slots, of so many bytes each.
    pub fn new(pd: &Arc<Pd>, count: usize, size: usize) -> Result<Self> {
        let memory: MmapRaw = MmapMut::map_anon(count * size).context("memory of a core's queues")?.into();
        let addr = memory.as_mut_ptr();
        let access = Access::LOCAL_WRITE;
        let region = Region { addr, len: memory.len(), wire_va: addr as u64, access, on_demand: false };
        // SAFETY: the memory stays until the region is destroyed; a slot is either the card's or the program's.
        let region = unsafe { pd.register(&region)? };
        Ok(Slots { region, memory, size })
    }

    /// The first `length` bytes of a slot, for the card.
    pub fn sge(&self, slot: u32, length: u32) -> Sge {
        Sge { addr: self.at(slot) as u64, length, lkey: self.region.lkey() }
    }

    /// A slot that the card does not use.
    pub fn bytes(&mut self, slot: u32) -> &mut [u8] {
        // SAFETY: within the memory, which nobody else touches: the caller has taken the slot from the card.
        unsafe { std::slice::from_raw_parts_mut(self.at(slot), self.size) }
    }

    fn at(&self, slot: u32) -> *mut u8 {
        let begin = slot as usize * self.size;
        assert!(begin + self.size <= self.memory.len(), "slot {slot}");
        // SAFETY: within the memory.
        unsafe { self.memory.as_mut_ptr().add(begin) }
    }
}
