//! Memory that the card and this process share: the card's own, and pages that are registered.
#![allow(unsafe_code)]

use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

use driver::{CardError, DmaMemory, Mr, Pd};
use fpga_regs::Access;
use memmap2::{MmapMut, MmapOptions};

use super::device::AnyCard;

/// DMA memory of a card. It is given back when dropped, so the card must have been reset before.
pub struct Shared {
    card: AnyCard,
    memory: Option<DmaMemory>,
    /// Where this process sees it.
    pub ptr: *mut u8,
    /// Where the card sees it.
    pub iova: u64,
    pub len: usize,
}

impl Shared {
    /// Zeroed, page-aligned memory.
    pub fn new(card: &AnyCard, len: usize) -> Result<Shared, CardError> {
        let memory = card.alloc(len)?;
        let (ptr, iova) = (memory.ptr, memory.iova);
        Ok(Shared { card: card.clone(), memory: Some(memory), ptr, iova, len })
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len);
        // SAFETY: within the memory, as just checked; this side writes only what the card does not use.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.add(at), bytes.len()) }
        fence(Ordering::Release);
    }

    /// Copies bytes out, as they are now.
    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len);
        // SAFETY: within the memory, as just checked; volatile, as the card may write meanwhile.
        let bytes = (at..at + len).map(|at| unsafe { self.ptr.add(at).read_volatile() }).collect();
        fence(Ordering::Acquire);
        bytes
    }

    /// The entry of a ring that ends with its phase bit, once the card has written it with this phase.
    pub fn entry(&self, at: usize, len: usize, phase: bool) -> Option<Vec<u8>> {
        // The card writes the phase last, so it is read first: what is read after it is whole.
        let last = self.read(at + len - 1, 1)[0];
        (last & 1 == u8::from(phase)).then(|| self.read(at, len))
    }

    pub fn fill(&self, byte: u8) {
        self.write(0, &vec![byte; self.len]);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.card.free(memory);
        }
    }
}

/// Pages of this process, registered with a card.
pub struct Region {
    pub mr: Arc<Mr<AnyCard>>,
    // After the region.
    pages: MmapMut,
}

impl Region {
    /// Registers fresh pages for everything.
    pub fn new(pd: &Arc<Pd<AnyCard>>, len: usize) -> anyhow::Result<Region> {
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC
            | Access::MW_BIND;
        // One more page belongs to it: a card whose addresses are a little off does no harm.
        let mut pages = MmapOptions::new().len(len + 4096).map_anon()?;
        let addr = pages.as_mut_ptr();
        // SAFETY: the pages live as long as the region: fields are dropped in order, and the driver keeps
        // what it could not take back from the card.
        let mr = unsafe { pd.reg_mr(addr, len, addr as u64, access) }?;
        Ok(Region { mr, pages })
    }

    pub fn addr(&self, at: usize) -> u64 {
        self.pages.as_ptr() as u64 + at as u64
    }

    /// A piece of it for a work request.
    pub fn sge(&self, at: usize, length: usize) -> driver::Sge {
        driver::Sge { addr: self.addr(at), length: length as u32, lkey: self.mr.lkey() }
    }

    /// The bytes, while no work request that writes to them is outstanding.
    pub fn bytes(&mut self) -> &mut [u8] {
        fence(Ordering::Acquire);
        &mut self.pages
    }
}
