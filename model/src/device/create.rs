//! QP creation, reset and end.

use fpga_regs::regs::port;
use fpga_regs::{
    AdminStatus, HashFields, HashFunction, Mtu, QpContext, QpState, QpType, Syndrome, MAX_FRAME,
};

use super::command_error::{Refused, FULL};
use super::qp::{Requester, NO_WQE};
use super::requester::{PSN_WINDOW, TRAIN_BYTES};
use super::segment::MAX_TSO;
use super::tables::MAX_QPS;
use super::wqe::MAX_RING_LOG;
use super::Device;
use crate::env::Env;
use crate::packet::{PortId, PORTS};
use crate::plain::zeroed;

/// Indices below this are never given to QPs.
const FIRST_QP: usize = 16;

/// log2 of more bytes than a frame, or a message that is cut into frames, has: each is one of what PSNs count.
const FRAME_LOG: u8 = 17;
const _: () = assert!(MAX_FRAME < 1 << FRAME_LOG && MAX_TSO < 1 << FRAME_LOG);

impl Device {
    /// CREATE_QP: a QP in RESET.
    pub(super) fn create_qp(
        &mut self,
        f: u16,
        context: &QpContext,
        env: &mut impl Env,
    ) -> Result<u32, Refused> {
        let limits = self.limits;
        let frames = !context.has_srq();
        match context.qp_type() {
            QpType::RC | QpType::UC | QpType::UD | QpType::XRC_SEND | QpType::XRC_RECV => {}
            QpType::RAW_PACKET | QpType::WQ if frames => {}
            QpType::RX_HASH if frames => return self.create_hash_qp(f, context, env),
            _ => return Err((AdminStatus::NOT_SUPPORTED, Syndrome::NONE)),
        }
        let receives_xrc = context.qp_type() == QpType::XRC_RECV;
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
        let for_frames = context.strip_vlan() || context.scatter_fcs();
        if for_frames && !matches!(context.qp_type(), QpType::RAW_PACKET | QpType::WQ) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED));
        }
        if context.max_inline() > limits.max_inline() {
            return Err((AdminStatus::LIMIT, Syndrome::INLINE_TOO_LONG));
        }
        let hold = if receives_xrc { Some(self.free_hold()?) } else { None };
        let q = self.take_place(f, context)?;
        // What an XRC_RECV one has of these, each request says.
        let (pd, send_cq, recv_cq, srq) = match receives_xrc {
            true => (0, 0, 0, 0),
            false => (context.pd(), context.send_cq(), context.recv_cq(), context.srq()),
        };
        let slip = self.fetch_slip();
        let qp = &mut self.qps[q];
        qp.pd = pd;
        qp.send_cq = send_cq as u16;
        qp.recv_cq = recv_cq as u16;
        qp.has_srq = (context.has_srq() || receives_xrc).into();
        qp.srq = srq as u16;
        qp.sq_sig_all = (context.sq_sig_all()).into();
        qp.strip_vlan = context.strip_vlan().into();
        qp.scatter_fcs = context.scatter_fcs().into();
        qp.sq_iova = context.sq_iova().wrapping_add(slip);
        qp.rq_iova = context.rq_iova();
        qp.sq_mask = (1 << context.sq_log()) - 1;
        qp.rq_mask = (1 << context.rq_log()) - 1;
        qp.rq_stride_log = context.rq_stride_log();
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
        Ok(self.qps[q].qpn)
    }

    /// CREATE_QP: one without queues, whose frames go to those of an indirection table.
    fn create_hash_qp(&mut self, f: u16, context: &QpContext, env: &mut impl Env) -> Result<u32, Refused> {
        self.check_pd(f, context.pd())?;
        self.check_table(f, context.table_number())?;
        if context.hash_function() != HashFunction::TOEPLITZ
            || !HashFields::ALL.contains(context.hash_fields())
        {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE));
        }
        let q = self.take_place(f, context)?;
        let qp = &mut self.qps[q];
        qp.pd = context.pd();
        qp.has_srq = false.into();
        self.pds[context.pd() as usize].users += 1;
        self.reset_qp(q, env);
        Ok(self.qps[q].qpn)
    }

    /// A place for a QP of this type, and its number.
    fn take_place(&mut self, f: u16, context: &QpContext) -> Result<usize, Refused> {
        let qps = &self.qps;
        let (places, most) = (self.tables.qp.range(), self.limits.max_qp() as usize);
        // With as few places as that, they need not be counted.
        if places.len() >= most && qps[places].iter().filter(|qp| qp.used.get()).count() >= most {
            return Err(FULL);
        }
        let q = self.tables.qp.take(FIRST_QP..MAX_QPS, |i| qps[i].used.get()).ok_or(FULL)?;
        let qp = &mut self.qps[q];
        qp.generation = qp.generation.wrapping_add(1);
        qp.qpn = u32::from(qp.generation ^ self.salt) << 16 | q as u32;
        qp.used = true.into();
        qp.qp_type = context.qp_type();
        qp.domain = self.functions[f as usize].domain;
        qp.function = f;
        qp.mtu_log = if qp.takes_frames() { FRAME_LOG } else { 10 };
        qp.xrcd = 0;
        qp.attributes = *context;
        qp.attributes.set_qpn(qp.qpn);
        qp.attributes.set_mtu(Mtu::MTU_1024.0);
        Ok(q)
    }

    /// RESET: progress and attributes go back to zero; nothing is flushed (IB spec 10.3.1.1).
    pub(super) fn reset_qp(&mut self, q: usize, env: &mut impl Env) {
        self.islands_void = true.into();
        self.timers.disarm(q, &mut self.qps);
        self.keep_counters(q);
        self.forget_kept(q);
        let qp = &mut self.qps[q];
        // How often sending went back stays: packets that have not left yet are compared with it.
        qp.req = Requester { rewinds: qp.req.rewinds, ..zeroed() };
        qp.resp = zeroed();
        qp.attributes.set_rate_limit(0);
        qp.attributes.set_max_burst(0);
        qp.attributes.set_typical_packet(0);
        qp.resources.iter_mut().for_each(|r| r.kind = 0);
        qp.flushing = false.into();
        qp.written = [NO_WQE; 2];
        qp.access = 0;
        qp.waits_until = 0;
        qp.awaited = false.into();
        qp.notifies_at = 0;
        qp.dest = PortId::NOBODY;
        (qp.window, qp.train) = (PSN_WINDOW, TRAIN_BYTES);
        self.set_state(q, QpState::RESET);
        // One without queues has no doorbells.
        let owner = (!matches!(self.qps[q].qp_type, QpType::XRC_RECV | QpType::RX_HASH))
            .then_some(self.qps[q].function);
        env.bells(self.id).reset_qp(q, owner);
    }

    /// Moves a QP's counters to the ports by which its packets leave and arrive.
    pub(super) fn keep_counters(&mut self, q: usize) {
        let qp = &mut self.qps[q];
        let take = core::mem::take::<u64>;
        let (tp, tb, rp, rb) = (
            take(&mut qp.req.packets) + take(&mut qp.resp.tx_packets),
            take(&mut qp.req.bytes) + take(&mut qp.resp.tx_bytes),
            take(&mut qp.resp.packets) + take(&mut qp.req.rx_packets),
            take(&mut qp.resp.bytes) + take(&mut qp.req.rx_bytes),
        );
        let [sent, received] = [qp.leaves, qp.arrives].map(|port| &self.counters[usize::from(port) % PORTS]);
        sent.add(port::TX_PACKETS, tp);
        sent.add(port::TX_BYTES, tb);
        received.add(port::RX_PACKETS, rp);
        received.add(port::RX_BYTES, rb);
    }

    /// DESTROY_QP.
    pub(super) fn free_qp(&mut self, q: usize, env: &mut impl Env) {
        self.reset_qp(q, env);
        env.bells(self.id).reset_qp(q, None);
        for group in 0..self.mcast.len() {
            self.leave_group(group, q as u16, env);
        }
        let qp_type = self.qps[q].qp_type;
        if matches!(qp_type, QpType::RAW_PACKET | QpType::RX_HASH) {
            self.rules.remove_of(q as u16);
        }
        let qp = &mut self.qps[q];
        qp.used = false.into();
        if qp_type == QpType::XRC_RECV {
            // It uses none of what the last request was for.
            qp.xrcd = 0;
            return;
        }
        if qp_type == QpType::RX_HASH {
            self.pds[qp.pd as usize].users -= 1;
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
}
