//! Doorbell cells: the producer indices that drivers store and the cards read.

use crate::plain::plain;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::device::tables::{MAX_QPS, MAX_SRQS};

/// Doorbells of one QP, in a line of their own: the QPs of two processes share none.
#[repr(C, align(64))]
pub(crate) struct QpBells {
    /// Send queue producer (blocks).
    pub sq: AtomicU32,
    /// Receive queue producer (WQEs).
    pub rq: AtomicU32,
    /// The card wants to be run at receive doorbells (the QP is in error and flushes).
    pub watch: AtomicU32,
    /// In simulated time: the last send and receive doorbells as rung, while they are under way.
    pub posted: [AtomicU32; 2],
}

/// Doorbells of one card.
#[repr(C)]
pub(crate) struct Bells {
    /// By QP index.
    pub qp: [QpBells; MAX_QPS],
    /// SRQ producers.
    pub srq: [AtomicU32; MAX_SRQS],
}

impl Bells {
    /// Initial state of a QP's doorbells.
    pub fn reset_qp(&self, qp: u16) {
        let bells = &self.qp[qp as usize];
        bells.sq.store(0, Ordering::Relaxed);
        bells.rq.store(0, Ordering::Relaxed);
        bells.watch.store(0, Ordering::Relaxed);
        bells.posted.iter().for_each(|posted| posted.store(0, Ordering::Relaxed));
    }
}

plain! {
    QpBells { sq, rq, watch, posted }
    Bells { qp, srq }
}
