//! A lock among the threads of one process that a fork handler can hold across
//! `fork` and release on both sides, which a `std::sync::Mutex` guard cannot.

use std::sync::atomic::{AtomicU32, Ordering};

use super::futex::{futex_wait, futex_wake};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// A plain three-state futex lock.
pub(super) struct LocalLock(AtomicU32);

impl LocalLock {
    pub(super) const fn new() -> LocalLock {
        LocalLock(AtomicU32::new(FREE))
    }

    pub(super) fn acquire(&self) {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex_wait(&self.0, CONTENDED, None);
        }
    }

    /// Only for the thread that acquired it (or its copy after `fork`).
    pub(super) fn release(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            futex_wake(&self.0, 1);
        }
    }

    pub(super) fn enter(&self) -> Entered<'_> {
        self.acquire();
        Entered(self)
    }
}

/// Releases the lock when dropped.
pub(super) struct Entered<'a>(&'a LocalLock);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
