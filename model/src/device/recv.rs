//! Receive WQEs: taking one from the RQ or SRQ, scattering into it, completing it.

use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

use fpga_regs::{Access, Cqe, CqeOpcode, CqeStatus, EventKind, RecvHead, Syndrome, WqeSge, MAX_SGE};

use super::qp::NO_WQE;
use super::wqe::bytes;
use super::Device;
use crate::dma::{Addr, Undelivered};
use crate::encapsulation::Encapsulation;
use crate::env::Env;
use crate::packet::{Packet, Payload};
use crate::wire::{Extra, Transport};

/// In which kind of packet a datagram came ([`Cqe::sl`]).
const UDP_IPV6: u8 = 8 | 1;
const UDP_IPV4: u8 = 8 | 2;

/// What a datagram's CQE says of its encapsulation: the priority of its tag, or else its kind; 0 is RoCE version 1.
fn service_level(encapsulation: Encapsulation) -> u8 {
    match encapsulation.priority() {
        Some(priority) => priority,
        None if encapsulation.is_v1() => 0,
        None if encapsulation.is_ipv6() => UDP_IPV6,
        None => UDP_IPV4,
    }
}

/// Why no receive WQE could be taken or filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecvError {
    /// None is posted.
    Empty,
    /// The message is longer than the WQE's buffers.
    Length,
    /// A buffer may not be written.
    Protection(Syndrome),
    /// The message cannot be read at its sender.
    Unread,
    /// The ring cannot be read: what WQE that was is not known.
    Ring,
}

impl Device {
    /// Takes the next receive WQE of the QP's RQ or SRQ into the QP.
    #[inline(always)]
    pub(super) fn take_recv(&mut self, q: usize, env: &mut impl Env) -> Result<(), RecvError> {
        if self.qps[q].has_srq.get() {
            return self.take_shared(q, env);
        }
        let card = self.id;
        let qp = &mut self.qps[q];
        let posted = qp.resp.posted(|| env.bells(card).rq_producer(q));
        let index = qp.resp.rq_ci;
        if posted == 0 || posted > qp.rq_mask + 1 {
            return Err(RecvError::Empty);
        }
        let ring = Addr { iova: qp.rq_iova, domain: qp.domain };
        let at = ring.add(u64::from(index & qp.rq_mask) << qp.rq_stride_log);
        let room = ((1usize << qp.rq_stride_log) / 16).saturating_sub(1);
        if posted > 1 {
            let next = u64::from(index.wrapping_add(1) & qp.rq_mask);
            env.prefetch(ring.add(next << qp.rq_stride_log));
        }
        let loaded = self.load_recv(q, at, room, env);
        self.qps[q].resp.rq_ci = index.wrapping_add(1);
        loaded
    }

    fn take_shared(&mut self, q: usize, env: &mut impl Env) -> Result<(), RecvError> {
        let s = self.qps[q].srq;
        let producer = env.bells(self.id).srq_producer(s.into());
        let srq = &mut self.srqs[s as usize];
        let posted = producer.wrapping_sub(srq.ci);
        if !srq.used.get() || posted == 0 || posted > srq.mask + 1 {
            return Err(RecvError::Empty);
        }
        let ring = Addr { iova: srq.ring, domain: srq.domain };
        let at = ring.add(u64::from(srq.ci & srq.mask) << srq.stride_log);
        let room = ((1usize << srq.stride_log) / 16).saturating_sub(1);
        // An SRQ's indices come again: for `recovery`, that this one is not completed.
        let qp = &mut self.qps[q];
        qp.written[1] = NO_WQE;
        qp.taken_at = self.cqs[qp.recv_cq as usize].pi;
        let loaded = self.load_recv(q, at, room, env);
        let srq = &mut self.srqs[s as usize];
        srq.ci = srq.ci.wrapping_add(1);
        loaded?;
        self.check_srq_limit(s, env);
        Ok(())
    }

    /// Raises the SRQ's limit event when fewer WQEs than the limit are left.
    pub(super) fn check_srq_limit(&mut self, s: u16, env: &mut impl Env) {
        let producer = env.bells(self.id).srq_producer(s.into());
        let srq = &mut self.srqs[s as usize];
        if srq.limit != 0 && producer.wrapping_sub(srq.ci) < srq.limit {
            srq.limit = 0;
            let function = srq.function;
            self.async_event(function, EventKind::SRQ_LIMIT, s as u32, env);
        }
    }

    /// Loads a receive WQE into the QP. The queue moves on after that: `recovery` relies on it.
    #[inline(always)]
    fn load_recv(&mut self, q: usize, at: Addr, room: usize, env: &mut impl Env) -> Result<(), RecvError> {
        let fault = |_| RecvError::Protection(Syndrome::LOCAL_DMA);
        // The head and the first SGE, if the stride has room for one.
        let [a, b, c, d] = if room >= 1 {
            env.words(at).map_err(|_| RecvError::Ring)?
        } else {
            let [a, b] = env.words(at).map_err(|_| RecvError::Ring)?;
            [a, b, 0, 0]
        };
        let head = RecvHead::from_bytes(&bytes([a, b]));
        let n = (head.num_sge() as usize).min(room).min(MAX_SGE);
        let recv = &mut self.qps[q].recv;
        recv.index = head.index();
        recv.num_sge = n as u32;
        recv.room = 0;
        if n >= 1 {
            recv.sges[0] = WqeSge::from_bytes(&bytes([c, d]));
            recv.room = recv.sges[0].length().into();
        }
        for i in 1..n {
            let sge = WqeSge::from_bytes(&bytes(env.words(at.add(16 + 16 * i as u64)).map_err(fault)?));
            recv.room += u64::from(sge.length());
            recv.sges[i] = sge;
        }
        compiler_fence(SeqCst);
        self.qps[q].resp.has_recv = true.into();
        compiler_fence(SeqCst);
        Ok(())
    }

    /// Writes payload to byte `offset` on of the receive WQE's buffers.
    #[inline(always)]
    pub(super) fn scatter(
        &self,
        q: usize,
        offset: u64,
        payload: &Payload,
        skip: usize,
        len: usize,
        env: &mut impl Env,
    ) -> Result<(), RecvError> {
        let qp = &self.qps[q];
        let pd = if qp.has_srq.get() { self.srqs[qp.srq as usize].pd } else { qp.pd };
        let (mut before, mut left, mut done) = (offset, len as u64, skip);
        for sge in &qp.recv.sges[..qp.recv.num_sge as usize] {
            if left == 0 {
                break;
            }
            let length = sge.length() as u64;
            if before >= length {
                before -= length;
                continue;
            }
            let range = self
                .check_key(pd, 0, sge.lkey(), sge.addr(), length, Access::LOCAL_WRITE)
                .map_err(|e| RecvError::Protection(e.syndrome()))?;
            let (mut at, end) = (before, (before + left).min(length));
            before = 0;
            while at < end {
                let fault = RecvError::Protection(Syndrome::LOCAL_DMA);
                let (addr, contiguous) = self.translate(range, at, env).ok_or(fault)?;
                let n = contiguous.min(end - at);
                env.deliver(addr, payload, done, n as usize).map_err(|undelivered| match undelivered {
                    Undelivered::Unread => RecvError::Unread,
                    Undelivered::Unwritten => fault,
                })?;
                at += n;
                left -= n;
                done += n as usize;
            }
        }
        if left != 0 {
            return Err(RecvError::Length);
        }
        Ok(())
    }

    /// Completes the receive WQE in use. `p` gives immediate data and the solicited bit.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn complete_recv(
        &mut self,
        q: usize,
        status: CqeStatus,
        syndrome: Syndrome,
        write: bool,
        byte_len: u32,
        p: &Packet,
        env: &mut impl Env,
    ) {
        let mut cqe = self.recv_cqe(q, status, syndrome, byte_len);
        cqe.set_opcode(if write { CqeOpcode::RECV_RDMA_WITH_IMM } else { CqeOpcode::RECV });
        let qp = &self.qps[q];
        match p.extra {
            Extra::Immediate => {
                cqe.set_has_imm(true);
                cqe.set_imm(p.imm);
            }
            Extra::Invalidate => {
                cqe.set_inv(true);
                cqe.set_imm(p.imm);
            }
            Extra::None => {}
        }
        match p.transport {
            Transport::UD => {
                cqe.set_grh(true);
                cqe.set_sl(service_level(p.encapsulation));
                cqe.set_srcqp(p.src_qpn);
            }
            Transport::XRC => {
                cqe.set_srqn(qp.srq.into());
                cqe.set_srcqp(qp.dest_qpn);
            }
            _ => {}
        }
        self.push_recv(q, cqe, p.solicited || status != CqeStatus::SUCCESS, env);
    }

    /// What every CQE of the receive WQE in use says.
    #[inline]
    pub(crate) fn recv_cqe(&self, q: usize, status: CqeStatus, syndrome: Syndrome, byte_len: u32) -> Cqe {
        let qp = &self.qps[q];
        let mut cqe = Cqe::default();
        cqe.set_wqe_index(qp.recv.index);
        cqe.set_qpn(qp.qpn);
        cqe.set_recv(true);
        cqe.set_byte_len(byte_len);
        cqe.set_opcode(CqeOpcode::RECV);
        cqe.set_status(status);
        cqe.set_syndrome(syndrome);
        cqe
    }

    /// The receive WQE in use is complete.
    #[inline(always)]
    pub(crate) fn push_recv(&mut self, q: usize, cqe: Cqe, solicited: bool, env: &mut impl Env) {
        self.push_cqe(self.qps[q].recv_cq, cqe, solicited, env);
        self.qps[q].resp.has_recv = false.into();
    }
}
