//! A ring of small entries that the card writes, phase bit last: admin replies and events.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

use crate::card::Card;
use crate::dma::Dma;

/// The reading side of such a ring. The phase bit is bit 0 of an entry's last byte.
pub(crate) struct Phased<C: Card> {
    memory: Dma<C>,
    log: u32,
    entry: usize,
    /// Entries read so far.
    pub consumer: u32,
}

impl<C: Card> Phased<C> {
    /// Over zeroed memory of `1 << log` entries.
    pub fn new(memory: Dma<C>, log: u32, entry: usize) -> Self {
        Phased { memory, log, entry, consumer: 0 }
    }

    /// Reads the next entry, if the card has written it.
    pub fn pop(&mut self, bytes: &mut [u8]) -> bool {
        debug_assert_eq!(bytes.len(), self.entry);
        let index = (self.consumer & ((1 << self.log) - 1)) as usize;
        let last = self.memory.ptr().wrapping_add(index * self.entry + self.entry - 1);
        // SAFETY: the byte is in the ring; the card writes it, so it is read as an atomic.
        let phase = unsafe { (*last.cast::<AtomicU8>()).load(Ordering::Acquire) };
        if u32::from(phase & 1) != phase_of(self.consumer, self.log) {
            return false;
        }
        self.memory.read(index * self.entry, bytes);
        self.consumer = self.consumer.wrapping_add(1);
        true
    }
}

/// The phase bit that entry `index` of a ring of `1 << log` entries is written with.
#[inline]
pub(crate) const fn phase_of(index: u32, log: u32) -> u32 {
    !(index >> log) & 1
}

#[cfg(test)]
mod tests {
    use super::phase_of;

    #[test]
    fn phase_is_one_on_the_first_lap_and_toggles() {
        assert_eq!(phase_of(0, 2), 1);
        assert_eq!(phase_of(3, 2), 1);
        assert_eq!(phase_of(4, 2), 0);
        assert_eq!(phase_of(8, 2), 1);
        assert_eq!(phase_of(u32::MAX, 2), 0);
        assert_eq!(phase_of(0, 2), 1, "the index wraps on a lap's end");
    }
}
