//! DMA that only one process can do: to memory of a client that shares none, by messages.
//!
//! Whoever runs the cards in that process does it itself; others leave it to the process's helper thread, by
//! way of the slots of [`super::bounce`], and wait for it.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::bounce::Transfer;
use super::private::{Direction, DmaFault};
use crate::segment::lock::Guard;
use crate::segment::registry;
use crate::segment::Segment;

/// Does DMA for the cards. Called with the segment's lock held, by whatever thread; must end within seconds.
pub trait Ask: Send + Sync {
    /// Reads at `iova`; false when that is refused.
    fn read(&self, iova: u64, to: &mut [u8]) -> bool;
    /// Writes at `iova`; false when that is refused.
    fn write(&self, iova: u64, from: &[u8]) -> bool;
}

impl Segment {
    /// From now on `ask` does what this member's DMA map asks for ([`super::ranges::Place::asked`]). Once.
    pub fn answer_with(&self, ask: Arc<dyn Ask>) {
        if self.local().asked.set(ask.clone()).is_ok() {
            let _held = registry::enter();
            // SAFETY: the process's lock is held.
            unsafe { &mut *self.local().helper.get() }.answer_with(self, ask);
        }
    }
}

impl Guard<'_> {
    /// Copies from or to memory that the owner must be asked for.
    pub(in crate::segment) fn ask(&self, transfer: Transfer) -> Result<(), DmaFault> {
        let Transfer { member, iova, here, len, direction } = transfer;
        if member != self.segment().member() {
            return self.ask_owner(transfer);
        }
        let done = self.segment().local().asked.get().is_some_and(|ask| {
            // SAFETY: the caller's memory, at least that long.
            unsafe { move_bytes(&**ask, iova, here, len, direction) }
        });
        done.then_some(()).ok_or(DmaFault::Unreachable { member, iova, errno: libc::EIO })
    }
}

/// # Safety
/// `here` is valid for `len` bytes.
pub(in crate::segment) unsafe fn move_bytes(
    ask: &dyn Ask,
    iova: u64,
    here: *mut u8,
    len: usize,
    direction: Direction,
) -> bool {
    // SAFETY: by contract.
    unsafe {
        match direction {
            Direction::Read => ask.read(iova, std::slice::from_raw_parts_mut(here, len)),
            Direction::Write => ask.write(iova, std::slice::from_raw_parts(here, len)),
        }
    }
}
