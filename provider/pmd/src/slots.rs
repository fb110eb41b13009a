//! Memory of a queue that the card reads or writes: a slot for each frame.
//!
//! Frames are copied between slots and mbufs. An mbuf's memory is a shared mapping of a file that DPDK could shorten, which
//! the model reaches by system calls only.
#![allow(unsafe_code)]

use std::sync::Arc;

use driver::{Card, Error, Mr, Pd, Region, Result, Sge};
use fpga_regs::Access;
use memmap2::{MmapMut, MmapRaw};

/// Bytes of the longest frame, without its check sequence.
pub const MAX_FRAME: u32 = 9600;
/// Bytes of a frame that the MTU does not count: header and one VLAN tag.
pub const OVERHEAD: u32 = 18;
/// Bytes of its check sequence, which packets may have behind them.
pub const FCS: u32 = 4;
/// Bytes of a slot: whole lines.
const STRIDE: usize = ((MAX_FRAME + FCS) as usize).next_multiple_of(64);

/// The slots of a queue.
pub struct Slots<C: Card> {
    // Before the memory: it is deregistered first.
    region: Arc<Mr<C>>,
    memory: MmapRaw,
}

impl<C: Card> Slots<C> {
    /// So many slots.
    pub fn new(pd: &Arc<Pd<C>>, count: usize) -> Result<Self> {
        let memory = MmapMut::map_anon(count * STRIDE);
        let memory: MmapRaw =
            memory.map_err(|error| Error::Invalid(format!("memory of a queue: {error}")))?.into();
        let addr = memory.as_mut_ptr();
        let region = Region {
            addr,
            len: memory.len(),
            wire_va: addr as u64,
            access: Access::LOCAL_WRITE,
            on_demand: false,
        };
        // SAFETY: it stays until the region is destroyed, and is touched only where the card does not.
        let region = unsafe { pd.register(&region)? };
        Ok(Slots { region, memory })
    }

    /// The first `length` bytes of a slot and those behind it, for the card.
    #[inline]
    pub fn sge(&self, slot: usize, length: u32) -> Sge {
        Sge { addr: self.at(slot) as u64, length, lkey: self.region.lkey() }
    }

    /// Bytes of a slot and those behind it.
    pub fn until_end(&self, slot: usize) -> u32 {
        (self.memory.len() - slot * STRIDE) as u32
    }

    /// Slots that so many bytes take.
    pub fn taken_by(length: u32) -> u32 {
        length.div_ceil(STRIDE as u32)
    }

    /// Bytes of a slot.
    pub fn room(&self) -> u32 {
        STRIDE as u32
    }

    /// Where a slot begins.
    #[inline]
    pub fn at(&self, slot: usize) -> *mut u8 {
        assert!((slot + 1) * STRIDE <= self.memory.len(), "slot {slot}");
        // SAFETY: within the memory.
        unsafe { self.memory.as_mut_ptr().add(slot * STRIDE) }
    }
}
