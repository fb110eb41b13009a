//! What is touched without the segment's lock: doorbells, interrupt words, and the bells of processes that serve a card.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::tables::{EQS, MAX_FUNCTIONS, MAX_QPS, MAX_SRQS};
use crate::plain::{plain, Plain};
use crate::segment::futex_wake;
use crate::world::MAX_CARDS;

/// Interrupt words by card, function and vector: each raise adds one and wakes the threads that wait for it.
pub(crate) type Interrupts = [[[AtomicU32; EQS]; MAX_FUNCTIONS]; MAX_CARDS];

/// Doorbells of one QP, in a line of their own: the QPs of two processes share none.
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
    /// In simulated time: the last send and receive doorbells as rung, while they are under way.
    pub posted: [AtomicU32; 2],
}

/// The doorbell of one SRQ.
#[repr(C)]
pub(crate) struct SrqBell {
    /// Producer.
    pub producer: AtomicU32,
    /// Whose it is: see [`owner`].
    pub owner: AtomicU32,
}

/// The word for a function that owns a doorbell, or for nobody. Others may ring as they like: the card hears only its
/// owner.
pub(crate) fn owner(function: Option<u16>) -> u32 {
    function.map_or(0, |function| u32::from(function) + 1)
}

/// Doorbells of one card.
#[repr(C)]
pub(crate) struct Bells {
    /// By QP index.
    pub qp: [QpBells; MAX_QPS],
    /// By SRQ.
    pub srq: [SrqBell; MAX_SRQS],
}

impl Bells {
    /// Initial state of a QP's doorbells.
    pub fn reset_qp(&self, qp: u16, owner: u32) {
        let bells = &self.qp[qp as usize];
        bells.owner.store(owner, Ordering::Relaxed);
        bells.sq.store(0, Ordering::Relaxed);
        bells.rq.store(0, Ordering::Relaxed);
        bells.watch.store(0, Ordering::Relaxed);
        bells.posted.iter().for_each(|posted| posted.store(0, Ordering::Relaxed));
    }

    /// Initial state of an SRQ's doorbell.
    pub fn reset_srq(&self, srq: u16, owner: u32) {
        let bell = &self.srq[srq as usize];
        bell.owner.store(owner, Ordering::Relaxed);
        bell.producer.store(0, Ordering::Relaxed);
    }
}

/// Counts the interrupts of a function for the process that serves it: bit 0 says that there is one.
#[repr(transparent)]
pub(crate) struct ServerBell(pub AtomicU32);

impl Plain for ServerBell {}

impl ServerBell {
    pub const SERVED: u32 = 1;

    /// An interrupt was raised.
    pub fn ring(&self) {
        if self.0.load(Ordering::Relaxed) & Self::SERVED != 0 {
            self.0.fetch_add(2, Ordering::Release);
            futex_wake(&self.0, 1);
        }
    }
}

plain! {
    QpBells { sq, rq, owner, watch, posted }
    SrqBell { producer, owner }
    Bells { qp, srq }
}
