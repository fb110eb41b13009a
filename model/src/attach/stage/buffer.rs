//! Memory of a stage that actors send from and receive into.
#![allow(unsafe_code)]

use std::sync::Arc;

use driver::{DmaMemory, Error, Mr, Pd};
use fpga_regs::Access;

use super::card::StageCard;
use super::state::Inner;

/// A buffer that all cards of a stage reach, for as long as there is one of them.
pub struct Buffer {
    inner: Arc<Inner>,
    memory: DmaMemory,
}

impl Buffer {
    pub(super) fn new(inner: Arc<Inner>, memory: DmaMemory) -> Buffer {
        Buffer { inner, memory }
    }

    /// Where peers and elements address it.
    pub fn addr(&self) -> u64 {
        self.memory.iova
    }

    /// Makes a region of all of it.
    pub fn register(&self, pd: &Arc<Pd<StageCard>>, access: Access) -> Result<Arc<Mr<StageCard>>, Error> {
        // SAFETY: a stage's memory stays until its last card is closed, and the region has its card.
        unsafe { pd.reg_mr(self.memory.ptr, self.memory.len, self.addr(), access) }
    }

    /// Writes to its beginning.
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.memory.len, "it has {} bytes", self.memory.len);
        // While no card runs.
        let _cards = self.inner.state();
        // SAFETY: within our memory.
        unsafe { self.memory.ptr.copy_from(bytes.as_ptr(), bytes.len()) };
    }

    /// Its first bytes.
    pub fn read(&self, len: usize) -> Vec<u8> {
        assert!(len <= self.memory.len, "it has {} bytes", self.memory.len);
        let mut bytes = vec![0; len];
        let _cards = self.inner.state();
        // SAFETY: within our memory.
        unsafe { self.memory.ptr.copy_to(bytes.as_mut_ptr(), len) };
        bytes
    }
}
