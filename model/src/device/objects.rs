//! What the admin queue creates and destroys: protection domains, event and completion queues, shared receive queues,
//! multicast groups; and who owns them.

use fpga_regs::{AdminStatus, CqContext, EqContext, QpType, SrqContext, Syndrome};

use super::command_error::{refuse_if, Refused, DMA_FAULT, FULL, NOT_FOUND};
use super::tables::*;
use super::Device;
use crate::address::Gid;
use crate::dma::Addr;
use crate::env::Env;
use crate::packet::PortId;
use crate::plain::zeroed;
use crate::wire::path::multicast_mac;

impl Device {
    pub(super) fn alloc_pd(&mut self, f: u16) -> Result<u32, Refused> {
        let pds = &self.pds;
        let pd = self.tables.pd.take(1..MAX_PDS, |i| pds[i].used.get()).ok_or(FULL)?;
        self.pds[pd] = Pd { used: true.into(), function: f, users: 0 };
        Ok(pd as u32)
    }

    pub(super) fn check_pd(&self, f: u16, pd: u32) -> Result<usize, Refused> {
        owned(self.pds.get(pd as usize).map(|p| (p.used.get(), p.function)), f)?;
        Ok(pd as usize)
    }

    pub(super) fn check_cq(&self, f: u16, cq: u32) -> Result<usize, Refused> {
        owned(self.cqs.get(cq as usize).map(|c| (c.used.get(), c.function)), f)?;
        Ok(cq as usize)
    }

    pub(super) fn check_srq(&self, f: u16, srq: u32) -> Result<usize, Refused> {
        owned(self.srqs.get(srq as usize).map(|s| (s.used.get(), s.function)), f)?;
        Ok(srq as usize)
    }

    pub(super) fn check_qp(&self, f: u16, qpn: u32) -> Result<usize, Refused> {
        let q = self.find_qp(qpn).ok_or(NOT_FOUND)?;
        match self.qps[q].qp_type {
            QpType::XRC_RECV => self.holds(f, q)?,
            _ => owned(Some((true, self.qps[q].function)), f)?,
        }
        Ok(q)
    }

    pub(super) fn create_eq(&mut self, f: u16, e: &EqContext) -> Result<u32, Refused> {
        refuse_if(e.log_size() > 16, (AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE))?;
        refuse_if(e.vector() as usize >= EQS, (AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE))?;
        let eqs = &mut self.functions[f as usize].eqs;
        let Some(n) = eqs.iter().position(|eq| !eq.used.get()) else {
            return Err(FULL);
        };
        eqs[n] = Eq {
            used: true.into(),
            vector: e.vector(),
            mask: (1 << e.log_size()) - 1,
            ring: e.ring_iova(),
            ..zeroed()
        };
        Ok(n as u32)
    }

    fn check_cq_size(&self, c: &CqContext) -> Result<(), Refused> {
        let fits = c.log_size() <= 22 && 1u32 << c.log_size() <= self.limits.max_cqe().next_power_of_two();
        refuse_if(!fits, (AdminStatus::LIMIT, Syndrome::BAD_SIZE))
    }

    pub(super) fn create_cq(&mut self, f: u16, c: &CqContext) -> Result<u32, Refused> {
        self.check_cq_size(c)?;
        let eq = c.vector();
        if eq as usize >= EQS || !self.functions[f as usize].eqs[eq as usize].used.get() {
            return Err((AdminStatus::BAD_PARAM, Syndrome::NO_OBJECT));
        }
        let first = self.first_cqe(1 << c.log_size());
        let cqs = &self.cqs;
        let n = self.tables.cq.take(1..MAX_CQS, |i| cqs[i].used.get()).ok_or(FULL)?;
        self.cqs[n] = Cq {
            ring: Addr { iova: c.ring_iova(), domain: self.functions[f as usize].domain },
            mask: (1 << c.log_size()) - 1,
            pi: first,
            told: first,
            ci: first,
            ci_iova: c.ci_iova(),
            used: true.into(),
            moderation: moderation(c),
            stamped: c.stamped().into(),
            special: c.stamped().into(),
            eq,
            function: f,
            ..zeroed()
        };
        Ok(n as u32)
    }

    /// What is held back and would not be any more, is raised now.
    pub(super) fn modify_cq(&mut self, n: usize, c: &CqContext, env: &mut impl Env) {
        let cq = &mut self.cqs[n];
        cq.moderation = moderation(c);
        if cq.held > 0 && !cq.moderation.holds(cq.held) {
            self.completion_event(n as u16, env);
        }
    }

    /// Moves the CQEs that were not consumed to the new ring. The running indices go on; the driver
    /// holds its side of the CQ meanwhile, so the consumer index record is exact.
    pub(super) fn resize_cq(&mut self, n: usize, c: &CqContext, env: &mut impl Env) -> Result<(), Refused> {
        self.check_cq_size(c)?;
        let cq = self.cqs[n];
        env.settle(cq.ring, (u64::from(cq.mask) + 1) << 6);
        let mut record = [0u8; 4];
        env.read(Addr { iova: cq.ci_iova, domain: cq.ring.domain }, &mut record).map_err(|_| DMA_FAULT)?;
        let ci = u32::from_le_bytes(record);
        let left = cq.pi.wrapping_sub(ci);
        let mask = (1u32 << c.log_size()) - 1;
        refuse_if(left > mask + 1 || left > cq.mask + 1, (AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE))?;
        let ring = Addr { iova: c.ring_iova(), domain: cq.ring.domain };
        for i in 0..left {
            let index = ci.wrapping_add(i);
            let mut bytes = [0u8; 64];
            env.read(cq.ring.add(((index & cq.mask) as u64) << 6), &mut bytes).map_err(|_| DMA_FAULT)?;
            let mut cqe = fpga_regs::Cqe::from_bytes(&bytes);
            cqe.set_phase(index & (mask + 1) == 0);
            env.publish(ring.add(((index & mask) as u64) << 6), cqe.words()).map_err(|_| DMA_FAULT)?;
        }
        let cq = &mut self.cqs[n];
        cq.ring = ring;
        cq.mask = mask;
        cq.ci = ci;
        cq.ci_iova = c.ci_iova();
        Ok(())
    }

    pub(super) fn create_srq(&mut self, f: u16, s: &SrqContext, env: &mut impl Env) -> Result<u32, Refused> {
        let pd = self.check_pd(f, s.pd())?;
        if s.log_size() > 16 || !(4..=10).contains(&s.stride_log()) {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE));
        }
        let (mut opened, mut cq, mut xrcd) = (0, 0, 0);
        if s.xrcd() != 0 {
            (opened, cq) = (self.check_xrcd(f, s.xrcd())?, self.check_cq(f, s.cq())?);
            self.check_overrun([cq])?;
            xrcd = self.xrcds[opened].domain;
        }
        let srqs = &self.srqs;
        let n = self.tables.srq.take(1..MAX_SRQS, |i| srqs[i].used.get()).ok_or(FULL)?;
        self.srqs[n] = Srq {
            used: true.into(),
            stride_log: s.stride_log(),
            max_sge: s.max_sge(),
            domain: self.functions[f as usize].domain,
            function: f,
            pd: pd as u32,
            mask: (1 << s.log_size()) - 1,
            limit: s.limit(),
            ring: s.ring_iova(),
            xrcd,
            cq: cq as u16,
            opened: opened as u16,
            ..zeroed()
        };
        if xrcd != 0 {
            self.xrcds[opened].users += 1;
            self.cqs[cq].users += 1;
        }
        self.pds[pd].users += 1;
        env.bells(self.id).reset_srq(n, Some(f));
        Ok(n as u32)
    }

    pub(super) fn join_group(&mut self, q: usize, gid: [u8; 16], env: &mut impl Env) -> Result<(), Refused> {
        let frames = matches!(self.qps[q].qp_type, QpType::RAW_PACKET | QpType::RX_HASH);
        let raw = frames && gid[10] & 1 != 0;
        let datagrams = self.qps[q].qp_type == QpType::UD && multicast_mac(&gid).is_some();
        refuse_if(!datagrams && !raw, (AdminStatus::BAD_PARAM, Syndrome::NONE))?;
        let found = self.mcast.iter().position(|g| g.count != 0 && g.gid == gid);
        let Some(slot) = found.or_else(|| self.mcast.iter().position(|g| g.count == 0)) else {
            return Err(FULL);
        };
        let group = &mut self.mcast[slot];
        group.gid = gid;
        let n = group.count as usize;
        if group.qps[..n].contains(&(q as u16)) {
            return Ok(());
        }
        refuse_if(n == MAX_MCAST_QPS, (AdminStatus::LIMIT, Syndrome::TABLE_FULL))?;
        group.qps[n] = q as u16;
        group.count += 1;
        env.groups_changed();
        Ok(())
    }

    /// Whether the QP was in the group.
    pub(super) fn leave_group(&mut self, slot: usize, q: u16, env: &mut impl Env) -> bool {
        let group = &mut self.mcast[slot];
        let n = group.count as usize;
        let Some(i) = group.qps[..n].iter().position(|&x| x == q) else { return false };
        group.qps[i] = group.qps[n - 1];
        group.count -= 1;
        env.groups_changed();
        true
    }

    /// The multicast groups in which queue pairs of a port are that receive datagrams.
    pub(crate) fn groups_of(&self, port: PortId) -> Vec<Gid> {
        let of_port = |&q: &u16| {
            let qp = &self.qps[usize::from(q)];
            qp.qp_type == QpType::UD && qp.port == port
        };
        let has_some = |group: &&Mcast| group.qps[..group.count as usize].iter().any(of_port);
        self.mcast.iter().filter(has_some).map(|group| group.gid).collect()
    }
}

fn moderation(c: &CqContext) -> Moderation {
    Moderation { count: c.event_count(), period: c.event_period() }
}

/// An object that exists and belongs to the function.
pub(super) fn owned(object: Option<(bool, u16)>, f: u16) -> Result<(), Refused> {
    match object {
        Some((true, owner)) if owner == f => Ok(()),
        Some((true, _)) => Err((AdminStatus::NOT_FOUND, Syndrome::NOT_OWNER)),
        _ => Err(NOT_FOUND),
    }
}
