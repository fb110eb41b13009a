//! QP state changes that the card itself makes: error, flush, fatal.

use fpga_regs::{Cqe, CqeOpcode, CqeStatus, EventKind, QpState, QpType, Syndrome};

use super::qp::IDLE;
use super::Device;
use crate::env::Env;

impl Device {
    /// Sets the state.
    pub(super) fn set_state(&mut self, q: usize, state: QpState) {
        let qp = &mut self.qps[q];
        qp.state = state;
        qp.attributes.set_state(state);
    }

    /// The QP goes to ERR; everything posted is flushed in order.
    #[allow(clippy::wrong_self_convention)] // A change of state, no conversion.
    pub(super) fn to_error(&mut self, q: usize, env: &mut impl Env) {
        self.set_state(q, QpState::ERR);
        self.flush(q, env);
    }

    /// ERR after the peer's request could not be done, with its asynchronous event.
    pub(super) fn responder_error(&mut self, q: usize, kind: EventKind, env: &mut impl Env) {
        self.to_error(q, env);
        self.qp_event(q, kind, env);
    }

    /// The QP's memory or doorbell makes no sense.
    #[cold]
    pub(super) fn fatal(&mut self, q: usize, env: &mut impl Env) {
        if self.qps[q].state == QpState::ERR {
            return;
        }
        self.set_state(q, QpState::ERR);
        // Of the send queue only what was begun is known to be there.
        let begun = self.qps[q].req.cur;
        self.flush_send_before(q, begun, env);
        let producer = env.bells(self.id).sq_producer(q);
        let qp = &mut self.qps[q];
        qp.req.ci = producer;
        qp.req.cur = producer;
        self.flush(q, env);
        self.qp_event(q, EventKind::QP_FATAL, env);
    }

    /// Flushes what is posted to a QP in ERR: the receive in use, the RQ, the SQ.
    pub(super) fn flush(&mut self, q: usize, env: &mut impl Env) {
        let first = !self.qps[q].flushing.get();
        self.qps[q].flushing = true.into();
        self.forget_kept(q);
        if self.qps[q].resp.has_recv.get() {
            let index = self.qps[q].recv.index;
            self.flush_recv(q, index, env);
            self.qps[q].resp.has_recv = false.into();
        }
        self.qps[q].resp.op = IDLE;
        if !self.qps[q].has_srq.get() {
            let producer = env.bells(self.id).rq_producer_watched(q);
            let left = producer.wrapping_sub(self.qps[q].resp.rq_ci);
            if left <= self.qps[q].rq_mask + 1 {
                for _ in 0..left {
                    let index = self.qps[q].resp.rq_ci;
                    self.flush_recv(q, index, env);
                    self.qps[q].resp.rq_ci = index.wrapping_add(1);
                }
            }
        }
        self.flush_send(q, env);
        if first && self.qps[q].has_srq.get() && self.qps[q].qp_type != QpType::XRC_RECV {
            self.qp_event(q, EventKind::QP_LAST_WQE, env);
        }
    }

    /// Whether a doorbell has not been served yet: there is something to send, or to flush.
    #[inline]
    pub fn has_work(&self, q: usize, env: &mut impl Env) -> bool {
        let qp = &self.qps[q];
        qp.used.get() && (qp.req.cur != env.bells(self.id).sq_producer(q) || qp.flushing.get())
    }

    /// The process that ran the card died while it worked on this QP: its context may be half
    /// changed, so it goes to error.
    pub fn abort_qp(&mut self, q: usize, env: &mut impl Env) {
        if self
            .qps
            .get(q)
            .is_some_and(|qp| qp.used.get() && qp.state.0 >= QpState::RTR.0 && qp.state != QpState::ERR)
        {
            self.responder_error(q, EventKind::QP_FATAL, env);
        }
    }

    fn flush_recv(&mut self, q: usize, index: u32, env: &mut impl Env) {
        let mut cqe = Cqe::default();
        cqe.set_wqe_index(index);
        cqe.set_qpn(self.qps[q].qpn);
        cqe.set_recv(true);
        cqe.set_opcode(CqeOpcode::RECV);
        cqe.set_status(CqeStatus::WR_FLUSH_ERR);
        cqe.set_syndrome(Syndrome::FLUSH_EARLIER);
        if self.qps[q].qp_type == QpType::XRC_RECV {
            cqe.set_srqn(self.qps[q].srq.into());
            cqe.set_srcqp(self.qps[q].dest_qpn);
        }
        let cq = self.qps[q].recv_cq;
        self.push_cqe(cq, cqe, true, env);
    }
}
