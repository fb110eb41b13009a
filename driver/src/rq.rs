//! Receive queues: entries of one size in a ring, completed in order.
#![allow(unsafe_code)]

use std::sync::atomic::{fence, AtomicU64, Ordering};

use fpga_regs::{RecvHead, RqDoorbell, DOORBELL_RQ};

use crate::card::Card;
use crate::error::PostError;
use crate::qp::Qp;
use crate::qp_table::QpLine;
use crate::spin::Guard;
use crate::sq_write::{put16, put_sges};
use crate::wr::Sge;

/// The writing side of a receive ring; with its lock it fills one cache line.
pub(crate) struct RqRing<C> {
    /// The card, here so that posting touches one line less.
    card: *const C,
    entries: *mut u8,
    shadow: *const AtomicU64,
    line: *const QpLine,
    head: u32,
    tail: u32,
    mask: u32,
    max_count: u32,
    /// QPN | doorbell page << 24.
    qpn_page: u32,
    stride_log: u8,
    max_sge: u8,
    /// The state takes receives.
    pub(crate) open: bool,
}

// SAFETY: the pointers lead to memory of the QP that owns this value; all access is under its lock.
unsafe impl<C: Sync> Send for RqRing<C> {}

/// Sizes of a receive ring.
pub(crate) struct RqSize {
    pub log: u32,
    pub stride_log: u8,
    pub max_count: u32,
    pub max_sge: u8,
}

impl<C> RqRing<C> {
    /// Over memory that stays as long as the QP.
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

    #[inline]
    fn has_room(&mut self, head: u32) -> bool {
        head.wrapping_sub(self.tail) < self.max_count || {
            // SAFETY: the QP's line lives in a table that outlives the QP.
            self.tail = unsafe { &*self.line }.rq_retired.load(Ordering::Acquire);
            head.wrapping_sub(self.tail) < self.max_count
        }
    }

    /// As after creation; nothing is outstanding. The caller holds the CQs' locks.
    pub fn reset(&mut self) {
        self.head = 0;
        self.tail = 0;
        // SAFETY: as in `has_room`; nobody completes while the CQs are locked.
        unsafe { &*self.line }.rq_retired.store(0, Ordering::Release);
    }
}

/// Writes a receive WQE.
///
/// # Safety
/// `to` is writable for the head and all elements and aligned to 16.
#[inline]
pub(crate) unsafe fn put_recv(to: *mut u8, sges: &[Sge], index: u32, next: u16) {
    let length: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let head =
        RecvHead::new().with_num_sge(sges.len() as u8).with_next(next).with_index(index).with_length(length);
    // SAFETY: as the caller promises.
    unsafe {
        put16(to, head.as_bytes());
        put_sges(to.add(RecvHead::BYTES), sges);
    }
}

/// A chain of receives under construction. Holds the RQ's lock; dropped without [`RecvPost::ring`] it
/// leaves nothing behind.
pub struct RecvPost<'a, C: Card> {
    rq: Guard<'a, RqRing<C>>,
    head: u32,
}

impl<C: Card> Qp<C> {
    /// Begins a chain of receives.
    #[inline]
    pub fn recv(&self) -> RecvPost<'_, C> {
        let rq = self.rq.lock();
        let head = rq.head;
        RecvPost { rq, head }
    }
}

impl<C: Card> RecvPost<'_, C> {
    /// Writes one receive. On an error the ones before it stand: ring or abort them.
    #[inline]
    pub fn push(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        let rq = &mut *self.rq;
        if !rq.open {
            return Err(PostError::State);
        }
        if sges.len() > usize::from(rq.max_sge) {
            return Err(PostError::Invalid("more elements than max_recv_sge"));
        }
        if !rq.has_room(self.head) {
            return Err(PostError::QueueFull);
        }
        let at = (self.head & rq.mask) as usize;
        let to = rq.entries.wrapping_add(at << rq.stride_log);
        // SAFETY: the entry is free, lies in the ring and takes max_sge elements.
        unsafe { put_recv(to, sges, self.head, 0) };
        // SAFETY: the shadow has an entry for each of the ring's.
        unsafe { &*rq.shadow.add(at) }.store(wr_id, Ordering::Relaxed);
        self.head = self.head.wrapping_add(1);
        Ok(())
    }

    /// Makes what was pushed known to the card: one barrier, one doorbell. Nothing for an empty chain.
    ///
    /// Not by value: a copy of what was just written piece by piece waits until all stores before it are done.
    #[inline]
    pub fn ring(&mut self) {
        let head = self.head;
        let rq = &mut *self.rq;
        if head == rq.head {
            return;
        }
        rq.head = head;
        // All WQE bytes before the doorbell.
        fence(Ordering::Release);
        let at = fpga_regs::doorbell_page(rq.qpn_page >> 24) + DOORBELL_RQ;
        // SAFETY: the QP that owns the ring holds the card.
        let card = unsafe { &*rq.card };
        card.doorbell(at, RqDoorbell::new(rq.qpn_page & 0xff_ffff, head).0);
    }

    /// Takes the chain back.
    #[inline]
    pub fn abort(self) {}
}
