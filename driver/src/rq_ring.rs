//! The receive ring: where the next entry goes, and whether there is room.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::qp_table::QpLine;

/// The writing side of a receive ring; with its lock it fills one cache line.
pub(crate) struct RqRing<C> {
    /// The card, here so that posting touches one cache line less.
    card: *const C,
    entries: *mut u8,
    shadow: *const AtomicU64,
    line: *const QpLine,
    /// Running index of the next entry.
    pub(crate) head: u32,
    /// As `head`, of what has completed, as of the last refresh.
    tail: u32,
    /// Entries - 1.
    mask: u32,
    /// Receives that may be outstanding.
    max_count: u32,
    /// QPN | doorbell page << 24.
    qpn_page: u32,
    stride_log: u8,
    pub(crate) max_sge: u8,
    /// The state takes receives.
    pub(crate) open: bool,
}

// SAFETY: the pointers are to memory of the QP that owns this value; all access is under its lock.
unsafe impl<C: Sync> Send for RqRing<C> {}

/// Sizes of a receive ring.
pub(crate) struct RqSize {
    pub log: u32,
    pub stride_log: u8,
    pub max_count: u32,
    pub max_sge: u8,
}

impl<C> RqRing<C> {
    /// Over memory that lives as long as the QP.
    pub fn new(
        card: &C,
        entries: *mut u8,
        shadow: *const AtomicU64,
        line: &QpLine,
        size: &RqSize,
        qpn: u32,
        page: u32,
    ) -> Self {
        RqRing {
            card,
            entries,
            shadow,
            line,
            head: 0,
            tail: 0,
            mask: (1 << size.log) - 1,
            max_count: size.max_count,
            qpn_page: qpn | page << 24,
            stride_log: size.stride_log,
            max_sge: size.max_sge,
            open: false,
        }
    }

    /// The card.
    #[inline]
    pub fn card(&self) -> &C {
        // SAFETY: the QP that owns the ring holds the card.
        unsafe { &*self.card }
    }

    #[inline]
    pub fn qpn(&self) -> u32 {
        self.qpn_page & 0xff_ffff
    }

    #[inline]
    pub fn page(&self) -> u32 {
        self.qpn_page >> 24
    }

    /// Where an entry is.
    #[inline]
    pub fn entry(&self, index: u32) -> *mut u8 {
        self.entries.wrapping_add(((index & self.mask) as usize) << self.stride_log)
    }

    /// Remembers the caller's id of a receive.
    #[inline]
    pub fn remember(&self, index: u32, wr_id: u64) {
        // SAFETY: the shadow has an entry for each of the ring's.
        unsafe { &*self.shadow.add((index & self.mask) as usize) }.store(wr_id, Ordering::Relaxed);
    }

    /// Whether one more receive fits at `head`.
    #[inline]
    pub fn has_room(&mut self, head: u32) -> bool {
        head.wrapping_sub(self.tail) < self.max_count || {
            // SAFETY: the QP's line is in a table that outlives the QP.
            self.tail = unsafe { &*self.line }.rq_retired.load(Ordering::Acquire);
            head.wrapping_sub(self.tail) < self.max_count
        }
    }

    /// Back to the state after creation; nothing is outstanding. The caller holds the CQs' locks.
    pub fn reset(&mut self) {
        self.head = 0;
        self.tail = 0;
        // SAFETY: as in `has_room`; no completion is reaped while the CQs are locked.
        unsafe { &*self.line }.rq_retired.store(0, Ordering::Release);
    }
}
