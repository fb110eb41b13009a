//! The requester's other half: answers, what they complete, going back.

use fpga_regs::regs::port;
use fpga_regs::{Access, CqeStatus, QpState, Syndrome, WqeOpcode};

use super::seen::Seen;
use super::wqe::{fetch_ctrl, Wqe};
use super::{Device, Outcome};
use crate::dma::{Addr, DmaFault, Undelivered};
use crate::env::Env;
use crate::packet::{Packet, PORTS};
use crate::wire::{psn, NakCode, Operation, RnrTimer, SyndromeKind};

impl Device {
    /// An ACK, NAK, READ response or atomic acknowledge for QP `q`.
    #[inline]
    pub(super) fn answer(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        let qp = &self.qps[q];
        if !matches!(qp.state, QpState::RTS | QpState::SQD) || !qp.is_reliable() {
            return Outcome::Done;
        }
        if !qp.awaits(p.psn) {
            self.old_answer(q, p, env);
            return Outcome::Done;
        }
        match p.operation {
            Operation::Acknowledge => self.acknowledge(q, p, env),
            _ => {
                if self.response(q, p, env) == Err(Undelivered::Unread) {
                    return Outcome::Unread;
                }
            }
        }
        if self.qps[q].req.keeps.get() {
            self.take_kept_answers(q, env);
        }
        self.resume(q, env);
        Outcome::Done
    }

    /// An answer before what is awaited. Linux rxe refuses the rest of a READ, of which it has answered a part, by the PSN of
    /// its request: that ends the READ, too.
    #[cold]
    fn old_answer(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        let (qp, req) = (&self.qps[q], &self.qps[q].req);
        let refuses =
            matches!(p.syndrome.kind(), SyndromeKind::Nak(code) if code != NakCode::PSN_SEQUENCE_ERROR);
        let begun = psn::diff(p.psn, req.ci_psn) >= 0 && psn::diff(p.psn, req.una) < 0;
        if p.operation != Operation::Acknowledge || !refuses || !begun {
            return;
        }
        if fetch_ctrl(qp, req.ci, env).is_ok_and(|ctrl| ctrl.opcode() == WqeOpcode::READ) {
            let una = req.una;
            self.acknowledge(q, &Packet { psn: una, ..*p }, env);
        }
    }

    /// The memory that a request at a PSN sends cannot be read: a local error of its WQE (IB spec 10.10.2.1), once
    /// all before it are complete. What was sent before it is not sent again for that.
    pub(super) fn request_unread(&mut self, q: usize, psn: u32, env: &mut impl Env) {
        let qp = &self.qps[q];
        // What was not sent again since sending went back is found again when it is.
        if !matches!(qp.state, QpState::RTS | QpState::SQD) || !qp.awaits(psn) || !self.refuses(q, psn) {
            return;
        }
        let (mut index, mut first) = (qp.req.ci, qp.req.ci_psn);
        for _ in 0..=qp.sq_mask {
            // A ring that is gone ends with its first WQE.
            let Ok(ctrl) = fetch_ctrl(qp, index, env) else { break };
            let next = psn::add(first, Self::wqe_packets(qp, &ctrl));
            if psn::diff(psn, next) < 0 {
                break;
            }
            (index, first) = (index.wrapping_add(Self::wqe_blocks(&ctrl)), next);
        }
        if index == qp.req.ci {
            return self.fail_send(q, CqeStatus::LOC_PROT_ERR, Syndrome::LOCAL_DMA, env);
        }
        self.go_back(q);
        self.qps[q].stop_at(index, first);
        self.send_error(q, DmaFault.into(), env);
    }

    /// The acknowledgement of request `p` up to PSN `upto`, without a packet: both cards are in one
    /// segment and no frame is observed. Counts as the packet would. False when it has to be a
    /// packet: the answer to an earlier READ or atomic is still outstanding, and must come first.
    #[inline(always)]
    #[must_use]
    pub fn acknowledged(&mut self, p: &Packet, psn: u32, env: &mut impl Env) -> bool {
        let Some(q) = self.find_qp(p.src_qpn) else {
            self.unclaimed(p.src.port, &Packet { encapsulation: p.encapsulation, ..Packet::BLANK });
            return true;
        };
        let qp = &mut self.qps[q];
        if !matches!(qp.state, QpState::RTS | QpState::SQD) || !qp.awaits(psn) {
            qp.ack_came();
            return true;
        }
        if qp.req.rd_out != 0 {
            return false;
        }
        qp.ack_came();
        if self.advance(q, psn::add(psn, 1), env) {
            self.answer_lost(q, psn, env);
        }
        self.resume(q, env);
        true
    }

    /// Goes on sending when something waits.
    #[inline(always)]
    fn resume(&mut self, q: usize, env: &mut impl Env) {
        if self.qps[q].req.pending_status != 0 {
            self.check_pending_error(q, env);
        }
        let qp = &self.qps[q];
        if qp.req.cur != env.bells(self.id).sq_producer(q) {
            if !self.gathers(q, env) {
                env.send_later(self.id, q as u16);
            }
        } else if qp.state == QpState::SQD {
            self.check_drained(q, env);
        }
    }

    #[inline]
    pub(super) fn acknowledge(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        match p.syndrome.kind() {
            SyndromeKind::Ack { .. } => {
                let lost = self.advance(q, psn::add(p.psn, 1), env);
                if lost {
                    // An answer before this ACK was lost (implied NAK, IB spec 9.7.5.1.5).
                    self.keep_answer(q, p, env);
                }
            }
            SyndromeKind::RnrNak(timer) => {
                let lost = self.advance(q, p.psn, env);
                match self.refuses(q, p.psn) {
                    false => {}
                    true if lost => self.retry(q, env),
                    true => self.rnr_nak(q, timer, env),
                }
            }
            SyndromeKind::Nak(NakCode::PSN_SEQUENCE_ERROR) => {
                self.advance(q, p.psn, env);
                if self.refuses(q, p.psn) {
                    self.count(p.dst.port, port::SEQUENCE_NAK);
                    self.send_missing(q, p, env);
                }
            }
            SyndromeKind::Nak(code) => {
                let lost = self.advance(q, p.psn, env);
                let (status, syndrome) = match code {
                    NakCode::INVALID_REQUEST => (CqeStatus::REM_INV_REQ_ERR, Syndrome::NAK_INVALID_REQUEST),
                    NakCode::REMOTE_ACCESS_ERROR => (CqeStatus::REM_ACCESS_ERR, Syndrome::NAK_REMOTE_ACCESS),
                    _ => (CqeStatus::REM_OP_ERR, Syndrome::NAK_REMOTE_OPERATION),
                };
                if !lost {
                    self.fail_send(q, status, syndrome, env);
                } else if self.refuses(q, p.psn) {
                    self.retry(q, env);
                }
            }
            SyndromeKind::Reserved => {}
        }
    }

    /// Whether a NAK of this PSN is news: what was not sent again since sending went back was not refused again.
    fn refuses(&self, q: usize, psn: u32) -> bool {
        psn::diff(psn, self.qps[q].req.psn) < 0
    }

    /// READ response or atomic acknowledge.
    pub(super) fn response(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Result<(), Undelivered> {
        if self.advance(q, p.psn, env) || self.qps[q].req.una != p.psn {
            // Ahead of what is expected: a response was lost.
            self.keep_answer(q, p, env);
            return Ok(());
        }
        let qp = &self.qps[q];
        let Ok(wqe) = Wqe::fetch(qp, qp.req.ci, env) else {
            self.fail_send(q, CqeStatus::LOC_PROT_ERR, Syndrome::LOCAL_DMA, env);
            return Ok(());
        };
        let opcode = wqe.ctrl.opcode();
        let count = Self::wqe_packets(qp, &wqe.ctrl);
        let end = psn::add(qp.req.ci_psn, count);
        let (offset, len) = match (p.operation, opcode) {
            (Operation::ReadResponse, WqeOpcode::READ) => {
                let offset = psn::diff(p.psn, qp.req.ci_psn) as u64 * qp.mtu() as u64;
                let left = (wqe.ctrl.length() as u64).saturating_sub(offset);
                let full = (p.count as u64 * qp.mtu() as u64).min(left);
                if p.payload.len() as u64 != full {
                    self.fail_send(q, CqeStatus::BAD_RESP_ERR, Syndrome::BAD_RESPONSE, env);
                    return Ok(());
                }
                (offset, full)
            }
            (Operation::AtomicAcknowledge, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD) => (0, 8),
            _ => {
                self.fail_send(q, CqeStatus::BAD_RESP_ERR, Syndrome::BAD_RESPONSE, env);
                return Ok(());
            }
        };
        let (mut done, mut unread) = (0usize, false);
        let original = p.compare.to_le_bytes();
        let scatter = self.walk_sges(
            q,
            &wqe,
            Access::LOCAL_WRITE,
            offset,
            len,
            env,
            &mut |at: Addr, n: u64, env: &mut _| {
                let n = n as usize;
                if p.operation == Operation::AtomicAcknowledge {
                    Env::write(env, at, &original[done..done + n])?;
                } else if let Err(undelivered) = Env::deliver(env, at, &p.payload, done, n) {
                    unread = undelivered == Undelivered::Unread;
                    return Err(DmaFault);
                }
                done += n;
                Ok(())
            },
        );
        if unread {
            return Err(Undelivered::Unread);
        }
        if let Err(error) = scatter {
            self.fail_send(q, error.status, error.syndrome, env);
            return Ok(());
        }
        let req = &mut self.qps[q].req;
        req.una = psn::add(p.psn, p.count);
        let ended = self.qps[q].req.una == end;
        // A READ may be of several requests, each with an answer of its own. What is asked for again has no more of them.
        if ended || self.qps[q].ends_part(offset as u32 + len as u32) {
            self.qps[q].req.rd_out = self.qps[q].req.rd_out.saturating_sub(1);
        }
        if ended {
            self.complete_head(q, &wqe.ctrl, count, env);
        }
        // Local operations after it are done, and waited only for it.
        let una = self.qps[q].req.una;
        let _ = self.retire(q, una, env);
        self.progress(q, env);
        Ok(())
    }

    /// An answer acknowledges what is before PSN `upto`: as [`retire`](Self::retire), and the retry counters are reset.
    #[inline]
    pub(super) fn advance(&mut self, q: usize, upto: u32, env: &mut impl Env) -> bool {
        let before = self.qps[q].req.una;
        let lost = self.retire(q, upto, env);
        if self.qps[q].req.una != before {
            self.progress(q, env);
        }
        lost
    }

    /// Completes WQEs in order up to PSN `upto` (exclusive), of what was sent. True when a READ or atomic before
    /// `upto` has not been answered.
    #[inline]
    pub(super) fn retire(&mut self, q: usize, upto: u32, env: &mut impl Env) -> bool {
        let lost = self.retire_sent(q, upto, env);
        self.qps[q].catch_up();
        lost
    }

    #[inline(always)]
    fn retire_sent(&mut self, q: usize, upto: u32, env: &mut impl Env) -> bool {
        loop {
            let qp = &self.qps[q];
            let req = &qp.req;
            if !qp.waits() {
                return false;
            }
            let ctrl = if req.head_index == req.ci && req.head_cached.get() {
                req.head
            } else {
                let Ok(ctrl) = fetch_ctrl(qp, req.ci, env) else { return false };
                ctrl
            };
            let count = Self::wqe_packets(qp, &ctrl);
            let end = psn::add(req.ci_psn, count);
            let reached = psn::diff(upto, end) >= 0;
            if is_request(ctrl.opcode()) {
                // Answered requests complete in `response`.
                return psn::diff(upto, req.ci_psn) > 0 && psn::diff(upto, req.una) > 0;
            }
            // A part of a message is not all of it, whatever its WQE says by now.
            if !reached || (req.ci == req.cur && !req.again.get()) {
                if psn::diff(upto, req.una) > 0 {
                    self.qps[q].req.una = upto;
                }
                return false;
            }
            if psn::diff(end, req.una) > 0 {
                self.qps[q].req.una = end;
            }
            self.complete_head(q, &ctrl, count, env);
        }
    }

    /// Goes back to the oldest unacknowledged PSN.
    pub(super) fn rewind(&mut self, q: usize, env: &mut impl Env) {
        self.go_back(q);
        env.send_later(self.id, q as u16);
    }

    /// See `Qp::go_back`.
    fn go_back(&mut self, q: usize) {
        self.forget_answers(q);
        let again = self.qps[q].go_back();
        self.counters[usize::from(self.qps[q].port.port)].add(port::RETRANSMITS, again);
    }

    /// A request was on its way out when sending went back, and does not leave: from its packet `from` on it is not sent again.
    pub(crate) fn not_again(&mut self, q: usize, p: &Packet, from: u32) {
        let qp = &self.qps[q];
        let psns = match p.operation {
            Operation::ReadRequest => qp.packets(p.dma_len),
            _ => p.count - from,
        };
        self.counters[usize::from(p.src.port) % PORTS].add(port::RETRANSMITS, u64::from(psns).wrapping_neg());
    }

    /// An answer is missing before the one with this PSN, which has arrived (implied NAK, IB spec 9.7.5.1.5): go back, once, unless
    /// it is on its way.
    pub(super) fn answer_lost(&mut self, q: usize, psn: u32, env: &mut impl Env) {
        let sent = self.qps[q].sent();
        let req = &mut self.qps[q].req;
        if !req.seen.awaits(req.una, psn) {
            req.seen = Seen::asked(req.una, psn, sent);
            self.retry(q, env);
        }
    }

    /// A packet or an answer was lost: go back, or give up.
    pub(super) fn retry(&mut self, q: usize, env: &mut impl Env) {
        let req = &mut self.qps[q].req;
        if req.retry == 0 {
            return self.fail_send(q, CqeStatus::RETRY_EXC_ERR, Syndrome::ACK_TIMEOUT, env);
        }
        req.retry -= 1;
        req.rnr_wait = false.into();
        self.timers.disarm(q, &mut self.qps);
        self.rewind(q, env);
    }

    fn rnr_nak(&mut self, q: usize, timer: RnrTimer, env: &mut impl Env) {
        self.count(self.qps[q].port.port, port::RNR_NAK_RECEIVED);
        let req = &mut self.qps[q].req;
        if req.rnr == 0 {
            return self.fail_send(q, CqeStatus::RNR_RETRY_EXC_ERR, Syndrome::RNR_NAK, env);
        }
        if req.rnr != 7 {
            req.rnr -= 1;
        }
        req.rnr_wait = true.into();
        let at = env.now() + timer.nanoseconds();
        self.timers.arm(q, &mut self.qps, at);
        env.timer(at);
        // Nothing is sent until the timer; what was sent after the refused packet is lost.
        self.go_back(q);
    }

    /// Progress was made: the retry counters and the timer start again.
    #[inline(always)]
    fn progress(&mut self, q: usize, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        qp.req.retry = qp.attributes.retry_cnt();
        qp.req.rnr = qp.attributes.rnr_retry();
        if qp.req.armed.get() {
            // What was refused for want of a receive was taken after all.
            qp.req.rnr_wait = false.into();
            // Armed again at the end of the run if something is still outstanding.
            self.timers.disarm(q, &mut self.qps);
            env.watch(self.id, q as u16);
        }
    }
}

/// READ and atomics: answered by a response, not by an ACK.
#[inline]
pub(super) fn is_request(opcode: WqeOpcode) -> bool {
    matches!(opcode, WqeOpcode::READ | WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD)
}
