//! The ring of a CQ as the driver reads it: reap by phase bit, clean, move to another ring.
//!
//! It is not a `ring.rs::Phased`, which copies an entry under a mutex and consumes it at once: here an entry is checked
//! in place, consumed before its work request completes (a bad one is not), and ring and lock share one cache line.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use fpga_regs::Cqe;

use crate::dma::Record;
use crate::qp_table::QpTable;
use crate::ring::phase_of;

/// The reading side; with its lock it fills one cache line.
pub(crate) struct CqRing {
    entries: *mut u8,
    pub(crate) table: Arc<QpTable>,
    record: Record,
    consumer: u32,
    mask: u32,
    log: u8,
    pub(crate) cqn: u32,
    /// Polls in a row that found nothing.
    pub(crate) empty: u32,
    /// QPN of the send that completed last.
    pub(crate) last_sender: u32,
}

// SAFETY: the ring's memory is reached only through the lock that holds this value.
unsafe impl Send for CqRing {}

impl CqRing {
    /// Over memory of `1 << log` entries that stays until `close`.
    pub fn new(entries: *mut u8, log: u32, cqn: u32, record: Record, table: Arc<QpTable>) -> Self {
        let mask = (1 << log) - 1;
        CqRing { entries, table, record, consumer: 0, mask, log: log as u8, cqn, empty: 0, last_sender: 0 }
    }

    /// The running index of the next entry.
    #[inline]
    pub fn consumer(&self) -> u32 {
        self.consumer
    }

    /// Size of the ring.
    pub fn entries(&self) -> u32 {
        self.mask + 1
    }

    /// Whether the ring was closed.
    #[inline]
    pub fn closed(&self) -> bool {
        self.entries.is_null()
    }

    /// The memory is about to be freed.
    pub fn close(&mut self) {
        self.entries = std::ptr::null_mut();
    }

    #[inline]
    fn slot(&self, index: u32) -> *mut u8 {
        self.entries.wrapping_add((index & self.mask) as usize * Cqe::BYTES)
    }

    #[inline]
    fn phase(&self, index: u32) -> u8 {
        phase_of(index, self.log.into()) as u8
    }

    /// The entry of a running index, if the card has written it.
    #[inline]
    pub fn get(&self, index: u32) -> Option<Cqe> {
        let slot = self.slot(index);
        // SAFETY: the slot is in the ring (callers check `closed`); the card writes the phase byte
        // last, so it is read as an atomic.
        let phase = unsafe { (*slot.add(Cqe::PHASE_BYTE).cast::<AtomicU8>()).load(Ordering::Acquire) };
        if phase & 1 != self.phase(index) {
            return None;
        }
        // SAFETY: as above; the phase bit was seen, so the card does not write here until the consumer
        // index has passed.
        Some(Cqe::from_bytes(&unsafe { slot.cast::<[u8; Cqe::BYTES]>().read() }))
    }

    /// Consumes the entries before `index`, and tells the card.
    #[inline]
    pub fn consume_to(&mut self, index: u32) {
        self.consumer = index;
        // SAFETY: the record is in a pool that outlives every CQ.
        unsafe { (*self.record.cell).store(index, Ordering::Release) };
    }

    /// The first index that the card has not written.
    fn produced(&self) -> u32 {
        let mut index = self.consumer;
        while index.wrapping_sub(self.consumer) <= self.mask && self.get(index).is_some() {
            index = index.wrapping_add(1);
        }
        index
    }

    /// How many entries wait.
    pub fn pending(&self) -> u32 {
        self.produced().wrapping_sub(self.consumer)
    }

    /// Removes the waiting entries for which `gone` is true, and closes the gaps.
    pub fn clean(&mut self, mut gone: impl FnMut(&Cqe) -> bool) {
        if self.closed() {
            return;
        }
        let mut removed = 0;
        let mut index = self.produced();
        while index != self.consumer {
            index = index.wrapping_sub(1);
            let Some(cqe) = self.get(index) else { continue };
            if gone(&cqe) {
                removed += 1;
            } else if removed > 0 {
                let to = index.wrapping_add(removed);
                self.put(to, &cqe, self.phase(to) != 0);
            }
        }
        if removed > 0 {
            self.consume_to(self.consumer.wrapping_add(removed));
        }
    }

    /// Writes an entry where this side owns the slot.
    fn put(&mut self, index: u32, cqe: &Cqe, phase: bool) {
        let cqe = cqe.with_phase(phase);
        // SAFETY: the slot is in the ring, between the consumer and what the card has written, or the card does not know the
        // ring yet.
        unsafe { self.slot(index).cast::<[u8; Cqe::BYTES]>().write(*cqe.as_bytes()) }
    }

    /// Starts a fresh ring at a running index: each slot gets the phase bit that its next entry will not have.
    pub fn blank(&mut self, consumer: u32) {
        self.consumer = consumer;
        for ahead in 0..=self.mask {
            let index = consumer.wrapping_add(ahead);
            self.put(index, &Cqe::new(), self.phase(index) == 0);
        }
    }
}
