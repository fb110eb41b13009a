//! The express lane: a plain message of one packet is executed at the peer within the doorbell that posts it.
//!
//! A WRITE or SEND that fits a packet, on a connection where nothing is under way, is most of what programs do when
//! they are in a hurry. Nobody looks at the wire then, so no packet is made, queued and taken apart: the requester
//! [`offer`](Device::offer)s the message, the responder [takes](Device::take) it, and it is [`sent`](Device::sent).
//! The result is that of [`run_send`](Device::run_send), [`receive`](Device::receive) and
//! [`acknowledged`](Device::acknowledged), to whom everything is left that is not plain; what could refuse the
//! message is asked before anything is changed. `tests/tests/express.rs` compares the two.

use fpga_regs::{Access, CqeStatus, QpState, QpType, Syndrome, WqeCtrl, WqeOpcode, WqeRemote, WqeSge};

use super::qp::IDLE;
use super::wqe::bytes;
use super::Device;
use crate::env::{Addr, Env};
use crate::packet::{Packet, Payload, PortId};
use crate::wire::psn;
use crate::world::World;

/// What a SEND says beside its payload, as its packet would.
const PLAIN: Packet = Packet::BLANK;
const SOLICITED: Packet = Packet { solicited: true, ..Packet::BLANK };

/// A message that the requester is ready to send. In registers as far as they go.
struct Offer {
    /// Words of the control segment.
    ctrl: [u64; 2],
    /// WRITE, not SEND.
    write: bool,
    solicited: bool,
    /// The payload, in one piece.
    from: Addr,
    length: u32,
    /// WRITE: where to.
    va: u64,
    rkey: u32,
    src: PortId,
    dst: PortId,
    dest_qpn: u32,
    psn: u32,
    /// Bytes of the frame, from the Ethernet header to the ICRC.
    bytes: u64,
}

impl World {
    /// Sends what is plain at the head of a send queue. False when something is left, for
    /// [`run_send`](Device::run_send).
    #[inline(always)]
    pub(crate) fn express<E: Env>(&mut self, card: u8, q: u16, env: &mut E) -> bool {
        let producer = env.sq_producer(card, q);
        for _ in 0..E::TURN {
            let device = &self.cards[card as usize];
            let Some(offer) = device.offer(q as usize, producer, env) else { return false };
            if offer.dst.card >= self.count || !self.cards[offer.dst.card as usize].take(&offer, env) {
                return false;
            }
            let device = &mut self.cards[card as usize];
            device.sent(q as usize, &offer, env);
            if device.qps[q as usize].req.cur == producer {
                return true;
            }
        }
        false
    }
}

impl Device {
    /// The message of the next WQE, if it is plain and nothing else is to be done before it.
    #[inline(always)]
    fn offer(&self, q: usize, producer: u32, env: &mut impl Env) -> Option<Offer> {
        let qp = &self.qps[q];
        let req = &qp.req;
        let idle = req.ci == req.cur && req.una == req.psn && req.cur_offset == 0;
        if !idle || !qp.used || qp.state != QpState::RTS || qp.qp_type != QpType::RC {
            return None;
        }
        let posted = producer.wrapping_sub(req.cur);
        if req.rnr_wait || req.pending_status != 0 || posted == 0 || posted > qp.sq_mask + 1 {
            return None;
        }
        let block = Addr { iova: qp.sq_iova, domain: qp.domain }.add(((req.cur & qp.sq_mask) as u64) << 6);
        let words: [u64; 6] = env.words(block).ok()?;
        let ctrl = WqeCtrl::from_bytes(&bytes([words[0], words[1]]));
        // Units of 16 bytes before the data.
        let (headers, header_bytes, data) = match ctrl.opcode() {
            WqeOpcode::WRITE => (2, 16, [words[4], words[5]]),
            WqeOpcode::SEND => (1, 0, [words[2], words[3]]),
            _ => return None,
        };
        let length = ctrl.length();
        if length == 0 || length > qp.mtu() {
            return None;
        }
        let from = if ctrl.inline() {
            // All of it in the first block.
            if ctrl.ds() > 4 || headers * 16 + length > u32::from(ctrl.ds()) * 16 {
                return None;
            }
            block.add(u64::from(headers) * 16)
        } else {
            let sge = WqeSge::from_bytes(&bytes(data));
            if ctrl.num_sge() != 1 || u32::from(ctrl.ds()) != headers + 1 || sge.length() != length {
                return None;
            }
            let range = self.check_key(qp.pd, 0, sge.lkey(), sge.addr(), length.into(), Access(0)).ok()?;
            let (at, contiguous) = self.translate(range, 0, env)?;
            if contiguous < length.into() {
                return None;
            }
            at
        };
        let remote = WqeRemote::from_bytes(&bytes([words[2], words[3]]));
        Some(Offer {
            ctrl: [words[0], words[1]],
            write: headers == 2,
            solicited: ctrl.solicited(),
            from,
            length,
            va: remote.remote_addr(),
            rkey: remote.rkey(),
            src: qp.port,
            dst: qp.dest,
            dest_qpn: qp.dest_qpn,
            psn: req.psn,
            // An acknowledgement has an AETH and nothing else.
            bytes: qp.ack_bytes() - 4 + header_bytes + ((u64::from(length) + 3) & !3),
        })
    }

    /// Executes an offered message, if it is what the responder expects. Otherwise nothing is changed but what
    /// [`receive`](Device::receive) would change first.
    #[inline(always)]
    fn take(&mut self, offer: &Offer, env: &mut impl Env) -> bool {
        let Some(q) = self.find_qp(offer.dest_qpn) else { return false };
        let qp = &self.qps[q];
        let connected =
            qp.qp_type == QpType::RC && qp.dest == offer.src && qp.port == offer.dst && qp.receives();
        let resp = &qp.resp;
        if !connected
            || resp.epsn != offer.psn
            || resp.op != IDLE
            || !resp.established
            || offer.length > qp.mtu()
        {
            return false;
        }
        env.touch_pair(offer.dst.card, q as u16);
        let done = if offer.write {
            self.take_plain_write(q, offer, env)
        } else {
            self.take_plain_send(q, offer, env)
        };
        if done.is_none() {
            return false;
        }
        let resp = &mut self.qps[q].resp;
        resp.nak_sent = false;
        resp.epsn = psn::add(resp.epsn, 1);
        resp.msn = psn::add(resp.msn, 1);
        resp.packets += 1;
        resp.bytes += offer.bytes;
        self.qps[q].count_ack();
        true
    }

    #[inline(always)]
    fn take_plain_write(&mut self, q: usize, offer: &Offer, env: &mut impl Env) -> Option<()> {
        let length = u64::from(offer.length);
        let range = self.check_remote(q, offer.rkey, offer.va, length, Access::REMOTE_WRITE).ok()?;
        let (to, contiguous) = self.translate(range, 0, env)?;
        if contiguous < length {
            return None;
        }
        env.copy(to, offer.from, length as usize).ok()
    }

    #[inline(always)]
    fn take_plain_send(&mut self, q: usize, offer: &Offer, env: &mut impl Env) -> Option<()> {
        let qp = &self.qps[q];
        if qp.has_srq {
            return None;
        }
        if !qp.resp.has_recv {
            let index = qp.resp.rq_ci;
            if self.take_recv(q, env).is_err() {
                self.qps[q].resp.rq_ci = index;
                return None;
            }
        }
        let length = offer.length;
        if u64::from(length) > self.qps[q].recv.room {
            return None;
        }
        // From here on the receive WQE is in use, as it is for a message whose first packet comes again.
        self.scatter(q, 0, &Payload::Memory(offer.from, length), 0, length as usize, env).ok()?;
        self.qps[q].resp.offset = length;
        let packet = if offer.solicited { &SOLICITED } else { &PLAIN };
        self.complete_recv(q, CqeStatus::SUCCESS, Syndrome::NONE, false, length, packet, env);
        Some(())
    }

    /// An offered message was executed and acknowledged.
    #[inline(always)]
    fn sent(&mut self, q: usize, offer: &Offer, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        let ack_bytes = qp.ack_bytes();
        let req = &mut qp.req;
        if qp.state != QpState::RTS {
            // Its CQ is the receiver's too, and was overrun by it: the WQE was flushed.
            return;
        }
        req.psn = psn::add(offer.psn, 1);
        req.una = req.psn;
        req.cur = req.cur.wrapping_add(1);
        req.packets += 1;
        req.bytes += offer.bytes;
        req.rx_packets += 1;
        req.rx_bytes += ack_bytes;
        req.retry = qp.attributes.retry_cnt();
        req.rnr = qp.attributes.rnr_retry();
        self.complete_head(q, &WqeCtrl::from_bytes(&bytes(offer.ctrl)), 1, env);
    }
}
