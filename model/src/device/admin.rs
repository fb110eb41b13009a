//! The admin queue: fetches commands, executes them, writes replies.

use fpga_regs::regs::Health;
use fpga_regs::{
    Access, AdminOpcode, AdminStatus, Command, CqContext, EqContext, MrContext, MrMode, QpAttrMask,
    QpContext, QpState, Reply, SrqContext, Syndrome,
};

use super::defect::Defect;
use super::modify::Refused;
use super::tables::*;
use super::Device;
use crate::dma::Addr;
use crate::env::Env;

const OK: Syndrome = Syndrome::NONE;

fn refused<T>(status: AdminStatus, syndrome: Syndrome) -> Result<T, Refused> {
    Err((status, syndrome))
}

impl Device {
    /// Executes all commands that the doorbell announced.
    pub(super) fn run_admin(&mut self, f: u16, env: &mut impl Env) {
        if self.defect == Defect::StuckAdmin {
            self.functions[f as usize].health |= Health(0).with_admin_stalled(true).0;
            return;
        }
        loop {
            let fun = &mut self.functions[f as usize];
            let entries = 1u32 << fun.admin_log;
            let waiting = fun.asq_tail.wrapping_sub(fun.asq_head);
            if !fun.enabled.get() || waiting == 0 || waiting > entries {
                return;
            }
            let slot = (fun.asq_head & (entries - 1)) as u64;
            let at = Addr { iova: fun.asq, domain: fun.domain }.add(slot * Command::BYTES as u64);
            fun.asq_head = fun.asq_head.wrapping_add(1);
            let mut bytes = [0u8; Command::BYTES];
            if env.read(at, &mut bytes).is_err() {
                fun.error_cause = fpga_regs::regs::ErrorCause::DMA_READ.0 as u32;
                return;
            }
            let command = Command::from_bytes(&bytes);
            let mut reply = Reply::default().with_tag(command.tag());
            match self.execute_command(f, &command, &mut reply, env) {
                Ok(()) => reply.set_status(AdminStatus::OK),
                Err((status, syndrome)) => {
                    reply.set_status(status);
                    reply.set_syndrome(syndrome);
                }
            }
            let fun = &mut self.functions[f as usize];
            reply.set_phase(fun.acq_tail & entries == 0);
            let slot = (fun.acq_tail & (entries - 1)) as u64;
            let at = Addr { iova: fun.acq, domain: fun.domain }.add(slot * Reply::BYTES as u64);
            fun.acq_tail = fun.acq_tail.wrapping_add(1);
            if env.publish(at, reply.words()).is_err() {
                fun.error_cause = fpga_regs::regs::ErrorCause::DMA_WRITE.0 as u32;
                return;
            }
        }
    }

    fn mailbox<const N: usize>(&self, f: u16, c: &Command, env: &mut impl Env) -> Result<[u8; N], Refused> {
        if (c.in_len() as usize) < N {
            return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_MAILBOX);
        }
        let mut bytes = [0u8; N];
        let at = Addr { iova: c.in_iova(), domain: self.functions[f as usize].domain };
        env.read(at, &mut bytes).map_err(|_| (AdminStatus::DMA_ERROR, Syndrome::BAD_IOVA))?;
        Ok(bytes)
    }

    fn answer_mailbox(&self, f: u16, c: &Command, bytes: &[u8], env: &mut impl Env) -> Result<(), Refused> {
        if (c.out_len() as usize) < bytes.len() {
            return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_MAILBOX);
        }
        let iova = c.out_iova().wrapping_add(self.dma_slip());
        let at = Addr { iova, domain: self.functions[f as usize].domain };
        env.write(at, bytes).map_err(|_| (AdminStatus::DMA_ERROR, Syndrome::BAD_IOVA))
    }

    fn execute_command(
        &mut self,
        f: u16,
        c: &Command,
        reply: &mut Reply,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        let object = c.object();
        match c.opcode() {
            AdminOpcode::NOP => {}
            AdminOpcode::QUERY_CARD => {
                let limits = self.limits;
                self.answer_mailbox(f, c, limits.as_bytes(), env)?;
            }
            AdminOpcode::ALLOC_PD => reply.set_object(self.alloc_pd(f)?),
            AdminOpcode::FREE_PD => {
                let pd = self.check_pd(f, object)?;
                if self.pds[pd].users != 0 {
                    return refused(AdminStatus::IN_USE, Syndrome::STILL_USED);
                }
                self.pds[pd].used = false.into();
            }
            AdminOpcode::CREATE_MR => {
                let context = MrContext::from_bytes(&self.mailbox(f, c, env)?);
                reply.set_object(self.create_mr(f, &context)?);
            }
            AdminOpcode::CREATE_MW => {
                if c.param1() != 2 {
                    return refused(AdminStatus::NOT_SUPPORTED, OK);
                }
                let pd = self.check_pd(f, c.param0() as u32)?;
                let k = self.new_key(f, key_kind::MW2, pd as u32)?;
                reply.set_object(self.keys[k].key);
            }
            AdminOpcode::DESTROY_MR => self.destroy_key(f, object, key_kind::MR)?,
            AdminOpcode::DESTROY_MW => self.destroy_key(f, object, key_kind::MW2)?,
            AdminOpcode::CREATE_EQ => {
                let context = EqContext::from_bytes(&self.mailbox(f, c, env)?);
                reply.set_object(self.create_eq(f, &context)?);
            }
            AdminOpcode::DESTROY_EQ => {
                let eqs = &mut self.functions[f as usize].eqs;
                match eqs.get_mut(object as usize) {
                    Some(eq) if eq.used.get() => eq.used = false.into(),
                    _ => return refused(AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT),
                }
            }
            AdminOpcode::CREATE_CQ => {
                let context = CqContext::from_bytes(&self.mailbox(f, c, env)?);
                reply.set_object(self.create_cq(f, &context)?);
            }
            AdminOpcode::RESIZE_CQ => {
                let cq = self.check_cq(f, object)?;
                let context = CqContext::from_bytes(&self.mailbox(f, c, env)?);
                self.resize_cq(cq, &context, env)?;
            }
            AdminOpcode::DESTROY_CQ => {
                let cq = self.check_cq(f, object)?;
                if self.cqs[cq].users != 0 {
                    return refused(AdminStatus::IN_USE, Syndrome::STILL_USED);
                }
                self.cqs[cq].used = false.into();
            }
            AdminOpcode::CREATE_SRQ => {
                let context = SrqContext::from_bytes(&self.mailbox(f, c, env)?);
                reply.set_object(self.create_srq(f, &context, env)?);
            }
            AdminOpcode::MODIFY_SRQ => {
                let s = self.check_srq(f, object)?;
                let context = SrqContext::from_bytes(&self.mailbox(f, c, env)?);
                if context.limit() > self.srqs[s].mask + 1 {
                    return refused(AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE);
                }
                self.srqs[s].limit = context.limit();
                self.check_srq_limit(s as u16, env);
            }
            AdminOpcode::QUERY_SRQ => {
                let srq = self.srqs[self.check_srq(f, object)?];
                let context = SrqContext::default()
                    .with_pd(srq.pd)
                    .with_ring_iova(srq.ring)
                    .with_log_size((srq.mask + 1).trailing_zeros() as u8)
                    .with_stride_log(srq.stride_log)
                    .with_limit(srq.limit)
                    .with_max_sge(srq.max_sge);
                self.answer_mailbox(f, c, context.as_bytes(), env)?;
            }
            AdminOpcode::DESTROY_SRQ => {
                let s = self.check_srq(f, object)?;
                if self.srqs[s].users != 0 {
                    return refused(AdminStatus::IN_USE, Syndrome::STILL_USED);
                }
                let pd = self.srqs[s].pd;
                self.srqs[s].used = false.into();
                env.bells(self.id).reset_srq(s as usize, None);
                self.pds[pd as usize].users -= 1;
            }
            AdminOpcode::CREATE_QP => {
                let context = QpContext::from_bytes(&self.mailbox(f, c, env)?);
                reply.set_object(self.create_qp(f, &context, env)?);
            }
            AdminOpcode::MODIFY_QP => {
                let q = self.check_qp(f, object)?;
                let context = QpContext::from_bytes(&self.mailbox(f, c, env)?);
                self.modify_qp(
                    q,
                    &context,
                    QpAttrMask(c.param0() as u32),
                    QpState(c.param1() as u8),
                    c.param2() as u8,
                    env,
                )?;
            }
            AdminOpcode::QUERY_QP => {
                let q = self.check_qp(f, object)?;
                let mut context = self.qps[q].attributes;
                // The PSNs as they stand now.
                context.set_sq_psn(self.qps[q].req.psn);
                context.set_rq_psn(self.qps[q].resp.epsn);
                context.set_sq_draining(self.qps[q].draining());
                self.answer_mailbox(f, c, context.as_bytes(), env)?;
            }
            AdminOpcode::DESTROY_QP => {
                let q = self.check_qp(f, object)?;
                self.free_qp(q, env);
            }
            AdminOpcode::ATTACH_MCAST => {
                let q = self.check_qp(f, object)?;
                self.join_group(q, c.gid())?;
            }
            AdminOpcode::DETACH_MCAST => {
                let q = self.check_qp(f, object)?;
                let group = self.mcast.iter().position(|g| g.count != 0 && g.gid == c.gid());
                if !group.is_some_and(|g| self.leave_group(g, q as u16)) {
                    return refused(AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT);
                }
            }
            AdminOpcode::RESOLVE => match crate::address::resolve(&c.gid(), self.cards) {
                Some(mac) => *reply = reply.with_mac(mac),
                None => return refused(AdminStatus::NOT_FOUND, Syndrome::NO_ROUTE),
            },
            AdminOpcode::ALLOC_PAGE => {
                let fun = &mut self.functions[f as usize];
                let page = fun.pages.trailing_ones();
                if page >= 64 {
                    return refused(AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL);
                }
                fun.pages |= 1 << page;
                reply.set_object(page);
            }
            AdminOpcode::FREE_PAGE => {
                let fun = &mut self.functions[f as usize];
                if object >= 64 || fun.pages & (1 << object) == 0 {
                    return refused(AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT);
                }
                fun.pages &= !(1 << object);
            }
            AdminOpcode::QUERY_PORT | AdminOpcode::SET_PORT | AdminOpcode::QUERY_MW => {
                return refused(AdminStatus::NOT_SUPPORTED, OK)
            }
            _ => return refused(AdminStatus::BAD_OPCODE, OK),
        }
        Ok(())
    }

    fn alloc_pd(&mut self, f: u16) -> Result<u32, Refused> {
        let pds = &self.pds;
        let pd = self
            .tables
            .pd
            .take(1..MAX_PDS, |i| pds[i].used.get())
            .ok_or((AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL))?;
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

    fn check_qp(&self, f: u16, qpn: u32) -> Result<usize, Refused> {
        let q = self.find_qp(qpn).ok_or((AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT))?;
        owned(Some((true, self.qps[q].function)), f)?;
        Ok(q)
    }

    /// A free key slot with a new variant of its key.
    fn new_key(&mut self, f: u16, kind: u8, pd: u32) -> Result<usize, Refused> {
        let keys = &self.keys;
        let full = (AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL);
        let k = self.tables.key.take(1..MAX_KEYS, |i| keys[i].kind != key_kind::FREE).ok_or(full)?;
        let domain = self.functions[f as usize].domain;
        let key = &mut self.keys[k];
        let variant = (key.key as u8).wrapping_add(1);
        *key = Key {
            kind,
            access: 0,
            page_shift: 0,
            mode: MrMode::DIRECT,
            domain,
            function: f,
            key: (k as u32) << 8 | variant as u32,
            pd,
            va: 0,
            length: 0,
            iova: 0,
            first_offset: 0,
            window_offset: 0,
            parent: 0,
            bound: 0,
            valid: false.into(),
        };
        self.pds[pd as usize].users += 1;
        Ok(k)
    }

    fn create_mr(&mut self, f: u16, m: &MrContext) -> Result<u32, Refused> {
        let pd = self.check_pd(f, m.pd())?;
        let access = m.access();
        if access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC)
            && !access.contains(Access::LOCAL_WRITE)
        {
            return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_ACCESS);
        }
        let ends = m.va().checked_add(m.length()).is_some() && m.iova().checked_add(m.length()).is_some();
        if m.length() > self.limits.max_mr_size() || !ends {
            return refused(AdminStatus::LIMIT, Syndrome::BAD_SIZE);
        }
        match m.mode() {
            MrMode::DIRECT => {}
            MrMode::PAGE_LIST => {
                let size_known =
                    m.page_shift() < 64 && self.limits.page_size_cap() >> m.page_shift() & 1 == 1;
                if !size_known || m.first_offset() as u64 >= 1 << m.page_shift() {
                    return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE);
                }
            }
            _ => return refused(AdminStatus::NOT_SUPPORTED, OK),
        }
        let slip = if m.mode() == MrMode::DIRECT { self.dma_slip() } else { 0 };
        let k = self.new_key(f, key_kind::MR, pd as u32)?;
        let key = &mut self.keys[k];
        key.access = access.0;
        key.mode = m.mode();
        key.page_shift = m.page_shift();
        key.va = m.va();
        key.length = m.length();
        key.iova = m.iova().wrapping_add(slip);
        key.first_offset = m.first_offset();
        key.valid = true.into();
        Ok(key.key)
    }

    fn destroy_key(&mut self, f: u16, key: u32, kind: u8) -> Result<(), Refused> {
        let k = (key >> 8) as usize;
        let slot = self.keys.get(k).copied();
        // A window's key changes with each bind: its owner may know an older variant.
        let known = slot.is_some_and(|s| s.kind == kind && (s.key == key || kind == key_kind::MW2));
        if !known {
            return refused(AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT);
        }
        owned(slot.map(|s| (true, s.function)), f)?;
        if kind == key_kind::MR && self.keys[k].bound != 0 {
            return refused(AdminStatus::IN_USE, Syndrome::STILL_USED);
        }
        if kind == key_kind::MW2 {
            self.unbind(k);
        }
        self.keys[k].kind = key_kind::FREE;
        self.keys[k].valid = false.into();
        let pd = self.keys[k].pd;
        self.pds[pd as usize].users -= 1;
        Ok(())
    }

    fn create_eq(&mut self, f: u16, e: &EqContext) -> Result<u32, Refused> {
        if e.log_size() > 16 {
            return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE);
        }
        if e.vector() as usize >= EQS {
            return refused(AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE);
        }
        let eqs = &mut self.functions[f as usize].eqs;
        let Some(n) = eqs.iter().position(|eq| !eq.used.get()) else {
            return refused(AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL);
        };
        eqs[n] = Eq {
            used: true.into(),
            vector: e.vector(),
            mask: (1 << e.log_size()) - 1,
            pi: 0,
            ci: 0,
            ring: e.ring_iova(),
        };
        Ok(n as u32)
    }

    fn create_cq(&mut self, f: u16, c: &CqContext) -> Result<u32, Refused> {
        if c.log_size() > 22 || 1u32 << c.log_size() > self.limits.max_cqe().next_power_of_two() {
            return refused(AdminStatus::LIMIT, Syndrome::BAD_SIZE);
        }
        let eq = c.vector();
        if eq as usize >= EQS || !self.functions[f as usize].eqs[eq as usize].used.get() {
            return refused(AdminStatus::BAD_PARAM, Syndrome::NO_OBJECT);
        }
        let first = self.first_cqe(1 << c.log_size());
        let cqs = &self.cqs;
        let n = self
            .tables
            .cq
            .take(1..MAX_CQS, |i| cqs[i].used.get())
            .ok_or((AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL))?;
        self.cqs[n] = Cq {
            ring: Addr { iova: c.ring_iova(), domain: self.functions[f as usize].domain },
            mask: (1 << c.log_size()) - 1,
            pi: first,
            told: first,
            ci: first,
            ci_iova: c.ci_iova(),
            used: true.into(),
            armed: 0,
            held: 0,
            arming: 0,
            overrun: false.into(),
            special: c.stamped().into(),
            failed: false.into(),
            eq,
            function: f,
            users: 0,
        };
        Ok(n as u32)
    }

    /// Moves the CQEs that were not consumed to the new ring. The running indices go on; the driver
    /// holds its side of the CQ meanwhile, so the consumer index record is exact.
    fn resize_cq(&mut self, n: usize, c: &CqContext, env: &mut impl Env) -> Result<(), Refused> {
        if c.log_size() > 22 || 1u32 << c.log_size() > self.limits.max_cqe().next_power_of_two() {
            return refused(AdminStatus::LIMIT, Syndrome::BAD_SIZE);
        }
        let fault = (AdminStatus::DMA_ERROR, Syndrome::BAD_IOVA);
        let cq = self.cqs[n];
        env.settle(cq.ring, (u64::from(cq.mask) + 1) << 6);
        let mut record = [0u8; 4];
        env.read(Addr { iova: cq.ci_iova, domain: cq.ring.domain }, &mut record).map_err(|_| fault)?;
        let ci = u32::from_le_bytes(record);
        let left = cq.pi.wrapping_sub(ci);
        let mask = (1u32 << c.log_size()) - 1;
        if left > mask + 1 || left > cq.mask + 1 {
            return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE);
        }
        let ring = Addr { iova: c.ring_iova(), domain: cq.ring.domain };
        for i in 0..left {
            let index = ci.wrapping_add(i);
            let mut bytes = [0u8; 64];
            env.read(cq.ring.add(((index & cq.mask) as u64) << 6), &mut bytes).map_err(|_| fault)?;
            let mut cqe = fpga_regs::Cqe::from_bytes(&bytes);
            cqe.set_phase(index & (mask + 1) == 0);
            env.publish(ring.add(((index & mask) as u64) << 6), cqe.words()).map_err(|_| fault)?;
        }
        let cq = &mut self.cqs[n];
        cq.ring = ring;
        cq.mask = mask;
        cq.ci = ci;
        cq.ci_iova = c.ci_iova();
        Ok(())
    }

    fn create_srq(&mut self, f: u16, s: &SrqContext, env: &mut impl Env) -> Result<u32, Refused> {
        let pd = self.check_pd(f, s.pd())?;
        if s.log_size() > 16 || !(4..=10).contains(&s.stride_log()) {
            return refused(AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE);
        }
        let srqs = &self.srqs;
        let n = self
            .tables
            .srq
            .take(1..MAX_SRQS, |i| srqs[i].used.get())
            .ok_or((AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL))?;
        self.srqs[n] = Srq {
            used: true.into(),
            stride_log: s.stride_log(),
            max_sge: s.max_sge(),
            domain: self.functions[f as usize].domain,
            function: f,
            pd: pd as u32,
            mask: (1 << s.log_size()) - 1,
            ci: 0,
            limit: s.limit(),
            users: 0,
            ring: s.ring_iova(),
        };
        self.pds[pd].users += 1;
        env.bells(self.id).reset_srq(n as usize, Some(f));
        Ok(n as u32)
    }

    fn join_group(&mut self, q: usize, gid: [u8; 16]) -> Result<(), Refused> {
        if self.qps[q].qp_type != fpga_regs::QpType::UD {
            return refused(AdminStatus::BAD_PARAM, OK);
        }
        let found = self.mcast.iter().position(|g| g.count != 0 && g.gid == gid);
        let Some(slot) = found.or_else(|| self.mcast.iter().position(|g| g.count == 0)) else {
            return refused(AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL);
        };
        let group = &mut self.mcast[slot];
        group.gid = gid;
        let n = group.count as usize;
        if group.qps[..n].contains(&(q as u16)) {
            return Ok(());
        }
        if n == MAX_MCAST_QPS {
            return refused(AdminStatus::LIMIT, Syndrome::TABLE_FULL);
        }
        group.qps[n] = q as u16;
        group.count += 1;
        Ok(())
    }

    /// Whether the QP was in the group.
    pub(super) fn leave_group(&mut self, slot: usize, q: u16) -> bool {
        let group = &mut self.mcast[slot];
        let n = group.count as usize;
        let Some(i) = group.qps[..n].iter().position(|&x| x == q) else { return false };
        group.qps[i] = group.qps[n - 1];
        group.count -= 1;
        true
    }
}

/// An object that exists and belongs to the function.
fn owned(object: Option<(bool, u16)>, f: u16) -> Result<(), Refused> {
    match object {
        Some((true, owner)) if owner == f => Ok(()),
        Some((true, _)) => refused(AdminStatus::NOT_FOUND, Syndrome::NOT_OWNER),
        _ => refused(AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT),
    }
}
