//! Posting receives to a queue pair: entries of one size in a ring, completed in order.
#![allow(unsafe_code)]

use std::sync::atomic::{fence, Ordering};

use fpga_regs::{RqDoorbell, DOORBELL_RQ};

use crate::card::Card;
use crate::error::PostError;
use crate::put::put_recv;
use crate::qp::Qp;
use crate::rq_ring::RqRing;
use crate::spin::Guard;
use crate::wr::Sge;

/// A chain of receives under construction. Holds the RQ's lock; dropping it without [`RecvPost::ring`]
/// posts nothing.
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
    /// Writes one receive. After an error the ones before it are still in the chain: ring or drop it.
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
        // SAFETY: the entry is free, is in the ring and takes max_sge elements.
        unsafe { put_recv(rq.entry(self.head), sges, self.head, 0) };
        rq.remember(self.head, wr_id);
        self.head = self.head.wrapping_add(1);
        Ok(())
    }

    /// Tells the card of the chain: one barrier, one doorbell. Nothing for an empty chain.
    ///
    /// By reference, as [`crate::SendPost::ring`].
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
        let at = fpga_regs::doorbell_page(rq.page()) + DOORBELL_RQ;
        rq.card().doorbell(at, RqDoorbell::new(rq.qpn(), head).0);
    }
}
