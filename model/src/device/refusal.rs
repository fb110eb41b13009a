//! Why a request is refused, and what the responder does then.

use fpga_regs::regs::port;
use fpga_regs::{CqeStatus, EventKind, Syndrome};

use super::keys::KeyError;
use super::qp::NOT_MISSED;
use super::recv::RecvError;
use super::Device;
use crate::env::Env;
use crate::packet::Packet;
use crate::wire::{self, Extra, NakCode, Operation, RnrTimer, Transport};

/// Why a request is refused.
pub(super) enum Refusal {
    /// No receive WQE.
    NotReady,
    /// NAK invalid request.
    Invalid,
    /// NAK invalid request: the receive WQE is too short, and its completion says so.
    TooLong,
    /// NAK invalid request: no SRQ of this number in the QP's XRC domain.
    NoSrq,
    /// NAK remote access error.
    Access,
    /// NAK remote access error, and the receive WQE's completion says so.
    AccessTold,
    /// NAK remote operational error: the responder's own memory failed.
    Operation,
    /// None: the requester's memory failed, and what it says is lost.
    Unread,
}

impl Device {
    #[cold]
    pub(super) fn refuse(&mut self, q: usize, refusal: Refusal, p: &Packet, env: &mut impl Env) {
        let own = self.qps[q].port.port;
        match refusal {
            Refusal::NotReady => {
                self.count(own, port::RNR_NAK);
                let code = self.qps[q].attributes.min_rnr_timer();
                self.send_ack(q, wire::Syndrome::rnr(RnrTimer(code)), p.psn, env);
                // What follows it will be sent again, and is not missed.
                let resp = &mut self.qps[q].resp;
                (resp.nak_sent, resp.since) = (true.into(), NOT_MISSED);
            }
            Refusal::Invalid | Refusal::TooLong | Refusal::NoSrq => {
                self.count(own, port::INVALID_NAK);
                self.send_ack(q, wire::Syndrome::nak(NakCode::INVALID_REQUEST), p.psn, env);
            }
            Refusal::Access | Refusal::AccessTold => {
                self.count(own, port::ACCESS_NAK);
                self.send_ack(q, wire::Syndrome::nak(NakCode::REMOTE_ACCESS_ERROR), p.psn, env);
            }
            // The process is gone, and its queue pairs are about to be destroyed: no answer.
            Refusal::Operation if !env.exists(self.qps[q].domain) => return,
            Refusal::Operation => {
                self.count(own, port::OPERATION_NAK);
                self.send_ack(q, wire::Syndrome::nak(NakCode::REMOTE_OPERATIONAL_ERROR), p.psn, env);
            }
            Refusal::Unread => {}
        }
        // An event is for what no completion of this side reports (IB spec 11.6.3).
        match refusal {
            Refusal::NotReady | Refusal::Unread => {}
            Refusal::Invalid => self.responder_error(q, EventKind::QP_REQ_ERR, env),
            // The annex has two events of its own, for an SRQ that does not exist and one of another domain; verbs do not.
            Refusal::Access | Refusal::NoSrq => self.responder_error(q, EventKind::QP_ACCESS_ERR, env),
            Refusal::TooLong | Refusal::AccessTold | Refusal::Operation => self.to_error(q, env),
        }
    }

    /// There is no receive WQE, or it cannot take the message: the request is refused. The WQE completes in error, unless it
    /// waits or is not known.
    pub(super) fn recv_failed(
        &mut self,
        q: usize,
        error: RecvError,
        p: &Packet,
        env: &mut impl Env,
    ) -> Refusal {
        let (status, syndrome, refusal) = match error {
            RecvError::Empty => return Refusal::NotReady,
            RecvError::Protection(syndrome) => (CqeStatus::LOC_PROT_ERR, syndrome, Refusal::Operation),
            // The receive WQE waits for the message to be sent again.
            RecvError::Unread => return Refusal::Unread,
            // No completion can say which of an SRQ's receives is lost.
            RecvError::Ring if self.qps[q].has_srq.get() => {
                let s = self.qps[q].srq;
                let function = self.srqs[usize::from(s)].function;
                self.async_event(function, EventKind::SRQ_ERR, s.into(), env);
                return Refusal::Operation;
            }
            RecvError::Ring => {
                // The queue has moved on; its WQEs have its indices.
                let qp = &mut self.qps[q];
                qp.recv.index = qp.resp.rq_ci.wrapping_sub(1);
                (CqeStatus::LOC_PROT_ERR, Syndrome::LOCAL_DMA, Refusal::Operation)
            }
            // UC sends no NAK, but a receive queue with a failed WQE is in error.
            _ if p.transport == Transport::UC => {
                (CqeStatus::LOC_LEN_ERR, Syndrome::RECV_TOO_SHORT, Refusal::Operation)
            }
            _ => (CqeStatus::LOC_LEN_ERR, Syndrome::RECV_TOO_SHORT, Refusal::TooLong),
        };
        let mut quiet = *p;
        quiet.extra = Extra::None;
        self.complete_recv(q, status, syndrome, false, 0, &quiet, env);
        refusal
    }

    /// A WRITE may not touch what it names. The receive WQE that a packet with immediate data is for says so (IB spec
    /// 11.6.2); the first of several packets does not tell that there will be some. UC drops the message, and nothing else
    /// happens.
    #[cold]
    pub(super) fn write_denied(
        &mut self,
        q: usize,
        error: KeyError,
        p: &Packet,
        env: &mut impl Env,
    ) -> Refusal {
        if p.count != 1 || p.extra != Extra::Immediate || p.transport == Transport::UC {
            return Refusal::Access;
        }
        if !self.qps[q].resp.has_recv.get() {
            match self.take_recv(q, env) {
                Ok(()) => {}
                Err(RecvError::Empty) => return Refusal::Access,
                Err(error) => return self.recv_failed(q, error, p, env),
            }
        }
        let mut quiet = *p;
        quiet.extra = Extra::None;
        self.complete_recv(q, CqeStatus::LOC_ACCESS_ERR, error.remote_syndrome(), true, 0, &quiet, env);
        Refusal::AccessTold
    }

    #[inline]
    pub(super) fn send_ack(&mut self, q: usize, syndrome: wire::Syndrome, psn: u32, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        qp.count_ack();
        qp.reply(Operation::Acknowledge, psn, env).syndrome = syndrome;
    }
}
