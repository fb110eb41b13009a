//! A card behind an [`Arc`], for programs that do not know before they run which backend they will have.

use std::sync::Arc;
use std::time::Duration;

use crate::card::{Card, CardError, DmaMemory};

impl<C: Card + ?Sized> Card for Arc<C> {
    fn read32(&self, offset: u32) -> u32 {
        (**self).read32(offset)
    }

    fn write32(&self, offset: u32, value: u32) {
        (**self).write32(offset, value);
    }

    fn read64(&self, offset: u32) -> u64 {
        (**self).read64(offset)
    }

    fn write64(&self, offset: u32, value: u64) {
        (**self).write64(offset, value);
    }

    #[inline]
    fn doorbell(&self, offset: u32, value: u64) {
        (**self).doorbell(offset, value);
    }

    #[inline]
    fn push(&self, offset: u32, wqe: &[u8], doorbell_offset: u32, value: u64) {
        (**self).push(offset, wqe, doorbell_offset, value);
    }

    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        (**self).alloc(bytes)
    }

    fn free(&self, memory: DmaMemory) {
        (**self).free(memory);
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        (**self).map(addr, len, writable)
    }

    fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        (**self).unmap(iova, addr, len);
    }

    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        (**self).wait_interrupt(vector, timeout)
    }

    #[inline]
    fn expect_doorbell(&self) {
        (**self).expect_doorbell();
    }

    #[inline]
    fn relax(&self, empty_polls: u32) {
        (**self).relax(empty_polls);
    }
}
