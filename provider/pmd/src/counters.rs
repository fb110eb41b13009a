//! What went through a queue.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets and bytes that went through a queue. Only the queue's own thread writes them.
#[derive(Default)]
pub struct Counters {
    /// Packets.
    pub packets: Counter,
    /// Bytes.
    pub bytes: Counter,
    /// Packets that were dropped with an error.
    pub errors: Counter,
    /// Packets that no mbuf was there for.
    pub no_mbuf: Counter,
}

/// A number that one thread writes and others read.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it; called by the one thread.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Takes from it what was added too much; called by the one thread.
    pub fn take(&self, less: u64) {
        self.0.store(self.get().saturating_sub(less), Ordering::Relaxed);
    }

    /// What it is.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Zeroes it. What is added at the same time may be lost, or the zero.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Counters {
    /// Zeroes all.
    pub fn reset(&self) {
        for counter in [&self.packets, &self.bytes, &self.errors, &self.no_mbuf] {
            counter.reset();
        }
    }
}
