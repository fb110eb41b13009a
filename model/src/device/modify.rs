//! State changes and attributes of QPs.

use fpga_regs::{AdminStatus, Mtu, QpAttrMask, QpContext, QpState, QpType, Syndrome};

use super::command_error::{refuse_if, Refused};
use super::pacing::check_pace;
use super::Device;
use crate::env::Env;
use crate::packet::PortId;
use crate::plain::zeroed;

impl Device {
    /// MODIFY_QP. The driver has checked the attributes against the table of the specification; the
    /// card checks what would harm it.
    pub(super) fn modify_qp(
        &mut self,
        q: usize,
        a: &QpContext,
        mask: QpAttrMask,
        to: QpState,
        current: u8,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        if mask.contains(QpAttrMask::STRIP_VLAN) {
            return self.modify_strip_vlan(q, a, mask);
        }
        let from = self.qps[q].state;
        let to = if mask.contains(QpAttrMask::STATE) { to } else { from };
        if mask.contains(QpAttrMask::CUR_STATE) && current != 0xff && current != from.0 {
            return Err((AdminStatus::BAD_STATE, Syndrome::WRONG_STATE));
        }
        let legal = matches!(
            (from, to),
            (_, QpState::RESET | QpState::ERR)
                | (QpState::RESET | QpState::INIT, QpState::INIT)
                | (QpState::INIT, QpState::RTR)
                | (QpState::RTR | QpState::RTS | QpState::SQD | QpState::SQE, QpState::RTS)
                | (QpState::RTS | QpState::SQD, QpState::SQD)
        ) && (from, to) != (QpState::RESET, QpState::ERR);
        let legal = match self.qps[q].qp_type {
            QpType::WQ => matches!(
                (from, to),
                (_, QpState::RESET)
                    | (QpState::RESET, QpState::RTR)
                    | (QpState::RTR | QpState::ERR, QpState::ERR)
            ),
            QpType::RX_HASH => false,
            _ => legal,
        };
        refuse_if(!legal, (AdminStatus::BAD_STATE, Syndrome::WRONG_STATE))?;
        let queues = self.qps[q].qp_type != QpType::XRC_RECV;
        if queues && !matches!(to, QpState::RESET | QpState::ERR) {
            self.check_overrun([self.qps[q].send_cq.into(), self.qps[q].recv_cq.into()])?;
        }
        self.check_values(a, mask)?;
        let raw = self.qps[q].qp_type == QpType::RAW_PACKET;
        if mask.contains(QpAttrMask::RATE_LIMIT) {
            check_pace(raw, a)?;
        }
        if raw && mask.contains(QpAttrMask::PORT) && self.lacks_frames(a.port()) {
            return Err((AdminStatus::NOT_SUPPORTED, Syndrome::BAD_PORT));
        }
        let before = self.qps[q].port;
        self.apply(q, a, mask);
        if self.qps[q].port != before && self.qps[q].qp_type == QpType::UD {
            // It may be in some already.
            env.groups_changed();
        }
        if to == QpState::RTR {
            self.take_turn(q);
        }
        if mask.contains(QpAttrMask::AV) || mask.contains(QpAttrMask::DEST_QPN) {
            self.islands_void = true.into();
        }
        match to {
            QpState::RESET => self.reset_qp(q, env),
            QpState::ERR if from != QpState::ERR => self.to_error(q, env),
            QpState::RTR => {
                let qp = &mut self.qps[q];
                qp.resp.epsn = a.rq_psn() & 0xff_ffff;
                self.set_state(q, to);
            }
            QpState::RTS if from == QpState::RTR => {
                let qp = &mut self.qps[q];
                let psn = a.sq_psn() & 0xff_ffff;
                qp.req.psn = psn;
                qp.req.una = psn;
                qp.req.ci_psn = psn;
                qp.req.retry = qp.attributes.retry_cnt();
                qp.req.rnr = qp.attributes.rnr_retry();
                self.set_state(q, to);
            }
            QpState::SQD => {
                let asked = from == QpState::SQD && self.qps[q].attributes.sq_draining();
                let notify = asked || mask.contains(QpAttrMask::EN_SQD_ASYNC_NOTIFY);
                self.set_state(q, to);
                self.qps[q].attributes.set_sq_draining(notify);
                self.check_drained(q, env);
            }
            _ => self.set_state(q, to),
        }
        if mask.contains(QpAttrMask::RATE_LIMIT) {
            self.frame_goes_on(q, env);
        }
        if self.qps[q].state == QpState::RTS {
            // What waits since SQD, SQE or before a change of limits.
            env.send_later(self.id, q as u16);
        }
        Ok(())
    }

    /// Of a receive work queue in any state.
    fn modify_strip_vlan(&mut self, q: usize, a: &QpContext, mask: QpAttrMask) -> Result<(), Refused> {
        let qp = &mut self.qps[q];
        if qp.qp_type != QpType::WQ || mask != QpAttrMask::STRIP_VLAN {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED));
        }
        qp.strip_vlan = a.strip_vlan().into();
        Ok(())
    }

    /// A CQ that was overrun takes no more completions, so no queue pair can work with it.
    pub(super) fn check_overrun<const N: usize>(&self, cqs: [usize; N]) -> Result<(), Refused> {
        match cqs.iter().any(|&cq| self.cqs[cq].overrun.get()) {
            true => Err((AdminStatus::BAD_STATE, Syndrome::WRONG_STATE)),
            false => Ok(()),
        }
    }

    fn check_values(&self, a: &QpContext, mask: QpAttrMask) -> Result<(), Refused> {
        let range = (AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE);
        let bad = |attr: QpAttrMask, wrong: bool| mask.contains(attr) && wrong;
        let limits = &self.limits;
        if bad(QpAttrMask::PORT, a.port() == 0 || u32::from(a.port()) > self.limits().ports()) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_PORT));
        }
        let out_of_range = bad(QpAttrMask::PATH_MTU, Mtu(a.mtu()).bytes().is_none())
            || bad(QpAttrMask::PKEY_INDEX, a.pkey_index() != 0)
            || bad(QpAttrMask::RETRY_CNT, a.retry_cnt() > 7)
            || bad(QpAttrMask::RNR_RETRY, a.rnr_retry() > 7)
            || bad(QpAttrMask::TIMEOUT, a.timeout() > 31)
            || bad(QpAttrMask::MIN_RNR_TIMER, a.min_rnr_timer() > 31)
            || bad(QpAttrMask::MAX_QP_RD_ATOMIC, a.max_rd_atomic() as u32 > limits.max_qp_init_rd_atom())
            || bad(QpAttrMask::MAX_DEST_RD_ATOMIC, a.max_dest_rd_atomic() as u32 > limits.max_qp_rd_atom());
        if out_of_range {
            return Err(range);
        }
        if bad(QpAttrMask::AV, a.sgid_index() as usize >= crate::gids::GID_TABLE_LEN) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_GID_INDEX));
        }
        Ok(())
    }

    fn apply(&mut self, q: usize, a: &QpContext, mask: QpAttrMask) {
        let id = self.id;
        let dest = self.destination(q, a, mask);
        let port = if mask.contains(QpAttrMask::PORT) { a.port() - 1 } else { self.qps[q].port.port };
        let source = self.gids.source(PortId { card: id, port }, a.sgid_index());
        let qp = &mut self.qps[q];
        let has = |attr| mask.contains(attr);
        let to = &mut qp.attributes;
        to.take(a, mask);
        to.set_rq_psn(to.rq_psn() & 0xff_ffff);
        to.set_sq_psn(to.sq_psn() & 0xff_ffff);
        if has(QpAttrMask::PORT) {
            qp.port = PortId { card: id, port: a.port() - 1 };
            (qp.leaves, qp.arrives) = (qp.port.port, qp.port.port);
        }
        if has(QpAttrMask::ACCESS_FLAGS) {
            qp.access = a.access().0;
        }
        if has(QpAttrMask::QKEY) {
            qp.qkey = a.qkey();
        }
        if has(QpAttrMask::AV) {
            qp.dest = dest;
            qp.encapsulation = source.encapsulation(&a.dgid(), a.sl());
        }
        if has(QpAttrMask::PATH_MTU) {
            qp.mtu_log = a.mtu() + 7;
        }
        if has(QpAttrMask::RETRY_CNT) {
            qp.req.retry = a.retry_cnt();
        }
        if has(QpAttrMask::RNR_RETRY) {
            qp.req.rnr = a.rnr_retry();
        }
        if has(QpAttrMask::DEST_QPN) {
            qp.dest_qpn = a.dest_qpn();
        }
        if has(QpAttrMask::RATE_LIMIT) {
            qp.req.pace = zeroed();
        }
        if qp.qp_type == QpType::UD {
            // A datagram may be as long as the port's MTU.
            qp.mtu_log = self.port.mtu.ilog2() as u8;
        }
        self.set_window(q);
    }
}
