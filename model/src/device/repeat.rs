//! Selective repeat: the requester sends again what is missing, and nothing that follows.

use fpga_regs::regs::port;
use fpga_regs::WqeOpcode;

use super::gather::LocalError;
use super::requester_ack::is_request;
use super::wqe::Wqe;
use super::Device;
use crate::env::Env;
use crate::packet::Packet;
use crate::wire::psn;

/// What has not come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Requests, of which the responder knows nothing.
    Requests,
    /// Answers to READs and atomics, which the responder has taken.
    Answers,
}

/// Why it cannot be sent again like this.
struct Cannot;

impl<E: Into<LocalError>> From<E> for Cannot {
    fn from(_: E) -> Cannot {
        Cannot
    }
}

impl Device {
    /// A NAK of a sequence error: sends again what it says is missing. Of a peer that keeps nothing, that is all.
    pub(super) fn send_missing(&mut self, q: usize, nak: &Packet, env: &mut impl Env) {
        let req = &mut self.qps[q].req;
        if nak.missing == 0 || req.rnr_wait.get() || !self.repeats(q) {
            return self.retry(q, env);
        }
        // It is no retry: the responder has gone on, and where it has not the time-out is one.
        self.timers.disarm(q, &mut self.qps);
        env.watch(self.id, q as u16);
        if self.repeat(q, (nak.psn, nak.missing.into()), Missing::Requests, env).is_err() {
            self.rewind(q, env);
        }
    }

    /// Asks for answers again that have not come: those with `count` PSNs from `from` on.
    pub(super) fn ask_again(&mut self, q: usize, from: u32, count: u32, env: &mut impl Env) {
        if self.repeat(q, (from, count), Missing::Answers, env).is_err() {
            self.answer_lost(q, psn::add(from, count), env);
        }
    }

    /// Goes through the WQEs that were sent.
    fn repeat(
        &mut self,
        q: usize,
        (from, count): (u32, u32),
        what: Missing,
        env: &mut impl Env,
    ) -> Result<(), Cannot> {
        let qp = &self.qps[q];
        let (mut index, mut first, blocks) = (qp.req.ci, qp.req.ci_psn, qp.sq_mask + 1);
        let behind = |at: u32, other: u32| psn::diff(at, other) < 0;
        let end = psn::add(from, count);
        let end = if behind(qp.sent(), end) { qp.sent() } else { end };
        let mut left = blocks;
        while behind(first, end) {
            let wqe = Wqe::fetch(&self.qps[q], index, env)?;
            let next = psn::add(first, Self::wqe_packets(&self.qps[q], &wqe.ctrl));
            if behind(from, next) {
                let begin = if behind(first, from) { from } else { first };
                let end = if behind(next, end) { next } else { end };
                self.repeat_wqe(q, (&wqe, first), (begin, end), what, env)?;
            }
            // A ring that was written over ends.
            left = left.checked_sub(Self::wqe_blocks(&wqe.ctrl)).ok_or(Cannot)?;
            (index, first) = (index.wrapping_add(Self::wqe_blocks(&wqe.ctrl)), next);
        }
        Ok(())
    }

    /// Sends again what has PSNs from `begin` to `end` of a WQE whose first one is `first`.
    fn repeat_wqe(
        &mut self,
        q: usize,
        (wqe, first): (&Wqe, u32),
        (begin, end): (u32, u32),
        what: Missing,
        env: &mut impl Env,
    ) -> Result<(), Cannot> {
        let opcode = wqe.ctrl.opcode();
        let request = is_request(opcode);
        if what == Missing::Answers && !request {
            return Ok(());
        }
        // Keys are invalidated by who has all the cards, who sends from the queue.
        if opcode == WqeOpcode::SEND_WITH_INV || !wqe.well_formed(self.qps[q].qp_type) {
            return Err(Cannot);
        }
        let (length, own) = (wqe.ctrl.length(), self.qps[q].port.port as usize);
        let mut at = begin;
        while psn::diff(at, end) < 0 {
            let qp = &self.qps[q];
            let offset = (psn::diff(at, first) as u32) << qp.mtu_log;
            let missing = (psn::diff(end, at) as u32) << qp.mtu_log;
            let left = length.checked_sub(offset).ok_or(Cannot)?;
            let (count, sent, bytes) = match opcode {
                WqeOpcode::READ => {
                    let part = qp.read_part(offset, length);
                    let want = if what == Missing::Answers { part.min(missing) } else { part };
                    let count = qp.packets(want);
                    (count, 1, self.request_part(q, wqe, (offset, want), at, env))
                }
                _ if request => (1, 1, self.request_part(q, wqe, (0, length), at, env)),
                _ => {
                    let want = left.min(missing).min(qp.train);
                    let train = self.message_part(q, wqe, (offset, want), at, env)?;
                    (train.count, train.count, train.bytes)
                }
            };
            let req = &mut self.qps[q].req;
            req.packets += u64::from(sent);
            req.bytes += bytes;
            self.counters[own].add(port::RETRANSMITS, u64::from(count));
            at = psn::add(at, count);
        }
        Ok(())
    }
}
