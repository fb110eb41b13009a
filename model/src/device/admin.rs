//! The admin queue: fetches commands, executes them, writes replies.

use fpga_regs::regs::Health;
use fpga_regs::{
    AdminOpcode, AdminStatus, Command, MrAttrMask, QpAttrMask, QpState, QpType, Reply, SrqContext, Syndrome,
    XrcdFlags,
};

use super::command_error::{refuse_if, Refused, DMA_FAULT, FULL, IN_USE, NOT_FOUND};
use super::defect::Defect;
use super::tables::*;
use super::Device;
use crate::dma::Addr;
use crate::env::Env;

const OK: Syndrome = Syndrome::NONE;

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

    /// What a command points to.
    fn mailbox<T: From<[u8; N]>, const N: usize>(
        &self,
        f: u16,
        c: &Command,
        env: &mut impl Env,
    ) -> Result<T, Refused> {
        refuse_if((c.in_len() as usize) < N, (AdminStatus::BAD_PARAM, Syndrome::BAD_MAILBOX))?;
        let mut bytes = [0u8; N];
        let at = Addr { iova: c.in_iova(), domain: self.functions[f as usize].domain };
        env.read(at, &mut bytes).map_err(|_| DMA_FAULT)?;
        Ok(bytes.into())
    }

    fn answer_mailbox(&self, f: u16, c: &Command, bytes: &[u8], env: &mut impl Env) -> Result<(), Refused> {
        refuse_if((c.out_len() as usize) < bytes.len(), (AdminStatus::BAD_PARAM, Syndrome::BAD_MAILBOX))?;
        let iova = c.out_iova().wrapping_add(self.dma_slip());
        let at = Addr { iova, domain: self.functions[f as usize].domain };
        env.write(at, bytes).map_err(|_| DMA_FAULT)
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
            AdminOpcode::QUERY_CARD => self.answer_mailbox(f, c, self.limits().as_bytes(), env)?,
            AdminOpcode::QUERY_ETHERNET => {
                self.answer_mailbox(f, c, self.ethernet_limits().as_bytes(), env)?
            }
            AdminOpcode::ALLOC_PD => reply.set_object(self.alloc_pd(f)?),
            AdminOpcode::FREE_PD => {
                let pd = self.check_pd(f, object)?;
                refuse_if(self.pds[pd].users != 0, IN_USE)?;
                self.pds[pd].used = false.into();
            }
            AdminOpcode::OPEN_XRCD => {
                let key = [c.param0(), c.param1()];
                reply.set_object(self.open_xrcd(f, key, XrcdFlags(c.param2() as u32))?);
            }
            AdminOpcode::CLOSE_XRCD => self.close_xrcd(f, object)?,
            AdminOpcode::CREATE_MR => reply.set_object(self.create_mr(f, &self.mailbox(f, c, env)?)?),
            AdminOpcode::CREATE_MW => {
                let kind = match c.param1() {
                    1 => key_kind::MW1,
                    2 => key_kind::MW2,
                    _ => return Err((AdminStatus::NOT_SUPPORTED, OK)),
                };
                let pd = self.check_pd(f, c.param0() as u32)?;
                let k = self.new_key(f, kind, pd as u32)?;
                reply.set_object(self.keys[k].key);
            }
            AdminOpcode::MODIFY_MR => {
                self.modify_mr(f, object, MrAttrMask(c.param0() as u32), &self.mailbox(f, c, env)?, env)?
            }
            AdminOpcode::DESTROY_MR => self.destroy_key(f, object, false, env)?,
            AdminOpcode::DESTROY_MW => self.destroy_key(f, object, true, env)?,
            AdminOpcode::CREATE_EQ => reply.set_object(self.create_eq(f, &self.mailbox(f, c, env)?)?),
            AdminOpcode::DESTROY_EQ => {
                let eqs = &mut self.functions[f as usize].eqs;
                match eqs.get_mut(object as usize) {
                    Some(eq) if eq.used.get() => eq.used = false.into(),
                    _ => return Err(NOT_FOUND),
                }
            }
            AdminOpcode::CREATE_CQ => reply.set_object(self.create_cq(f, &self.mailbox(f, c, env)?)?),
            AdminOpcode::RESIZE_CQ => {
                let cq = self.check_cq(f, object)?;
                self.resize_cq(cq, &self.mailbox(f, c, env)?, env)?;
            }
            AdminOpcode::MODIFY_CQ => {
                let cq = self.check_cq(f, object)?;
                self.modify_cq(cq, &self.mailbox(f, c, env)?, env);
            }
            AdminOpcode::DESTROY_CQ => {
                let cq = self.check_cq(f, object)?;
                refuse_if(self.cqs[cq].users != 0, IN_USE)?;
                self.cqs[cq].used = false.into();
            }
            AdminOpcode::CREATE_SRQ => {
                reply.set_object(self.create_srq(f, &self.mailbox(f, c, env)?, env)?)
            }
            AdminOpcode::MODIFY_SRQ => {
                let s = self.check_srq(f, object)?;
                let context: SrqContext = self.mailbox(f, c, env)?;
                if context.limit() > self.srqs[s].mask + 1 {
                    return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE));
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
                    .with_max_sge(srq.max_sge)
                    .with_xrcd(srq.opened.into())
                    .with_cq(srq.cq.into());
                self.answer_mailbox(f, c, context.as_bytes(), env)?;
            }
            AdminOpcode::DESTROY_SRQ => {
                let s = self.check_srq(f, object)?;
                refuse_if(self.srqs[s].users != 0, IN_USE)?;
                self.free_srq(s, env);
            }
            AdminOpcode::CREATE_QP => reply.set_object(self.create_qp(f, &self.mailbox(f, c, env)?, env)?),
            AdminOpcode::MODIFY_QP => {
                let q = self.check_qp(f, object)?;
                self.modify_qp(
                    q,
                    &self.mailbox(f, c, env)?,
                    QpAttrMask(c.param0() as u32),
                    QpState(c.param1() as u8),
                    c.param2() as u8,
                    env,
                )?;
            }
            AdminOpcode::QUERY_QP => {
                let q = self.check_qp(f, object)?;
                let mut context = self.qps[q].attributes;
                // The current PSNs.
                context.set_sq_psn(self.qps[q].req.psn);
                context.set_rq_psn(self.qps[q].resp.epsn);
                context.set_sq_draining(self.qps[q].draining());
                self.answer_mailbox(f, c, context.as_bytes(), env)?;
            }
            AdminOpcode::DESTROY_QP => {
                let q = self.check_qp(f, object)?;
                match self.qps[q].qp_type {
                    QpType::RAW_PACKET | QpType::RX_HASH if self.rules.any_of(q as u16) => {
                        return Err(IN_USE)
                    }
                    QpType::WQ if self.is_in_table(q) => return Err(IN_USE),
                    QpType::XRC_RECV => self.destroy_held(f, q, c.param0() as u32, env)?,
                    _ => self.free_qp(q, env),
                }
            }
            AdminOpcode::OPEN_QP => self.open_qp(f, object, c.param0() as u32)?,
            AdminOpcode::ATTACH_MCAST => {
                let q = self.check_qp(f, object)?;
                self.join_group(q, c.gid(), env)?;
            }
            AdminOpcode::DETACH_MCAST => {
                let q = self.check_qp(f, object)?;
                let group = self.mcast.iter().position(|g| g.count != 0 && g.gid == c.gid());
                refuse_if(!group.is_some_and(|g| self.leave_group(g, q as u16, env)), NOT_FOUND)?;
            }
            AdminOpcode::CREATE_FLOW => {
                let q = self.check_qp(f, object)?;
                reply.set_object(self.create_flow(f, q, &self.mailbox(f, c, env)?)?);
            }
            AdminOpcode::DESTROY_FLOW => self.destroy_flow(f, object)?,
            AdminOpcode::QUERY_FLOW => {
                let (frames, bytes) = self.query_flow(f, object)?;
                reply.set_value0(frames);
                reply.set_value1(bytes);
            }
            AdminOpcode::SET_VLAN => self.set_vlan(f, object, c.param0(), c.param1() != 0)?,
            AdminOpcode::CREATE_TABLE => {
                reply.set_object(self.create_table(f, &self.mailbox(f, c, env)?, env)?)
            }
            AdminOpcode::MODIFY_TABLE => self.modify_table(f, object, &self.mailbox(f, c, env)?, env)?,
            AdminOpcode::DESTROY_TABLE => self.destroy_table(f, object)?,
            AdminOpcode::RESOLVE => match self.resolve((object, c.param2()), &c.gid(), env) {
                Some(mac) => *reply = reply.with_mac(mac),
                None => return Err((AdminStatus::NOT_FOUND, Syndrome::NO_ROUTE)),
            },
            AdminOpcode::ALLOC_PAGE => {
                let fun = &mut self.functions[f as usize];
                let page = fun.pages.trailing_ones();
                refuse_if(page >= 64, FULL)?;
                fun.pages |= 1 << page;
                reply.set_object(self.named_page(page));
            }
            AdminOpcode::FREE_PAGE => {
                let fun = &mut self.functions[f as usize];
                refuse_if(object >= 64 || fun.pages & (1 << object) == 0, NOT_FOUND)?;
                fun.pages &= !(1 << object);
            }
            AdminOpcode::ALLOC_MEMORY => reply.set_object(self.alloc_memory(f, c, env)?),
            AdminOpcode::FREE_MEMORY => self.free_memory(f, object)?,
            AdminOpcode::WRITE_MEMORY => self.copy_memory(f, c, true, env)?,
            AdminOpcode::READ_MEMORY => self.copy_memory(f, c, false, env)?,
            AdminOpcode::SET_LAG => self.set_lag(&self.mailbox(f, c, env)?, env)?,
            AdminOpcode::QUERY_LAG => self.answer_mailbox(f, c, self.query_lag(object)?.as_bytes(), env)?,
            AdminOpcode::SET_PORT => self.set_port(object, c.param0(), &self.mailbox(f, c, env)?, env)?,
            AdminOpcode::QUERY_PORT | AdminOpcode::QUERY_MW => return Err((AdminStatus::NOT_SUPPORTED, OK)),
            _ => return Err((AdminStatus::BAD_OPCODE, OK)),
        }
        Ok(())
    }
}
