//! The responder: requests of the connected peer (RC, UC, XRC).

use fpga_regs::regs::port;
use fpga_regs::{Access, CqeStatus, EventKind, QpState, Syndrome};

use super::keys::{KeyError, Range};
use super::qp::{Qp, IDLE, IN_SEND, IN_WRITE};
use super::recv::RecvError;
use super::refusal::Refusal;
use super::requester::MAX_MESSAGE;
use super::Device;
use crate::dma::Undelivered;
use crate::env::Env;
use crate::packet::{Packet, Payload, CONGESTION};
use crate::wire::{self, psn, Extra, Operation, Transport};

/// What remains to be done when a packet was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Done,
    /// A request was executed, and asks for an acknowledgement, which counts as sent.
    Acknowledge {
        /// Up to this PSN.
        psn: u32,
        /// To this QP.
        to: u32,
    },
    /// It is for QP 1, which is the connection manager's.
    Management,
    /// Its payload could not be read: its sender's memory failed.
    Unread,
}

impl Qp {
    /// The acknowledgement of what was received up to a PSN.
    #[inline(always)]
    fn acknowledge(&mut self, psn: u32) -> Outcome {
        self.count_ack();
        Outcome::Acknowledge { psn, to: self.dest_qpn }
    }
}

impl Device {
    /// A packet for this card.
    #[must_use]
    #[inline(always)]
    pub fn receive(&mut self, p: &Packet, env: &mut impl Env) -> Outcome {
        if p.transport == Transport::UD {
            return self.receive_datagram(p, env);
        }
        let Some(q) = self.find_qp(p.dest_qpn) else {
            self.unclaimed(p.dst.port, p);
            return Outcome::Done;
        };
        let qp = &self.qps[q];
        // Only the connected peer is listened to.
        if qp.transport() != p.transport
            || qp.dest != p.src
            || qp.port != p.dst
            || qp.encapsulation.link() != p.encapsulation.link()
            || !qp.receives()
        {
            if p.is_notification() && self.notified(q, p, env) {
                return Outcome::Done;
            }
            self.unclaimed(p.dst.port, p);
            return Outcome::Done;
        }
        if p.ecn == CONGESTION {
            self.met_congestion(q, env);
        }
        if p.is_answer() {
            self.qps[q].answer_came(p);
            return self.answer(q, p, env);
        }
        self.qps[q].request_came(p);
        match p.transport {
            Transport::RC => self.request(q, p, env),
            Transport::UC => self.request_unreliable(q, p, env),
            _ => self.request_extended(q, p, env),
        }
    }

    /// The payload of a packet that this card sends cannot be read.
    #[cold]
    pub fn unread(&mut self, p: &Packet, env: &mut impl Env) {
        let Some(q) = self.find_qp(p.src_qpn) else { return };
        if p.operation == Operation::ReadResponse && self.qps[q].receives() {
            self.refuse(q, Refusal::Operation, p, env);
        } else if p.operation != Operation::ReadResponse {
            self.request_unread(q, p.psn, env);
        }
    }

    /// Sends the acknowledgement that [`receive`](Self::receive) asked for, and counted, as a packet.
    pub fn send_plain_ack(&mut self, p: &Packet, psn: u32, env: &mut impl Env) {
        if let Some(q) = self.find_qp(p.dest_qpn) {
            self.qps[q].reply(Operation::Acknowledge, psn, env).syndrome = wire::Syndrome::ACK;
        }
    }

    /// An acknowledgement that was counted need not be sent: a later one stands for it.
    #[cold]
    pub fn unsent_ack(&mut self, qpn: u32) {
        if let Some(q) = self.find_qp(qpn) {
            let qp = &mut self.qps[q];
            qp.resp.tx_packets = qp.resp.tx_packets.wrapping_sub(1);
            qp.resp.tx_bytes = qp.resp.tx_bytes.wrapping_sub(qp.ack_bytes());
        }
    }

    /// A request of RC or XRC.
    #[inline(always)]
    pub(super) fn request(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        let resp = &self.qps[q].resp;
        let ahead = psn::diff(p.psn, resp.epsn);
        if ahead != 0 {
            return self.out_of_order(q, p, ahead, env);
        }
        self.take_next(q, p, env)
    }

    #[cold]
    fn out_of_order(&mut self, q: usize, p: &Packet, ahead: i32, env: &mut impl Env) -> Outcome {
        let own = self.qps[q].port.port;
        if ahead > 0 {
            self.count_packets(own, port::OUT_OF_SEQUENCE, p);
            self.keep_request(q, p, env);
            return Outcome::Done;
        }
        let overlap = p.count as i32 + ahead;
        if overlap > 0 && matches!(p.operation, Operation::Send | Operation::Write) {
            // A train that begins with packets already received: the rest is new.
            let mut rest = *p;
            let skip = (-ahead) as u32;
            let (payload, stash_skip) = p.payload.skip((skip << self.qps[q].mtu_log) as usize);
            if stash_skip == 0 {
                rest.payload = payload;
                rest.psn = psn::add(p.psn, skip);
                rest.count -= skip;
                rest.first = false;
                return self.take_next(q, &rest, env);
            }
            // The sender will go back to the right packet.
            let last = psn::sub(self.qps[q].resp.epsn, 1);
            return self.qps[q].acknowledge(last);
        }
        self.count_packets(own, port::DUPLICATE, p);
        self.duplicate(q, p, env);
        Outcome::Done
    }

    /// The request that is expected, and those that were kept and follow it.
    #[inline(always)]
    fn take_next(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        let outcome = self.in_order(q, p, env);
        match self.qps[q].resp.keeps.get() {
            true => self.take_kept(q, outcome, env),
            false => outcome,
        }
    }

    #[inline(always)]
    pub(super) fn in_order(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        self.qps[q].resp.nak_sent = false.into();
        let len = p.payload.len() as u32;
        let result = match p.operation {
            Operation::Send => self.take_send(q, p, len, env),
            Operation::Write => self.take_write(q, p, len, env),
            Operation::ReadRequest => {
                self.take_read(q, p, env);
                return Outcome::Done;
            }
            _ => {
                self.take_atomic(q, p, env);
                return Outcome::Done;
            }
        };
        match result {
            Ok(()) => {
                let resp = &mut self.qps[q].resp;
                resp.epsn = psn::add(resp.epsn, p.count);
                if p.last {
                    resp.msn = psn::add(resp.msn, 1);
                }
                if !resp.established.get() {
                    self.established(q, env);
                }
                match p.ack_req {
                    true => self.qps[q].acknowledge(psn::add(p.psn, p.count - 1)),
                    false => Outcome::Done,
                }
            }
            Err(Refusal::Unread) => Outcome::Unread,
            Err(refusal) => {
                self.refuse(q, refusal, p, env);
                Outcome::Done
            }
        }
    }

    /// The first request in RTR: communication established (IB spec 10.3.1, 11.6.3.3).
    #[cold]
    pub(super) fn established(&mut self, q: usize, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        qp.resp.established = true.into();
        if qp.state == QpState::RTR {
            self.qp_event(q, EventKind::COMM_EST, env);
        }
    }

    /// Whether the packet's length fits its place in the message, which is no longer than any (IB spec 9.7.4.1.6).
    #[inline(always)]
    fn length_fits(&self, q: usize, p: &Packet, len: u32) -> bool {
        let len = u64::from(len);
        let before = if p.first { 0 } else { u64::from(self.qps[q].resp.offset) };
        let ends = if p.first && p.operation == Operation::Write { p.dma_len.into() } else { before + len };
        if ends > MAX_MESSAGE.into() {
            return false;
        }
        let full = (p.count as u64) << self.qps[q].mtu_log;
        if p.last {
            len <= full && (len > full - self.qps[q].mtu() as u64 || (p.count == 1 && p.first))
        } else {
            len == full
        }
    }

    /// SEND, of any transport that is connected.
    pub(super) fn take_send(
        &mut self,
        q: usize,
        p: &Packet,
        len: u32,
        env: &mut impl Env,
    ) -> Result<(), Refusal> {
        let expected = if p.first { IDLE } else { IN_SEND };
        if self.qps[q].resp.op != expected || !self.length_fits(q, p, len) {
            return Err(Refusal::Invalid);
        }
        if p.first {
            self.qps[q].resp.offset = 0;
            if !self.qps[q].resp.has_recv.get() {
                if let Err(e) = self.take_recv(q, env) {
                    return Err(self.recv_failed(q, e, p, env));
                }
            }
        }
        let offset = self.qps[q].resp.offset as u64;
        if offset + u64::from(len) > self.qps[q].recv.room {
            return Err(self.recv_failed(q, RecvError::Length, p, env));
        }
        if let Err(e) = self.scatter(q, offset, &p.payload, 0, len as usize, env) {
            return Err(self.recv_failed(q, e, p, env));
        }
        let resp = &mut self.qps[q].resp;
        resp.offset += len;
        resp.op = if p.last { IDLE } else { IN_SEND };
        if p.last {
            if p.extra == Extra::Invalidate && self.invalidate(q, p.imm).is_err() {
                self.complete_recv(
                    q,
                    CqeStatus::LOC_PROT_ERR,
                    Syndrome::KEY_NOT_INVALIDATABLE,
                    false,
                    0,
                    p,
                    env,
                );
                return Err(Refusal::AccessTold);
            }
            let total = self.qps[q].resp.offset;
            self.complete_recv(q, CqeStatus::SUCCESS, Syndrome::NONE, false, total, p, env);
        }
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn check_remote(
        &self,
        q: usize,
        key: u32,
        va: u64,
        len: u64,
        right: Access,
    ) -> Result<Range, KeyError> {
        let qp = &self.qps[q];
        self.check_key(qp.pd, qp.qpn, key, va, len, right)
    }

    /// WRITE, with or without immediate data.
    #[inline(always)]
    pub(super) fn take_write(
        &mut self,
        q: usize,
        p: &Packet,
        len: u32,
        env: &mut impl Env,
    ) -> Result<(), Refusal> {
        let expected = if p.first { IDLE } else { IN_WRITE };
        if self.qps[q].resp.op != expected || !self.length_fits(q, p, len) {
            return Err(Refusal::Invalid);
        }
        let resp = &self.qps[q].resp;
        let (va, key, total, offset) = if p.first {
            (p.va, p.rkey, p.dma_len, 0)
        } else {
            (resp.va, resp.rkey, resp.length, resp.offset)
        };
        let len = u64::from(len);
        let end = offset as u64 + len;
        if end > total as u64 || (p.last && end != total as u64) {
            return Err(Refusal::Invalid);
        }
        if !self.qps[q].grants(Access::REMOTE_WRITE) {
            return Err(Refusal::Invalid);
        }
        // Zero-length writes check no key (IB spec 9.7.4.1.5).
        let range = match total {
            0 => None,
            _ => match self.check_remote(q, key, va, total as u64, Access::REMOTE_WRITE) {
                Ok(range) => Some(range),
                Err(error) => return Err(self.write_denied(q, error, p, env)),
            },
        };
        if p.last && p.extra == Extra::Immediate && !self.qps[q].resp.has_recv.get() {
            // Before the data is written, so that a repeated last packet writes it again.
            if let Err(e) = self.take_recv(q, env) {
                return Err(self.recv_failed(q, e, p, env));
            }
        }
        if let Some(range) = range {
            self.write_range(range, offset as u64, &p.payload, len, env).map_err(|e| match e {
                Undelivered::Unread => Refusal::Unread,
                Undelivered::Unwritten => Refusal::Operation,
            })?;
        }
        let resp = &mut self.qps[q].resp;
        if p.last {
            resp.op = IDLE;
            if p.extra == Extra::Immediate {
                self.complete_recv(q, CqeStatus::SUCCESS, Syndrome::NONE, true, total, p, env);
            }
        } else {
            resp.op = IN_WRITE;
            resp.va = va;
            resp.rkey = key;
            resp.length = total;
            resp.offset = end as u32;
        }
        Ok(())
    }

    #[inline(always)]
    fn write_range(
        &self,
        range: Range,
        offset: u64,
        payload: &Payload,
        len: u64,
        env: &mut impl Env,
    ) -> Result<(), Undelivered> {
        let mut done = 0;
        while done < len {
            let (addr, contiguous) =
                self.translate(range, offset + done, env).ok_or(Undelivered::Unwritten)?;
            let n = contiguous.min(len - done);
            env.deliver(addr, payload, done as usize, n as usize)?;
            done += n;
        }
        Ok(())
    }
}
