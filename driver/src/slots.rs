//! Memory that the card reads or writes, in slots of one size: one for each frame.
#![allow(unsafe_code)]

use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Arc;

use fpga_regs::Access;
use memmap2::{MmapMut, MmapRaw};

use crate::card::{Card, CardError};
use crate::error::Result;
use crate::mr::Mr;
use crate::pd::Pd;
use crate::wr::Sge;

/// Slots of `BYTES` bytes, one behind the other, in memory and a memory region of their own. Zeros at first.
///
/// A method panics for a slot that is not there.
pub struct Slots<C: Card, const BYTES: usize> {
    // Before the memory: it is deregistered first.
    region: Arc<Mr<C>>,
    memory: MmapRaw,
}

impl<C: Card, const BYTES: usize> Slots<C, BYTES> {
    /// So many slots. An error if there is no memory for them, or the card cannot have it.
    pub fn new(pd: &Arc<Pd<C>>, count: u32) -> Result<Self> {
        let memory = MmapMut::map_anon(count as usize * BYTES);
        let memory = memory.map_err(|source| CardError::Os { what: "mapping memory".into(), source })?;
        let memory = MmapRaw::from(memory);
        let (addr, len) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: it stays until the region is destroyed, and is touched only where the card does not.
        let region = unsafe { pd.reg_mr(addr, len, addr as u64, Access::LOCAL_WRITE)? };
        Ok(Slots { region, memory })
    }

    /// The first `length` bytes of a slot and those behind it, for the card.
    #[inline]
    pub fn sge(&self, slot: u32, length: u32) -> Sge {
        Sge { addr: self.at(slot) as u64, length, lkey: self.region.lkey() }
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    /// Nobody writes them meanwhile: the card has no receive for the slot.
    pub unsafe fn bytes(&self, slot: u32) -> &[u8] {
        // SAFETY: within the memory, and as the caller promises.
        unsafe { from_raw_parts(self.at(slot), BYTES) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// Nobody reads or writes them meanwhile: the card has no work for the slot.
    pub unsafe fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        // SAFETY: as above; nobody else borrows it.
        unsafe { from_raw_parts_mut(self.at(slot), BYTES) }
    }

    /// Where a slot begins.
    #[inline]
    pub fn at(&self, slot: u32) -> *mut u8 {
        let begin = slot as usize * BYTES;
        assert!(begin + BYTES <= self.memory.len(), "slot {slot}");
        // SAFETY: within the memory.
        unsafe { self.memory.as_mut_ptr().add(begin) }
    }
}
