//! QP creation, state changes, attributes.

use fpga_regs::regs::port;
use fpga_regs::{AdminStatus, Mtu, QpAttrMask, QpContext, QpState, QpType, Syndrome};

use super::qp::{IDLE, NO_WQE};
use super::raw::MAX_FRAME;
use super::requester::{PSN_WINDOW, TRAIN_BYTES};
use super::tables::MAX_QPS;
use super::wqe::MAX_RING_LOG;
use super::Device;
use crate::env::Env;
use crate::packet::{PortId, PORTS};
use crate::wire::path::gid_to_ipv4;

/// What a command fails with.
pub(super) type Refused = (AdminStatus, Syndrome);

/// Indices below this are never given to QPs.
const FIRST_QP: usize = 16;

/// log2 of more bytes than a frame has: each is one of what PSNs count.
const FRAME_LOG: u8 = 14;
const _: () = assert!(MAX_FRAME < 1 << FRAME_LOG);

impl Device {
    /// CREATE_QP: a QP in RESET.
    pub(super) fn create_qp(
        &mut self,
        f: u16,
        context: &QpContext,
        env: &mut impl Env,
    ) -> Result<u32, Refused> {
        let limits = self.limits;
        let receives_xrc = match context.qp_type() {
            QpType::RC | QpType::UC | QpType::UD | QpType::XRC_SEND => false,
            QpType::XRC_RECV => true,
            QpType::RAW_PACKET if env.carries_frames() && !context.has_srq() => false,
            _ => return Err((AdminStatus::NOT_SUPPORTED, Syndrome::NONE)),
        };
        let mut xrcd = 0;
        if receives_xrc {
            xrcd = self.check_xrcd(f, context.xrcd())?;
        } else {
            self.check_pd(f, context.pd())?;
            let cqs = [self.check_cq(f, context.send_cq())?, self.check_cq(f, context.recv_cq())?];
            self.check_overrun(cqs)?;
        }
        if context.has_srq() {
            let srq = self.check_srq(f, context.srq())?;
            if receives_xrc || self.srqs[srq].xrcd != 0 {
                return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED));
            }
        }
        if context.sq_log() > MAX_RING_LOG
            || context.rq_log() > 16
            || context.rq_stride_log() > 10
            || (!context.has_srq() && !receives_xrc && context.rq_stride_log() < 4)
        {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE));
        }
        if context.max_inline() > limits.max_inline() {
            return Err((AdminStatus::LIMIT, Syndrome::INLINE_TOO_LONG));
        }
        let qps = &self.qps;
        if qps[self.tables.qp.range()].iter().filter(|qp| qp.used.get()).count() >= limits.max_qp() as usize {
            return Err((AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL));
        }
        let hold = if receives_xrc { Some(self.free_hold()?) } else { None };
        let qps = &self.qps;
        let q = self
            .tables
            .qp
            .take(FIRST_QP..MAX_QPS, |i| qps[i].used.get())
            .ok_or((AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL))?;
        let domain = self.functions[f as usize].domain;
        // What an XRC_RECV one has of these, each request says.
        let (pd, send_cq, recv_cq, srq) = match receives_xrc {
            true => (0, 0, 0, 0),
            false => (context.pd(), context.send_cq(), context.recv_cq(), context.srq()),
        };
        let slip = self.fetch_slip();
        let qp = &mut self.qps[q];
        qp.generation = qp.generation.wrapping_add(1);
        let qpn = (qp.generation as u32) << 16 | q as u32;
        qp.used = true.into();
        qp.qpn = qpn;
        qp.qp_type = context.qp_type();
        qp.pd = pd;
        qp.domain = domain;
        qp.function = f;
        qp.send_cq = send_cq as u16;
        qp.recv_cq = recv_cq as u16;
        qp.has_srq = (context.has_srq() || receives_xrc).into();
        qp.srq = srq as u16;
        qp.sq_sig_all = (context.sq_sig_all()).into();
        qp.sq_iova = context.sq_iova().wrapping_add(slip);
        qp.rq_iova = context.rq_iova();
        qp.sq_mask = (1 << context.sq_log()) - 1;
        qp.rq_mask = (1 << context.rq_log()) - 1;
        qp.rq_stride_log = context.rq_stride_log();
        qp.mtu_log = if qp.qp_type == QpType::RAW_PACKET { FRAME_LOG } else { 10 };
        qp.mcast_groups = 0;
        qp.xrcd = 0;
        qp.attributes = *context;
        qp.attributes.set_qpn(qpn);
        qp.attributes.set_mtu(Mtu::MTU_1024.0);
        match hold {
            Some(h) => {
                self.qps[q].xrcd = self.xrcds[xrcd].domain;
                self.hold(h, xrcd, q);
            }
            None => {
                self.pds[context.pd() as usize].users += 1;
                self.cqs[context.send_cq() as usize].users += 1;
                self.cqs[context.recv_cq() as usize].users += 1;
                if context.has_srq() {
                    self.srqs[context.srq() as usize].users += 1;
                }
            }
        }
        self.reset_qp(q, env);
        Ok(qpn)
    }

    /// RESET: progress and attributes go back to zero; nothing is flushed (IB spec 10.3.1.1).
    fn reset_qp(&mut self, q: usize, env: &mut impl Env) {
        self.islands_void = true.into();
        self.timers.disarm(q, &mut self.qps);
        self.keep_counters(q);
        let qp = &mut self.qps[q];
        qp.req.ci = 0;
        qp.req.cur = 0;
        qp.req.cur_offset = 0;
        qp.req.again = false.into();
        qp.req.went_back_to = 0;
        qp.req.psn = 0;
        qp.req.una = 0;
        qp.req.ci_psn = 0;
        qp.req.rd_out = 0;
        qp.req.rnr_wait = false.into();
        qp.req.pending_status = 0;
        qp.req.head_cached = false.into();
        qp.resp.epsn = 0;
        qp.resp.msn = 0;
        qp.resp.rq_ci = 0;
        qp.resp.rq_pi = 0;
        qp.resp.offset = 0;
        qp.resp.op = IDLE;
        qp.resp.nak_sent = false.into();
        qp.resp.has_recv = false.into();
        qp.resp.next_resource = 0;
        qp.resp.established = false.into();
        qp.resources.iter_mut().for_each(|r| r.kind = 0);
        qp.flushing = false.into();
        qp.written = [NO_WQE; 2];
        qp.access = 0;
        qp.waits_until = 0;
        qp.awaited = false.into();
        qp.dest = PortId::NOBODY;
        (qp.window, qp.train) = (PSN_WINDOW, TRAIN_BYTES);
        self.set_state(q, QpState::RESET);
        // One that only receives has no doorbells.
        let owner = (self.qps[q].qp_type != QpType::XRC_RECV).then_some(self.qps[q].function);
        env.bells(self.id).reset_qp(q, owner);
    }

    /// Moves a QP's counters to its port.
    fn keep_counters(&mut self, q: usize) {
        let qp = &mut self.qps[q];
        let take = core::mem::take::<u64>;
        let (tp, tb, rp, rb) = (
            take(&mut qp.req.packets) + take(&mut qp.resp.tx_packets),
            take(&mut qp.req.bytes) + take(&mut qp.resp.tx_bytes),
            take(&mut qp.resp.packets) + take(&mut qp.req.rx_packets),
            take(&mut qp.resp.bytes) + take(&mut qp.req.rx_bytes),
        );
        let counters = &self.counters[qp.port.port as usize % PORTS];
        counters.add(port::TX_PACKETS, tp);
        counters.add(port::TX_BYTES, tb);
        counters.add(port::RX_PACKETS, rp);
        counters.add(port::RX_BYTES, rb);
    }

    /// DESTROY_QP.
    pub(super) fn free_qp(&mut self, q: usize, env: &mut impl Env) {
        self.reset_qp(q, env);
        env.bells(self.id).reset_qp(q, None);
        for group in 0..self.mcast.len() {
            self.leave_group(group, q as u16);
        }
        if self.qps[q].qp_type == QpType::RAW_PACKET {
            self.rules.remove_of(q as u16);
        }
        let qp = &mut self.qps[q];
        qp.used = false.into();
        if qp.qp_type == QpType::XRC_RECV {
            // It uses none of what the last request was for.
            qp.xrcd = 0;
            return;
        }
        let (pd, send, recv, srq) = (qp.pd, qp.send_cq, qp.recv_cq, qp.has_srq.get().then_some(qp.srq));
        self.pds[pd as usize].users -= 1;
        self.cqs[send as usize].users -= 1;
        self.cqs[recv as usize].users -= 1;
        if let Some(s) = srq {
            self.srqs[s as usize].users -= 1;
        }
    }

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
        if !legal {
            return Err((AdminStatus::BAD_STATE, Syndrome::WRONG_STATE));
        }
        let queues = self.qps[q].qp_type != QpType::XRC_RECV;
        if queues && !matches!(to, QpState::RESET | QpState::ERR) {
            self.check_overrun([self.qps[q].send_cq.into(), self.qps[q].recv_cq.into()])?;
        }
        self.check_values(a, mask)?;
        let outside = |port: u8| self.outside[usize::from(port.wrapping_sub(1)) % PORTS].on.get();
        let raw = self.qps[q].qp_type == QpType::RAW_PACKET;
        if raw && mask.contains(QpAttrMask::PORT) && outside(a.port()) {
            // Its frames stay in the net.
            return Err((AdminStatus::NOT_SUPPORTED, Syndrome::BAD_PORT));
        }
        self.apply(q, a, mask);
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
        if self.qps[q].state == QpState::RTS {
            // What waits since SQD, SQE or before a change of limits.
            env.send_later(self.id, q as u16);
        }
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
        if bad(QpAttrMask::PORT, a.port() == 0 || a.port() as usize > PORTS) {
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
        if bad(QpAttrMask::AV, a.sgid_index() as usize >= crate::address::GID_TABLE_LEN) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_GID_INDEX));
        }
        Ok(())
    }

    fn apply(&mut self, q: usize, a: &QpContext, mask: QpAttrMask) {
        let id = self.id;
        let dest = self.destination(q, a, mask);
        let qp = &mut self.qps[q];
        let has = |attr| mask.contains(attr);
        let to = &mut qp.attributes;
        if has(QpAttrMask::PORT) {
            to.set_port(a.port());
            qp.port = PortId { card: id, port: a.port() - 1 };
        }
        if has(QpAttrMask::ACCESS_FLAGS) {
            to.set_access(a.access());
            qp.access = a.access().0;
        }
        if has(QpAttrMask::PKEY_INDEX) {
            to.set_pkey_index(a.pkey_index());
        }
        if has(QpAttrMask::QKEY) {
            to.set_qkey(a.qkey());
            qp.qkey = a.qkey();
        }
        if has(QpAttrMask::AV) {
            to.set_sgid_index(a.sgid_index());
            to.set_hop_limit(a.hop_limit());
            to.set_traffic_class(a.traffic_class());
            to.set_sl(a.sl());
            to.set_flow_label(a.flow_label());
            to.set_dgid(a.dgid());
            to.set_dmac(a.dmac());
            to.set_udp_sport(a.udp_sport());
            qp.dest = dest;
            qp.ipv6 = gid_to_ipv4(&a.dgid()).is_none().into();
        }
        if has(QpAttrMask::PATH_MTU) {
            to.set_mtu(a.mtu());
            qp.mtu_log = a.mtu() + 7;
        }
        if has(QpAttrMask::TIMEOUT) {
            to.set_timeout(a.timeout());
        }
        if has(QpAttrMask::RETRY_CNT) {
            to.set_retry_cnt(a.retry_cnt());
            qp.req.retry = a.retry_cnt();
        }
        if has(QpAttrMask::RNR_RETRY) {
            to.set_rnr_retry(a.rnr_retry());
            qp.req.rnr = a.rnr_retry();
        }
        if has(QpAttrMask::RQ_PSN) {
            to.set_rq_psn(a.rq_psn() & 0xff_ffff);
        }
        if has(QpAttrMask::SQ_PSN) {
            to.set_sq_psn(a.sq_psn() & 0xff_ffff);
        }
        if has(QpAttrMask::MAX_QP_RD_ATOMIC) {
            to.set_max_rd_atomic(a.max_rd_atomic());
        }
        if has(QpAttrMask::MAX_DEST_RD_ATOMIC) {
            to.set_max_dest_rd_atomic(a.max_dest_rd_atomic());
        }
        if has(QpAttrMask::MIN_RNR_TIMER) {
            to.set_min_rnr_timer(a.min_rnr_timer());
        }
        if has(QpAttrMask::DEST_QPN) {
            to.set_dest_qpn(a.dest_qpn());
            qp.dest_qpn = a.dest_qpn();
        }
        if qp.qp_type == QpType::UD {
            // A datagram may be as long as the port's MTU.
            qp.mtu_log = self.port.mtu.ilog2() as u8;
        }
        self.set_window(q);
    }
}
