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
    /// Packets, bytes and errors.
    pub fn sums(&self) -> (u64, u64, u64) {
        (self.packets.get(), self.bytes.get(), self.errors.get())
    }

    /// Zeroes all.
    pub fn reset(&self) {
        for counter in [&self.packets, &self.bytes, &self.errors, &self.no_mbuf] {
            counter.reset();
        }
    }
}

/// Packets that were posted one after the other.
#[derive(Clone, Copy, Default)]
pub struct Posted {
    /// Their number.
    pub packets: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes of the last of them. A word, as it is copied as one: a load that is wider than a recent store stalls.
    last: u64,
}

impl Posted {
    /// One more, of so many bytes.
    pub fn add(&mut self, length: u32) {
        let Posted { packets, bytes, .. } = *self;
        let last = u64::from(length);
        *self = Posted { packets: packets + 1, bytes: bytes + last, last };
    }

    /// Without the last.
    pub fn before(&self) -> Posted {
        let Posted { packets, bytes, last } = *self;
        Posted { packets: packets.saturating_sub(1), bytes: bytes.saturating_sub(last), last: 0 }
    }
}
