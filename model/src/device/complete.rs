//! Completing send WQEs: in order, in error, or flushed.

use fpga_regs::{Cqe, CqeOpcode, CqeStatus, QpState, Syndrome, WqeCtrl, WqeOpcode};

use super::wqe::fetch_ctrl;
use super::Device;
use crate::env::Env;
use crate::wire::psn;

impl Device {
    /// Completes the oldest WQE, which took `count` PSNs, with success.
    #[inline(always)]
    pub(crate) fn complete_head(&mut self, q: usize, ctrl: &WqeCtrl, count: u32, env: &mut impl Env) {
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

    /// The payload of everything that a UC or UD queue pair has sent is read, which completes it: no answer follows.
    pub(super) fn left(&mut self, q: usize, env: &mut impl Env) {
        let psn = self.qps[q].req.psn;
        self.left_before(q, psn, env);
    }

    /// As [`left`](Self::left), of what is before a PSN.
    pub(crate) fn left_before(&mut self, q: usize, psn: u32, env: &mut impl Env) {
        let qp = &self.qps[q];
        let sends = matches!(qp.state, QpState::RTS | QpState::SQD) && !qp.is_reliable();
        if !sends || !qp.awaits(psn::sub(psn, 1)) {
            return;
        }
        let _ = self.retire(q, psn, env);
        if self.qps[q].req.pending_status != 0 {
            self.check_pending_error(q, env);
        } else if self.qps[q].state == QpState::SQD {
            self.check_drained(q, env);
        }
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
            WqeOpcode::RAW_TSO => CqeOpcode::TSO,
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
        let reliable = qp.is_reliable();
        self.send_cqe(q, index, ctrl.opcode(), ctrl.length(), status, syndrome, env);
        if self.qps[q].req.ci == index {
            self.qps[q].req.ci = index.wrapping_add(Self::wqe_blocks(&ctrl));
        }
        if reliable {
            self.to_error(q, env);
        } else if self.qps[q].state != QpState::ERR {
            // Its CQ was not overrun by that.
            self.set_state(q, QpState::SQE);
            self.flush_send(q, env);
        }
    }

    /// Completes all posted send WQEs with a flush error.
    pub(super) fn flush_send(&mut self, q: usize, env: &mut impl Env) {
        let producer = env.bells(self.id).sq_producer(q);
        self.flush_send_before(q, producer, env);
    }

    /// As [`flush_send`](Self::flush_send), for the WQEs before an index.
    pub(super) fn flush_send_before(&mut self, q: usize, producer: u32, env: &mut impl Env) {
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
        req.again = false.into();
        self.timers.disarm(q, &mut self.qps);
    }
}
