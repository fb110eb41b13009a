//! What is touched without the segment's lock: doorbells, interrupt words, and the bells of processes that serve a card.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::device::tables::{EQS, MAX_FUNCTIONS, MAX_QPS, MAX_SRQS};
use crate::plain::Plain;
use crate::segment::{futex_wake, Label};

/// Interrupt words of a card by function and vector: each raise adds one and wakes the threads that wait for it.
pub(crate) type Interrupts = [[AtomicU32; EQS]; MAX_FUNCTIONS];

/// Doorbells of one QP, in a line of their own: the QPs of two processes share none.
#[derive(Plain)]
#[repr(C, align(64))]
pub(crate) struct QpBells {
    /// Send queue producer (blocks).
    pub sq: AtomicU32,
    /// Receive queue producer (WQEs).
    pub rq: AtomicU32,
    /// Whose doorbells these are: see [`owner`].
    pub owner: AtomicU32,
    /// The card wants to be run at receive doorbells (the QP is in error and flushes).
    pub watch: AtomicU32,
    /// Its [`Label`]. Changes only while a thread has all the cards.
    pub island: AtomicU64,
    /// In simulated time: the last send and receive doorbells as rung, while they are in flight.
    pub posted: [AtomicU32; 2],
    /// Changes when the queues are reset: a doorbell that was rung before and arrives later is for what is gone.
    pub life: AtomicU32,
}

/// The doorbell of one SRQ.
#[derive(Plain)]
#[repr(C)]
pub(crate) struct SrqBell {
    /// Producer.
    pub producer: AtomicU32,
    /// Whose it is: see [`owner`].
    pub owner: AtomicU32,
    /// As [`QpBells::life`].
    pub life: AtomicU32,
}

/// The word for the function that owns a doorbell, or for none. Any program can ring it; the card hears only its owner.
pub(crate) fn owner(function: Option<u16>) -> u32 {
    function.map_or(0, |function| u32::from(function) + 1)
}

/// Doorbells of one card.
#[derive(Plain)]
#[repr(C)]
pub struct Bells {
    /// By QP index.
    pub(crate) qp: [QpBells; MAX_QPS],
    /// By SRQ.
    pub(crate) srq: [SrqBell; MAX_SRQS],
}

impl QpBells {
    /// Whether there is a queue pair.
    #[inline]
    pub fn exists(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != owner(None)
    }

    /// Which island the queue pair belongs to.
    #[inline(always)]
    pub fn label(&self) -> Label {
        Label(self.island.load(Ordering::Relaxed))
    }

    /// A side's queue was posted up to this index: how far that is beyond the last time, and the queue's life.
    pub fn advance(&self, side: usize, index: u32) -> (u32, u32) {
        let last = self.posted[side].swap(index, Ordering::Relaxed);
        (index.wrapping_sub(last), self.life.load(Ordering::Relaxed))
    }

    /// Makes it another's.
    pub fn set_label(&self, label: Label) {
        self.island.store(label.0, Ordering::Relaxed);
    }
}

impl Bells {
    /// The producer index of a send queue, in blocks.
    #[inline(always)]
    pub fn sq_producer(&self, qp: usize) -> u32 {
        self.qp[qp].sq.load(Ordering::Acquire)
    }

    /// The producer index of a receive queue.
    #[inline(always)]
    pub fn rq_producer(&self, qp: usize) -> u32 {
        self.qp[qp].rq.load(Ordering::Acquire)
    }

    /// The same; from now on a doorbell of the receive queue runs the QP.
    pub fn rq_producer_watched(&self, qp: usize) -> u32 {
        let bells = &self.qp[qp];
        // Before the read, so that a doorbell that this read misses sees it.
        bells.watch.store(1, Ordering::SeqCst);
        bells.rq.load(Ordering::SeqCst)
    }

    /// A doorbell of the receive queue does not run the QP any more.
    pub fn watch_no_more(&self, qp: usize) {
        self.qp[qp].watch.store(0, Ordering::SeqCst);
    }

    /// The producer index of a shared receive queue.
    #[inline(always)]
    pub fn srq_producer(&self, srq: usize) -> u32 {
        self.srq[srq].producer.load(Ordering::Acquire)
    }

    /// Resets the doorbells of a QP to zero (creation, reset); only `function` rings them from now on.
    pub fn reset_qp(&self, qp: usize, function: Option<u16>) {
        let bells = &self.qp[qp];
        bells.owner.store(owner(function), Ordering::Relaxed);
        bells.sq.store(0, Ordering::Relaxed);
        bells.rq.store(0, Ordering::Relaxed);
        bells.watch.store(0, Ordering::Relaxed);
        bells.posted.iter().for_each(|posted| posted.store(0, Ordering::Relaxed));
        bells.life.fetch_add(1, Ordering::Relaxed);
    }

    /// Resets the doorbell of an SRQ to zero; only `function` rings it from now on.
    pub fn reset_srq(&self, srq: usize, function: Option<u16>) {
        let bell = &self.srq[srq];
        bell.owner.store(owner(function), Ordering::Relaxed);
        bell.producer.store(0, Ordering::Relaxed);
        bell.life.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts the interrupts of a function for the process that serves it: bit 0 says that there is one.
#[derive(Plain)]
#[repr(transparent)]
pub(crate) struct ServerBell(pub AtomicU32);

impl ServerBell {
    pub const SERVED: u32 = 1;

    /// Whether a process serves the function to a client.
    pub fn is_served(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::SERVED != 0
    }

    /// An interrupt was raised.
    pub fn ring(&self) {
        if self.is_served() {
            self.0.fetch_add(2, Ordering::Release);
            futex_wake(&self.0, 1);
        }
    }
}
