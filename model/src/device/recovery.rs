//! After the death of a process that ran the card: what it left half done is found and finished.
//!
//! A completion goes in this order: the entry, its phase bit last; the queue's producer index; the
//! event; then the work queue moves on. So each step that was done can be told from one that was not,
//! and every work request completes once.

use fpga_regs::{Cqe, Eqe, EventKind, QpState, QpType, RecvHead};

use super::cq::DISARMED;
use super::tables::{Cq, EQS};
use super::wqe::{bytes, fetch_ctrl};
use super::Device;
use crate::dma::Addr;
use crate::env::Env;
use crate::journal::Entry;
use crate::packet::PortId;
use crate::segment::ISLANDS;

impl Device {
    /// Counts entries that were written and not counted, and wakes who may have missed it: in the queues that a dead
    /// process may have had, those of an island or (none) all.
    pub fn recover_queues(&mut self, island: Option<u16>, env: &mut impl Env) {
        let of = |cq: &Cq| island.is_none_or(|island| cq.island.island() == island);
        for f in self.tables.function.range() {
            let used = |cq: &Cq| usize::from(cq.function) == f && (of(cq) || cq.shared.get());
            if island.is_none() || self.cqs[self.tables.cq.range()].iter().any(used) {
                env.with_events(self.id, f as u16, |env, _| {
                    (0..EQS).for_each(|n| self.recover_eq(f, n, env));
                });
            }
        }
        for n in self.tables.cq.range() {
            if self.cqs[n].shared.get() {
                env.with_cq(self.id, n as u16, |env, died| {
                    if died {
                        self.recover_cq(n, env);
                    }
                });
            } else if of(&self.cqs[n]) {
                self.recover_cq(n, env);
            }
        }
        if island.is_none() {
            self.rules.recover();
        }
        for ends in 0..ISLANDS as u16 {
            if island.is_none_or(|island| island == ends) {
                self.ends_cqs[usize::from(ends)] = false.into();
            }
        }
    }

    /// Ends the QPs of overrun CQs: a process that had still to do it may be gone. After [`recover_qp`](Self::recover_qp).
    pub fn end_all_overrun_cqs(&mut self, env: &mut impl Env) {
        for n in self.tables.cq.range() {
            if self.cqs[n].used.get() && self.cqs[n].overrun.get() {
                self.cqs[n].failed = true.into();
            }
        }
        self.end_overrun_cqs(env);
    }

    pub(super) fn recover_eq(&mut self, f: usize, n: usize, env: &mut impl Env) {
        let (function, eq) = (&self.functions[f], self.functions[f].eqs[n]);
        if !function.used.get() || !eq.used.get() {
            return;
        }
        let ring = Addr { iova: eq.ring, domain: function.domain };
        let at = ring.add(u64::from(eq.pi & eq.mask) * Eqe::BYTES as u64);
        let mut bytes = [0; Eqe::BYTES];
        let written = env.read(at, &mut bytes).is_ok()
            && Eqe::from_bytes(&bytes).phase() == (eq.pi & (eq.mask + 1) == 0);
        if written {
            self.functions[f].eqs[n].pi = eq.pi.wrapping_add(1);
        }
        // An interrupt too many only makes its receiver look.
        env.interrupt(self.id, f as u16, eq.vector);
    }

    pub(super) fn recover_cq(&mut self, n: usize, env: &mut impl Env) {
        let cq = self.cqs[n];
        if !cq.used.get() || cq.overrun.get() {
            return;
        }
        let written = |card: &Device, index: u32, env: &mut _| {
            card.cqe_at(n, index, env).filter(|cqe| cqe.phase() == (index & (cq.mask + 1) == 0))
        };
        if written(self, cq.pi, env).is_some() {
            self.cqs[n].pi = cq.pi.wrapping_add(1);
        }
        if cq.shared.get() {
            if let Some(last) = written(self, self.cqs[n].pi.wrapping_sub(1), env) {
                self.is_written(&last);
            }
        }
        let cq = &mut self.cqs[n];
        (cq.held, cq.due) = (0, 0);
        if cq.armed != DISARMED {
            // Its event may be missing; one too many is allowed.
            let (function, eq) = (cq.function, cq.eq);
            cq.armed = DISARMED;
            cq.told = cq.pi;
            self.push_event(function, eq, EventKind::COMPLETION, 0, n as u32, env);
        }
    }

    fn cqe_at(&self, n: usize, index: u32, env: &mut impl Env) -> Option<Cqe> {
        let cq = &self.cqs[n];
        let mut bytes = [0; Cqe::BYTES];
        env.read(cq.ring.add(((index & cq.mask) as u64) << 6), &mut bytes).ok()?;
        Some(Cqe::from_bytes(&bytes))
    }

    /// What a queue pair sent and was not delivered is lost, and UC and UD get no answer: it is complete. After the QP
    /// under work was recovered, whose last completion may be written already.
    pub fn recover_send(&mut self, q: usize, env: &mut impl Env) {
        let qp = &self.qps[q];
        if qp.used.get() {
            // The journal does not name the members of a group.
            if (qp.qp_type == QpType::UD || qp.takes_frames()) && qp.resp.has_recv.get() {
                self.settle(q, env);
            }
            self.left(q, env);
            self.resume_send(q, env);
        }
    }

    /// Runs a send queue with unfinished requests: a process that is gone may have had that to do.
    pub fn resume_send(&mut self, q: usize, env: &mut impl Env) {
        let qp = &self.qps[q];
        if qp.used.get() && env.bells(self.id).sq_producer(q) != qp.req.ci {
            env.send_later(self.id, q as u16);
        }
    }

    /// The QP was under work: its context may be half changed, so it goes to error. Gives its peer. Two kinds go on. Who posts
    /// receives runs raw packet queue pairs of others that wait for them; and something may have been delivered to a UD queue
    /// pair by others than its own process: nothing of it was changed but what `settle` makes whole.
    pub fn recover_qp(&mut self, q: usize, work: &Entry, env: &mut impl Env) -> Option<(PortId, u32)> {
        if !self.qps.get(q)?.used.get() {
            return None;
        }
        self.settle(q, env);
        let qp = &self.qps[q];
        let peer = qp.is_reliable().then_some((qp.dest, qp.dest_qpn));
        match qp.qp_type {
            QpType::RAW_PACKET if work.anothers => self.send_frames_again(q),
            QpType::UD if work.pair => {}
            _ => self.abort_qp(q, env),
        }
        peer
    }

    /// Whether a queue pair is of a process.
    pub fn is_of(&self, q: usize, process: u16) -> bool {
        let function = self.functions.get(usize::from(self.qps[q].function));
        function.is_some_and(|function| function.domain == process)
    }

    /// A raw packet queue pair sends again from the oldest WQE on that is not complete, whose frame may come twice.
    fn send_frames_again(&mut self, q: usize) {
        self.timers.disarm(q, &mut self.qps);
        let req = &mut self.qps[q].req;
        (req.cur, req.cur_offset, req.again) = (req.ci, 0, false.into());
        (req.psn, req.una) = (req.ci_psn, req.ci_psn);
        (req.rnr_wait, req.pending_status, req.head_cached) = (false.into(), 0, false.into());
    }

    /// Whether the receive WQE in use is the next one of its queue, which did not move on.
    fn is_next(&self, q: usize, env: &mut impl Env) -> bool {
        let qp = &self.qps[q];
        if !qp.has_srq.get() {
            // Its index is that of the queue.
            return qp.recv.index == qp.resp.rq_ci;
        }
        let srq = &self.srqs[qp.srq as usize];
        let at = Addr { iova: srq.ring, domain: srq.domain };
        let next = env.words(at.add(u64::from(srq.ci & srq.mask) << srq.stride_log));
        let posted = srq.ci != env.bells(self.id).srq_producer(qp.srq.into());
        posted
            && next.is_ok_and(|words: [u64; 2]| RecvHead::from_bytes(&bytes(words)).index() == qp.recv.index)
    }

    /// The queues advance past requests whose completion was written last.
    fn settle(&mut self, q: usize, env: &mut impl Env) {
        let qp = &self.qps[q];
        let (qpn, send, recv) = (qp.qpn, qp.send_cq as usize, qp.recv_cq as usize);
        // The index of the WQE that the last entry is of.
        let last = |card: &Device, n: usize, receives: bool, env: &mut _| {
            if card.cqs[n].shared.get() {
                return Some(card.qps[q].written[usize::from(receives)]);
            }
            let cqe = card.cqe_at(n, card.cqs[n].pi.wrapping_sub(1), env)?;
            (cqe.qpn() == qpn && cqe.recv() == receives).then(|| cqe.wqe_index())
        };
        if let Some(index) = last(self, send, false, env) {
            let ci = self.qps[q].req.ci;
            if index == ci && ci != env.bells(self.id).sq_producer(q) {
                let ctrl = fetch_ctrl(&self.qps[q], ci, env).unwrap_or_default();
                self.qps[q].req.ci = ci.wrapping_add(Self::wqe_blocks(&ctrl));
            }
        }
        let written = last(self, recv, true, env);
        let (qp, cq) = (&self.qps[q], &self.cqs[recv]);
        if qp.resp.has_recv.get() {
            // The index of an SRQ's WQE comes again.
            let since = !qp.has_srq.get() || cq.shared.get() || cq.pi != qp.taken_at;
            if since && written == Some(qp.recv.index) {
                self.qps[q].resp.has_recv = false.into();
            } else if self.is_next(q, env) {
                let qp = &mut self.qps[q];
                let taken = match qp.has_srq.get() {
                    true => &mut self.srqs[qp.srq as usize].ci,
                    false => &mut qp.resp.rq_ci,
                };
                *taken = taken.wrapping_add(1);
            }
        } else if qp.state == QpState::ERR && !qp.has_srq.get() && written == Some(qp.resp.rq_ci) {
            // It was being flushed.
            self.qps[q].resp.rq_ci = qp.resp.rq_ci.wrapping_add(1);
        }
    }
}
