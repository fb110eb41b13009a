//! Doorbell cells: the producer indices that drivers store and the cards read.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::tables::{MAX_QPS, MAX_SRQS};

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
