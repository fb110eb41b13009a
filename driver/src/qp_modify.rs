//! Moving a QP through its states, and asking the card for its attributes.

use fpga_regs::{regs::FeatureSet, AdminOpcode, Command, Mtu, QpContext, QpState, QpType};

use crate::ah::{self, AhAttr};
use crate::card::Card;
use crate::error::{within, Error, Result};
use crate::lock;
use crate::qp::Qp;
use crate::qp_attr::{AttrMask, QpAttr};
use crate::qp_state;
use crate::sq_shape::OPEN;

impl<C: Card> Qp<C> {
    /// Changes the state and the attributes that `mask` names.
    pub fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result<()> {
        self.change(attr, |_| mask)
    }

    /// Goes to `attr.state` with the attributes of `attr` that the step from the present state needs, and no
    /// other. An error if there is no such step.
    pub fn step(&self, attr: &QpAttr) -> Result<()> {
        self.change(attr, |now| {
            let step = qp_state::step_of(self.qp_type(), now, attr.state);
            AttrMask::STATE | step.map_or(AttrMask::empty(), |step| step.required)
        })
    }

    /// From RESET to RTS by [steps](Self::step), whatever `attr.state` is. After an error the QP is in the state
    /// that it has reached.
    pub fn bring_up(&self, attr: &QpAttr) -> Result<()> {
        let steps = [QpState::INIT, QpState::RTR, QpState::RTS];
        steps.into_iter().try_for_each(|state| self.step(&QpAttr { state, ..*attr }))
    }

    /// Changes what the mask names that `mask` gives for the present state.
    fn change(&self, attr: &QpAttr, mask: impl FnOnce(QpState) -> AttrMask) -> Result<()> {
        self.need_states()?;
        let mut control = lock(&self.control);
        let works = matches!(control.state, QpState::RTS | QpState::SQD | QpState::SQE);
        if works || self.qp_type() == QpType::WQ || self.init().is_none() {
            // The card may have moved the QP to SQE or ERR, and others that hold it to any state.
            control.state = self.context()?.state();
        }
        let now = control.state;
        let mask = mask(now);
        if mask.contains(AttrMask::CUR_STATE) && attr.cur_state != now {
            let want = attr.cur_state;
            return Err(Error::Invalid(format!("the QP is in {now}, not in {want} as CUR_STATE says")));
        }
        let next = if mask.contains(AttrMask::STATE) { attr.state } else { now };
        qp_state::check(self.qp_type(), now, next, mask)?;
        self.check_values(attr, mask)?;
        let context = self.encode(attr, mask)?.with_state(next);
        // The card reads the bit of the mask as the value.
        let asked = match attr.en_sqd_async_notify {
            true => mask,
            false => mask.without(AttrMask::EN_SQD_ASYNC_NOTIFY),
        };
        let current = if mask.contains(AttrMask::CUR_STATE) { now.0 } else { 0xff };
        let command = Command::of(AdminOpcode::MODIFY_QP)
            .with_object(self.qpn())
            .with_param0(asked.0.into())
            .with_param1(next.0.into())
            .with_param2(current.into());
        if next == QpState::RESET {
            self.gate(next);
        }
        let done = self.dev.admin().run(command, context.as_bytes());
        if let Err(error) = done {
            self.gate(now);
            return Err(error);
        }
        control.state = next;
        if mask.contains(AttrMask::AV) {
            control.static_rate = attr.ah.static_rate;
        }
        if next == QpState::RESET {
            control.static_rate = 0;
            self.forget(false);
        }
        self.gate(next);
        Ok(())
    }

    /// Opens or closes both queues to posts, as the state says.
    pub(crate) fn gate(&self, state: QpState) {
        if self.init().is_none() {
            return;
        }
        let mut sq = self.sq.lock();
        match qp_state::can_send(state) {
            true => sq.flags |= OPEN,
            false => sq.flags &= !OPEN,
        }
        drop(sq);
        self.rq.lock().open = qp_state::can_receive(state);
    }

    /// The attributes as the card has them.
    pub fn query(&self) -> Result<QpAttr> {
        self.need_states()?;
        let mut control = lock(&self.control);
        let context = self.context()?;
        control.state = context.state();
        let mut attr = decode(&context);
        attr.ah.static_rate = control.static_rate;
        Ok(attr)
    }

    fn need_states(&self) -> Result<()> {
        match self.qp_type() {
            QpType::RX_HASH => {
                Err(Error::Unsupported("states of an RX-hash QP: it works from its creation on"))
            }
            _ => Ok(()),
        }
    }

    fn context(&self) -> Result<QpContext> {
        let mut bytes = [0; QpContext::BYTES];
        self.dev.admin().query(AdminOpcode::QUERY_QP, self.qpn(), &mut bytes)?;
        Ok(QpContext::from_bytes(&bytes))
    }

    /// Checks the values of the attributes that `mask` names.
    fn check_values(&self, attr: &QpAttr, mask: AttrMask) -> Result<()> {
        let dev = &self.dev;
        let limits = dev.limits();
        if mask.contains(AttrMask::PORT) {
            dev.check_port(attr.port)?;
        }
        if mask.contains(AttrMask::AV) {
            ah::check(dev, &attr.ah)?;
        }
        if mask.contains(AttrMask::PATH_MTU) && Mtu(attr.path_mtu).bytes().is_none() {
            return Err(Error::Invalid(format!(
                "PATH_MTU {}: 1 (256 bytes) to 5 (4096 bytes) exist",
                attr.path_mtu
            )));
        }
        if mask.contains(AttrMask::RATE_LIMIT) {
            self.check_pace(attr)?;
        }
        let most = |limit: u32| u64::from(limit.min(255));
        for (bit, what, value, limit) in [
            (
                AttrMask::PKEY_INDEX,
                "PKEY_INDEX",
                attr.pkey_index.into(),
                u64::from(limits.pkey_table_len()).saturating_sub(1),
            ),
            (AttrMask::RQ_PSN, "RQ_PSN", attr.rq_psn.into(), 0xff_ffff),
            (AttrMask::SQ_PSN, "SQ_PSN", attr.sq_psn.into(), 0xff_ffff),
            (AttrMask::DEST_QPN, "DEST_QPN", attr.dest_qpn.into(), 0xff_ffff),
            (AttrMask::TIMEOUT, "TIMEOUT", attr.timeout.into(), 31),
            (AttrMask::RETRY_CNT, "RETRY_CNT", attr.retry_cnt.into(), 7),
            (AttrMask::RNR_RETRY, "RNR_RETRY", attr.rnr_retry.into(), 7),
            (AttrMask::MIN_RNR_TIMER, "MIN_RNR_TIMER", attr.min_rnr_timer.into(), 31),
            (
                AttrMask::MAX_QP_RD_ATOMIC,
                "MAX_QP_RD_ATOMIC",
                attr.max_rd_atomic.into(),
                most(limits.max_qp_init_rd_atom()),
            ),
            (
                AttrMask::MAX_DEST_RD_ATOMIC,
                "MAX_DEST_RD_ATOMIC",
                attr.max_dest_rd_atomic.into(),
                most(limits.max_qp_rd_atom()),
            ),
        ] {
            let value: u64 = value;
            if mask.contains(bit) {
                within(what, value, limit)?;
            }
        }
        if mask.contains(AttrMask::ACCESS_FLAGS) && attr.access.unknown() != 0 {
            return Err(Error::Invalid(format!("access flags {}: some are not known", attr.access)));
        }
        Ok(())
    }

    /// Checks the rate limit and its burst.
    fn check_pace(&self, attr: &QpAttr) -> Result<()> {
        self.dev.need(FeatureSet::PACING, "a rate limit of a QP (RATE_LIMIT)")?;
        let (rate, ethernet) = (attr.rate_limit, self.dev.ethernet());
        let range = ethernet.min_rate_limit()..=ethernet.max_rate_limit();
        if rate != 0 && !range.contains(&rate) {
            let (least, most) = range.into_inner();
            return Err(Error::Invalid(format!(
                "RATE_LIMIT {rate}: {least} to {most} kbit/s exist, or 0 for none"
            )));
        }
        if rate == 0 && (attr.max_burst, attr.typical_packet) != (0, 0) {
            return Err(Error::Invalid("a burst without a rate limit".into()));
        }
        Ok(())
    }

    /// The context for a modify command: only what `mask` names is filled in.
    fn encode(&self, attr: &QpAttr, mask: AttrMask) -> Result<QpContext> {
        let path = &attr.ah;
        let mut all = QpContext::new()
            .with_access(attr.access)
            .with_pkey_index(attr.pkey_index)
            .with_port(attr.port)
            .with_qkey(attr.qkey)
            .with_dgid(path.dgid)
            .with_sgid_index(path.sgid_index)
            .with_flow_label(path.flow_label)
            .with_hop_limit(path.hop_limit)
            .with_traffic_class(path.traffic_class)
            .with_sl(path.sl)
            .with_udp_sport(ah::udp_sport(path.flow_label))
            .with_mtu(attr.path_mtu)
            .with_timeout(attr.timeout)
            .with_retry_cnt(attr.retry_cnt)
            .with_rnr_retry(attr.rnr_retry)
            .with_rq_psn(attr.rq_psn)
            .with_sq_psn(attr.sq_psn)
            .with_max_rd_atomic(attr.max_rd_atomic)
            .with_max_dest_rd_atomic(attr.max_dest_rd_atomic)
            .with_min_rnr_timer(attr.min_rnr_timer)
            .with_dest_qpn(attr.dest_qpn)
            .with_rate_limit(attr.rate_limit)
            .with_max_burst(attr.max_burst)
            .with_typical_packet(attr.typical_packet);
        let mut context = QpContext::new().with_qp_type(self.qp_type()).with_qpn(self.qpn());
        if mask.contains(AttrMask::AV) {
            all.set_dmac(ah::resolve(&self.dev, path)?);
            all.set_port(path.port);
            context.set_port(path.port);
        }
        context.take(&all, mask);
        Ok(context)
    }
}

fn decode(context: &QpContext) -> QpAttr {
    QpAttr {
        state: context.state(),
        cur_state: context.state(),
        path_mtu: context.mtu(),
        qkey: context.qkey(),
        rq_psn: context.rq_psn(),
        sq_psn: context.sq_psn(),
        dest_qpn: context.dest_qpn(),
        access: context.access(),
        ah: AhAttr {
            grh: context.dgid() != [0; 16],
            dgid: context.dgid(),
            sgid_index: context.sgid_index(),
            flow_label: context.flow_label(),
            hop_limit: context.hop_limit(),
            traffic_class: context.traffic_class(),
            sl: context.sl(),
            port: context.port(),
            static_rate: 0,
        },
        pkey_index: context.pkey_index(),
        port: context.port(),
        max_rd_atomic: context.max_rd_atomic(),
        max_dest_rd_atomic: context.max_dest_rd_atomic(),
        min_rnr_timer: context.min_rnr_timer(),
        timeout: context.timeout(),
        retry_cnt: context.retry_cnt(),
        rnr_retry: context.rnr_retry(),
        sq_draining: context.sq_draining(),
        en_sqd_async_notify: false,
        rate_limit: context.rate_limit(),
        max_burst: context.max_burst(),
        typical_packet: context.typical_packet(),
    }
}
