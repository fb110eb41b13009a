//! The requester's other half: answers, completion in order, going back.

use fpga_regs::regs::port;
use fpga_regs::{Access, Cqe, CqeOpcode, CqeStatus, QpState, QpType, Syndrome, WqeCtrl, WqeOpcode};

use super::wqe::{fetch_ctrl, Wqe};
use super::Device;
use crate::env::{Addr, Env, Work};
use crate::packet::{aeth, Kind, Packet};
use crate::wire::psn;

impl Device {
    /// An ACK, NAK, READ response or atomic acknowledge for QP `q`.
    #[inline]
    pub(super) fn answer(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        let qp = &self.qps[q];
        if !matches!(qp.state, QpState::RTS | QpState::SQD) || qp.qp_type != QpType::RC {
            return;
        }
        // Only what is outstanding can be answered (ghosts of an earlier try are dropped).
        let sent = psn::diff(qp.req.psn, qp.req.una);
        let ahead = psn::diff(p.psn, qp.req.una);
        if ahead < 0 || ahead >= sent {
            // A NAK of the next PSN to send can only come after a rewind; it says nothing new.
            return;
        }
        let req = &mut self.qps[q].req;
        req.rx_packets += p.count as u64;
        req.rx_bytes += p.wire_bytes(p.payload.len() as u32);
        match p.kind {
            Kind::Ack => self.acknowledge(q, p, env),
            _ => self.response(q, p, env),
        }
        self.resume(q, env);
    }

    /// The acknowledgement of request `p` up to PSN `upto`, without a packet: both cards are in one
    /// segment and nobody looks at the wire. Counts as the packet would. False when it has to be a
    /// packet: the answer to an earlier READ or atomic is still under way, and must come first.
    #[inline(always)]
    #[must_use]
    pub fn acknowledged(&mut self, p: &Packet, psn: u32, env: &mut impl Env) -> bool {
        let Some(q) = self.find_qp(p.src_qpn) else { return true };
        let qp = &mut self.qps[q];
        if !matches!(qp.state, QpState::RTS | QpState::SQD) || psn::diff(psn, qp.req.una) < 0 {
            return true;
        }
        if qp.req.rd_out != 0 {
            return false;
        }
        qp.req.rx_packets += 1;
        qp.req.rx_bytes += qp.ack_bytes();
        if self.retire(q, psn::add(psn, 1), env) {
            self.answer_lost(q, env);
        } else {
            self.progress(q, env);
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
        if qp.req.cur != env.sq_producer(self.id, q as u16) {
            env.push(Work::Send { card: self.id, qp: q as u16 });
        } else if qp.state == QpState::SQD {
            self.check_drained(q, env);
        }
    }

    #[inline]
    fn acknowledge(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        match p.syndrome >> 5 {
            0 => {
                let upto = psn::add(p.psn, 1);
                if self.retire(q, upto, env) {
                    // An answer before this ACK was lost (implied NAK, IB spec 9.7.5.1.5).
                    self.answer_lost(q, env);
                } else {
                    self.progress(q, env);
                }
            }
            1 => {
                if self.retire(q, p.psn, env) {
                    return self.retry(q, env);
                }
                self.progress_psn_only(q);
                self.rnr_nak(q, p.syndrome & 0x1f, env);
            }
            3 => {
                let before = self.qps[q].req.una;
                let lost = self.retire(q, p.psn, env);
                if self.qps[q].req.una != before {
                    self.progress_psn_only(q);
                }
                match p.syndrome {
                    aeth::NAK_SEQUENCE => {
                        self.count(p.dst.port, port::SEQUENCE_NAK);
                        self.retry(q, env)
                    }
                    _ if lost => self.retry(q, env),
                    aeth::NAK_INVALID_REQUEST => {
                        self.fail_send(q, CqeStatus::REM_INV_REQ_ERR, Syndrome::NAK_INVALID_REQUEST, env)
                    }
                    aeth::NAK_ACCESS => {
                        self.fail_send(q, CqeStatus::REM_ACCESS_ERR, Syndrome::NAK_REMOTE_ACCESS, env)
                    }
                    _ => self.fail_send(q, CqeStatus::REM_OP_ERR, Syndrome::NAK_REMOTE_OPERATION, env),
                }
            }
            _ => {}
        }
    }

    /// READ response or atomic acknowledge.
    fn response(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        if self.retire(q, p.psn, env) {
            return self.answer_lost(q, env);
        }
        let qp = &self.qps[q];
        if qp.req.una != p.psn {
            // Ahead of what is expected: a response was lost.
            return self.answer_lost(q, env);
        }
        let Ok(wqe) = Wqe::fetch(qp, qp.req.ci, env) else {
            return self.fail_send(q, CqeStatus::LOC_PROT_ERR, Syndrome::LOCAL_DMA, env);
        };
        let opcode = wqe.ctrl.opcode();
        let count = Self::wqe_packets(qp, &wqe.ctrl);
        let end = psn::add(qp.req.ci_psn, count);
        let (offset, len) = match (p.kind, opcode) {
            (Kind::ReadResponse, WqeOpcode::READ) => {
                let offset = psn::diff(p.psn, qp.req.ci_psn) as u64 * qp.mtu() as u64;
                let left = (wqe.ctrl.length() as u64).saturating_sub(offset);
                let full = (p.count as u64 * qp.mtu() as u64).min(left);
                if p.payload.len() as u64 != full {
                    return self.fail_send(q, CqeStatus::BAD_RESP_ERR, Syndrome::BAD_RESPONSE, env);
                }
                (offset, full)
            }
            (Kind::AtomicAck, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD) => (0, 8),
            _ => return self.fail_send(q, CqeStatus::BAD_RESP_ERR, Syndrome::BAD_RESPONSE, env),
        };
        let mut done = 0usize;
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
                let result = if p.kind == Kind::AtomicAck {
                    Env::write(env, at, &original[done..done + n])
                } else {
                    Env::deliver(env, at, &p.payload, done, n)
                };
                done += n;
                result
            },
        );
        if let Err(error) = scatter {
            return self.fail_send(q, error.status, error.syndrome, env);
        }
        let req = &mut self.qps[q].req;
        req.una = psn::add(p.psn, p.count);
        if self.qps[q].req.una == end {
            self.qps[q].req.rd_out = self.qps[q].req.rd_out.saturating_sub(1);
            self.complete_head(q, &wqe.ctrl, count, env);
        }
        self.progress(q, env);
    }

    /// Completes WQEs in order up to PSN `upto` (exclusive). True when a READ or atomic before
    /// `upto` has not been answered.
    #[inline]
    pub(super) fn retire(&mut self, q: usize, upto: u32, env: &mut impl Env) -> bool {
        loop {
            let qp = &self.qps[q];
            let req = &qp.req;
            if req.ci == req.cur && req.cur_offset == 0 {
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
            if !reached || req.ci == req.cur {
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

    /// Completes the oldest WQE, which took `count` PSNs, with success.
    #[inline(always)]
    pub(super) fn complete_head(&mut self, q: usize, ctrl: &WqeCtrl, count: u32, env: &mut impl Env) {
        let qp = &self.qps[q];
        let index = qp.req.ci;
        if ctrl.signaled() || qp.sq_sig_all.get() {
            // Before the queue moves on: `recovery` relies on that.
            self.send_cqe(q, index, ctrl.opcode(), ctrl.length(), CqeStatus::SUCCESS, Syndrome::NONE, env);
            if self.qps[q].req.ci != index {
                // The CQ is overrun and the QP flushed.
                return;
            }
        }
        let req = &mut self.qps[q].req;
        req.ci_psn = psn::add(req.ci_psn, count);
        req.ci = index.wrapping_add(Self::wqe_blocks(ctrl));
    }

    /// UC and UD: complete when sent.
    #[inline]
    pub(super) fn complete_unreliable(&mut self, q: usize, wqe: &Wqe, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        let count = Self::wqe_packets(qp, &wqe.ctrl);
        qp.req.ci = wqe.index;
        qp.req.ci_psn = psn::sub(qp.req.psn, count);
        self.complete_head(q, &wqe.ctrl, count, env);
    }

    /// The CQE of a send WQE.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn send_cqe(
        &mut self,
        q: usize,
        index: u32,
        opcode: WqeOpcode,
        length: u32,
        status: CqeStatus,
        syndrome: Syndrome,
        env: &mut impl Env,
    ) {
        let qp = &self.qps[q];
        let mut cqe = Cqe::default();
        cqe.set_wqe_index(index);
        cqe.set_qpn(qp.qpn);
        cqe.set_status(status);
        cqe.set_syndrome(syndrome);
        cqe.set_byte_len(length);
        cqe.set_opcode(match opcode {
            WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM => CqeOpcode::RDMA_WRITE,
            WqeOpcode::READ => CqeOpcode::RDMA_READ,
            WqeOpcode::CMP_SWAP => CqeOpcode::COMP_SWAP,
            WqeOpcode::FETCH_ADD => CqeOpcode::FETCH_ADD,
            WqeOpcode::BIND_MW => CqeOpcode::BIND_MW,
            WqeOpcode::LOCAL_INV => CqeOpcode::LOCAL_INV,
            _ => CqeOpcode::SEND,
        });
        let cq = qp.send_cq;
        self.push_cqe(cq, cqe, status != CqeStatus::SUCCESS, env);
    }

    /// The oldest WQE fails: its CQE, then the QP leaves RTS and the rest is flushed in order.
    pub(super) fn fail_send(&mut self, q: usize, status: CqeStatus, syndrome: Syndrome, env: &mut impl Env) {
        let qp = &self.qps[q];
        // A ring that is gone completes as an empty WQE.
        let ctrl = fetch_ctrl(qp, qp.req.ci, env).unwrap_or_default();
        let index = qp.req.ci;
        let reliable = qp.qp_type == QpType::RC;
        self.send_cqe(q, index, ctrl.opcode(), ctrl.length(), status, syndrome, env);
        if self.qps[q].req.ci == index {
            self.qps[q].req.ci = index.wrapping_add(Self::wqe_blocks(&ctrl));
        }
        if reliable {
            self.to_error(q, env);
        } else {
            self.set_state(q, QpState::SQE);
            self.flush_send(q, env);
        }
    }

    /// Completes all posted send WQEs with a flush error.
    pub(super) fn flush_send(&mut self, q: usize, env: &mut impl Env) {
        let producer = env.sq_producer(self.id, q as u16);
        // The first block of a multi-block WQE is the only one with a control segment; sizes are
        // validated so that garbage in the ring cannot make this longer than the ring.
        let mut budget = self.qps[q].sq_mask + 1;
        while budget != 0 {
            let qp = &self.qps[q];
            let left = producer.wrapping_sub(qp.req.ci);
            if left == 0 || left > qp.sq_mask + 1 {
                break;
            }
            let Ok(ctrl) = fetch_ctrl(qp, qp.req.ci, env) else { break };
            let index = qp.req.ci;
            let (status, syndrome) = (CqeStatus::WR_FLUSH_ERR, Syndrome::FLUSH_EARLIER);
            self.send_cqe(q, index, ctrl.opcode(), ctrl.length(), status, syndrome, env);
            self.qps[q].req.ci = index.wrapping_add(Self::wqe_blocks(&ctrl).min(left));
            budget -= 1;
        }
        let req = &mut self.qps[q].req;
        req.cur = req.ci;
        req.cur_offset = 0;
        req.una = req.psn;
        req.ci_psn = req.psn;
        req.rd_out = 0;
        req.pending_status = 0;
        req.rnr_wait = false.into();
        self.timers.disarm(q, &mut self.qps);
    }

    /// Goes back to the oldest unacknowledged PSN.
    pub(super) fn rewind(&mut self, q: usize, env: &mut impl Env) {
        let resent = psn::diff(self.qps[q].req.psn, self.qps[q].req.una).max(0) as u64;
        let own = self.qps[q].port.port as usize;
        *self.counters[own].at(port::RETRANSMITS) += resent;
        let qp = &mut self.qps[q];
        qp.note_begun();
        qp.req.cur = qp.req.ci;
        qp.req.psn = qp.req.una;
        qp.req.cur_offset = (psn::diff(qp.req.una, qp.req.ci_psn).max(0) as u32) << qp.mtu_log;
        qp.req.pending_status = 0;
        qp.req.rd_out = 0;
        env.push(Work::Send { card: self.id, qp: q as u16 });
    }

    /// An answer is missing before one that has come (implied NAK, IB spec 9.7.5.1.5): go back. Those behind it that
    /// were under way still say the same, and nothing new.
    fn answer_lost(&mut self, q: usize, env: &mut impl Env) {
        let req = &mut self.qps[q].req;
        let here = req.una | 1 << 31;
        if req.went_back_to != here {
            req.went_back_to = here;
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
        self.timers.disarm(q, &mut self.qps);
        self.rewind(q, env);
    }

    fn rnr_nak(&mut self, q: usize, timer: u8, env: &mut impl Env) {
        self.count(self.qps[q].port.port, port::RNR_NAK_RECEIVED);
        let req = &mut self.qps[q].req;
        if req.rnr == 0 {
            return self.fail_send(q, CqeStatus::RNR_RETRY_EXC_ERR, Syndrome::RNR_NAK, env);
        }
        if req.rnr != 7 {
            req.rnr -= 1;
        }
        req.rnr_wait = true.into();
        let at = env.now() + super::timers::rnr_nanoseconds(timer);
        self.timers.arm(q, &mut self.qps, at);
        env.timer(at);
        // Nothing is sent until the timer; what was sent after the refused packet is lost.
        let qp = &mut self.qps[q];
        qp.note_begun();
        qp.req.psn = qp.req.una;
        qp.req.cur = qp.req.ci;
        qp.req.cur_offset = (psn::diff(qp.req.una, qp.req.ci_psn).max(0) as u32) << qp.mtu_log;
        qp.req.pending_status = 0;
        qp.req.rd_out = 0;
    }

    /// Progress was made: the retry counters start anew, the timer too.
    #[inline(always)]
    fn progress(&mut self, q: usize, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        qp.req.retry = qp.attributes.retry_cnt();
        qp.req.rnr = qp.attributes.rnr_retry();
        if qp.req.armed.get() && !qp.req.rnr_wait.get() {
            // Armed anew at the end of the run if something is still outstanding.
            self.timers.disarm(q, &mut self.qps);
            env.watch(self.id, q as u16);
        }
    }

    fn progress_psn_only(&mut self, q: usize) {
        let qp = &mut self.qps[q];
        qp.req.retry = qp.attributes.retry_cnt();
    }
}

/// READ and atomics: answered by a response, not by an ACK.
#[inline]
fn is_request(opcode: WqeOpcode) -> bool {
    matches!(opcode, WqeOpcode::READ | WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD)
}
