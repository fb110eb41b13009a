//! Polling: from a completion queue entry to a work completion.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use fpga_regs::{Cqe, MAX_WQE_BLOCKS};

use crate::card::Card;
use crate::cq::Cq;
use crate::cq_ring::CqRing;
use crate::device::CHECK_EVERY;
use crate::error::CqError;
use crate::qp_table::QpLine;
use crate::spin::{Guard, Spin};
use crate::sq_ring::SqRing;
use crate::wc::{Wc, WcFlags};

impl<C: Card> Cq<C> {
    /// Gives up to `max` completions to `sink`, and returns their number.
    ///
    /// `sink` runs under the CQ's lock: it must not poll the same CQ.
    #[inline]
    pub fn poll(&self, max: usize, mut sink: impl FnMut(Wc)) -> Result<usize, CqError> {
        let mut again = true;
        loop {
            let mut ring = self.hot.lock();
            let found = ring.reap(max, &mut sink, |qpn| self.expect_posts(qpn))?;
            if found != 0 {
                ring.empty = 0;
                drop(ring);
                self.dev.card().polled(found);
                return Ok(found);
            }
            if !again || max == 0 {
                return Ok(0);
            }
            again = false;
            self.idle(ring)?;
        }
    }

    /// How many completions wait to be polled. Where there is none, this too lets the card work, as a poll does.
    pub fn waiting(&self) -> u32 {
        let ring = self.hot.lock();
        let found = if ring.closed() { 0 } else { ring.pending() };
        if found != 0 {
            return found;
        }
        // What is found of a lost card is for the next poll.
        let _ = self.idle(ring);
        0
    }

    /// There is no completion: lets the card work. From time to time a card that may vanish is looked for.
    #[inline]
    fn idle(&self, mut ring: Guard<'_, CqRing>) -> Result<(), CqError> {
        let empty = ring.empty;
        ring.empty = empty.saturating_add(1);
        drop(ring);
        self.dev.card().relax(empty);
        if empty % CHECK_EVERY == CHECK_EVERY - 1 && self.dev.card().may_vanish() {
            self.dev.check_polled()?;
        }
        Ok(())
    }

    /// The `wr_id` of the latest completion that waits to be polled, if that is of a send.
    pub fn latest_send(&self) -> Option<u64> {
        let ring = self.hot.lock();
        if ring.closed() || ring.pending() == 0 {
            return None;
        }
        let cqe = ring.get(ring.consumer().wrapping_add(ring.pending()).wrapping_sub(1))?;
        let line = ring.table.line(cqe.qpn());
        let ours = line.is(cqe.qpn()) && !cqe.recv() && line.send_cqn.load(Ordering::Relaxed) == ring.cqn;
        ours.then(|| sent(line, cqe.wqe_index())).flatten().map(|(wr_id, _)| wr_id)
    }

    /// A send of this QP has completed: fetches the lines that the next post writes first.
    #[inline]
    fn expect_posts(&self, qpn: u32) {
        let sq = self.dev.qps.line(qpn).sq.load(Ordering::Relaxed).cast_const().cast::<Spin<SqRing<C>>>();
        // SAFETY: null, or of a QP of this device, which lives until its line is emptied under the lock of this CQ,
        // which the caller holds.
        if let Some(sq) = unsafe { sq.as_ref() } {
            sq.glance(SqRing::expect_posts);
        }
        self.dev.card().expect_posts(qpn);
    }
}

impl CqRing {
    #[inline]
    fn reap(
        &mut self,
        max: usize,
        sink: &mut impl FnMut(Wc),
        expect_posts: impl Fn(u32),
    ) -> Result<usize, CqError> {
        if self.closed() {
            return Err(CqError::Destroyed);
        }
        let mut found = 0;
        while found < max {
            let index = self.consumer();
            let Some(cqe) = self.get(index) else { break };
            // Before the work request's place in its queue is freed: a request posted there may complete at
            // once, and the card must find room for its entry.
            self.consume_to(index.wrapping_add(1));
            match self.complete(&cqe) {
                Outcome::Done(wr_id) => {
                    // With many QPs in turn, the lines that a post writes first have left the cache; those of a single QP have not.
                    if !cqe.recv() && cqe.qpn() != self.last_sender {
                        self.last_sender = cqe.qpn();
                        expect_posts(cqe.qpn());
                    }
                    sink(completion(&cqe, wr_id));
                    found += 1;
                }
                Outcome::Stale => (),
                Outcome::Bad if found != 0 => {
                    // The next poll reports it.
                    self.consume_to(index);
                    break;
                }
                Outcome::Bad => return Err(CqError::BadEntry { qpn: cqe.qpn(), index: cqe.wqe_index() }),
            }
        }
        Ok(found)
    }

    /// Finds the work request of an entry, and frees its place in the queue.
    #[inline]
    fn complete(&self, cqe: &Cqe) -> Outcome {
        let qpn = cqe.qpn();
        let line = self.table.line(qpn);
        if !line.is(qpn) {
            return self.complete_extended(cqe);
        }
        if !cqe.recv() {
            if line.send_cqn.load(Ordering::Relaxed) != self.cqn {
                return Outcome::Stale;
            }
            complete_send(line, cqe.wqe_index())
        } else {
            if line.recv_cqn.load(Ordering::Relaxed) != self.cqn {
                return Outcome::Stale;
            }
            complete_recv(line, cqe.wqe_index())
        }
    }
}

impl CqRing {
    /// The entry of a queue pair that is not this device's: a receive of XRC, which names its SRQ, or of none.
    #[cold]
    fn complete_extended(&self, cqe: &Cqe) -> Outcome {
        // SAFETY: null, or an SRQ that lives until it leaves the table under the lock of this CQ, which the caller holds.
        match unsafe { self.table.srq(cqe.srqn(), self.cqn).as_ref() } {
            Some(srq) if cqe.recv() => match srq.lock().complete(cqe.wqe_index()) {
                Some(wr_id) => Outcome::Done(wr_id),
                None => Outcome::Bad,
            },
            _ => Outcome::Stale,
        }
    }
}

/// What an entry completes.
enum Outcome {
    Done(u64),
    /// Its QP is gone.
    Stale,
    /// Its work request was never posted.
    Bad,
}

/// The work request whose first block is at this index, and where it ends.
#[inline]
fn sent(line: &QpLine, index: u32) -> Option<(u64, u64)> {
    let at = index & line.sq_mask.load(Ordering::Relaxed);
    // SAFETY: a taken line's shadow has sq_mask + 1 entries and stays until the line is emptied under
    // the lock of this CQ, which the caller holds.
    let shadow = unsafe { &*line.sq_shadow.load(Ordering::Relaxed).add(at as usize) };
    let end = shadow.end.load(Ordering::Relaxed);
    let whole = (end as u32).wrapping_sub(index).wrapping_sub(1) < MAX_WQE_BLOCKS as u32;
    whole.then(|| (shadow.wr_id.load(Ordering::Relaxed), end))
}

#[inline]
fn complete_send(line: &QpLine, index: u32) -> Outcome {
    let Some((wr_id, end)) = sent(line, index) else { return Outcome::Bad };
    // After the wr_id was read: the poster may use the blocks, and this entry, again.
    line.sq_retired.store(end, Ordering::Release);
    Outcome::Done(wr_id)
}

#[inline]
fn complete_recv(line: &QpLine, index: u32) -> Outcome {
    let srq = line.srq.load(Ordering::Relaxed);
    if !srq.is_null() {
        // SAFETY: the QP holds a taken line's SRQ until the line is emptied.
        return match unsafe { &*srq }.lock().complete(index) {
            Some(wr_id) => Outcome::Done(wr_id),
            None => Outcome::Bad,
        };
    }
    let mask = line.rq_mask.load(Ordering::Relaxed);
    if index.wrapping_sub(line.rq_retired.load(Ordering::Relaxed)) > mask {
        return Outcome::Bad;
    }
    // SAFETY: as in complete_send, with rq_mask + 1 entries.
    let wr_id = unsafe { &*line.rq_shadow.load(Ordering::Relaxed).add((index & mask) as usize) };
    let wr_id = wr_id.load(Ordering::Relaxed);
    line.rq_retired.store(index.wrapping_add(1), Ordering::Release);
    Outcome::Done(wr_id)
}

#[inline]
fn completion(cqe: &Cqe, wr_id: u64) -> Wc {
    Wc {
        wr_id,
        status: cqe.status(),
        opcode: cqe.opcode(),
        flags: WcFlags::from_bits_retain(cqe.flags()),
        sl: cqe.sl(),
        vendor_err: cqe.syndrome().0.into(),
        byte_len: cqe.byte_len(),
        imm: cqe.imm(),
        qpn: cqe.qpn(),
        src_qp: cqe.srcqp(),
        pkey_index: cqe.pkey_index(),
        vlan_tci: cqe.vlan_tci(),
        frame_kind: cqe.frame_kind(),
        mark: cqe.marked().then(|| cqe.mark()),
        timestamp: cqe.timestamp(),
    }
}
