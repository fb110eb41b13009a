//! The express lane: a plain message of one packet is executed at the peer within the doorbell that posts it.
//!
//! A WRITE or SEND that fits a packet, on a connection where nothing is under way, is most of what programs do when
//! they are in a hurry. Nobody looks at the wire then, so no packet is made, queued and taken apart. And while
//! nothing but such messages goes through the cards of a segment, what was found out about a connection stays true:
//! a [`Route`] remembers it, each process has its own, and [`Env::general`] makes all of them void.
//!
//! The result is that of [`run_send`](Device::run_send), [`receive`](Device::receive) and
//! [`acknowledged`](Device::acknowledged), to whom everything is left that is not plain; what could refuse the
//! message is asked before anything is changed. `tests/tests/express.rs` compares the two.
#![allow(unsafe_code)]

use std::ptr::null_mut;

use fpga_regs::{
    Access, CqeStatus, QpState, QpType, RecvHead, Syndrome, WqeCtrl, WqeOpcode, WqeRemote, WqeSge,
};

use super::keys::KeyError;
use super::qp::{Qp, IDLE};
use super::wqe::bytes;
use super::Device;
use crate::env::{Addr, Env};
use crate::here::Here;
use crate::packet::Packet;
use crate::wire::psn;
use crate::world::World;

/// What a SEND says beside its payload, as its packet would.
const PLAIN: Packet = Packet::BLANK;
const SOLICITED: Packet = Packet { solicited: true, ..Packet::BLANK };

/// A part of a region or window, checked for one use.
#[derive(Clone, Copy)]
struct Piece {
    key: u32,
    va: u64,
    length: u64,
    here: Here,
}

impl Piece {
    const NONE: Piece = Piece { key: 0, va: 0, length: 0, here: Here::new(null_mut()) };

    /// Where `length` bytes at `va` are, if they are of this piece.
    #[inline(always)]
    fn find(&self, key: u32, va: u64, length: u32) -> Option<Here> {
        let offset = va.wrapping_sub(self.va);
        let inside = offset < self.length && u64::from(length) <= self.length - offset;
        (key == self.key && inside).then(|| self.here.add(offset))
    }
}

/// What was found out about the two ends of a connection. True as long as nothing but plain messages goes through the
/// cards: its generation is [`Env::generation`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Route {
    /// 0: nothing was found out yet.
    generation: u64,
    card: u8,
    peer_card: u8,
    q: u16,
    peer: u16,
    /// log2 of the receive stride in bytes; 0: receives come from an SRQ, or there are none.
    rq_stride_log: u8,
    /// Longest message of one packet.
    mtu: u32,
    sq_mask: u32,
    /// The send ring.
    sq: Here,
    /// Bytes of an acknowledgement's frame, from the Ethernet header to the ICRC.
    ack_bytes: u32,
    rq_mask: u32,
    /// Where messages came from last.
    local: Piece,
    /// Where the last WRITE went.
    remote: Piece,
    /// The peer's receive ring.
    rq: Here,
    /// Where the last SEND went.
    receive: Piece,
}

impl Route {
    /// Nothing is known.
    pub const NONE: Route = Route {
        generation: 0,
        card: 0,
        peer_card: 0,
        q: 0,
        peer: 0,
        rq_stride_log: 0,
        mtu: 0,
        sq_mask: 0,
        sq: Here::new(null_mut()),
        ack_bytes: 0,
        rq_mask: 0,
        local: Piece::NONE,
        remote: Piece::NONE,
        rq: Here::new(null_mut()),
        receive: Piece::NONE,
    };

    #[inline(always)]
    fn is_of(&self, card: u8, q: u16, env: &impl Env) -> bool {
        self.generation == env.generation() && (self.card, self.q) == (card, q)
    }
}

/// The plain message of a WQE. In registers as far as it goes.
struct Message {
    /// Words of the control segment.
    ctrl: [u64; 2],
    length: u32,
    from: Here,
    /// WRITE: where to.
    to: Option<Here>,
    /// Bytes of the frame, from the Ethernet header to the ICRC.
    bytes: u64,
}

impl World {
    /// Sends what is plain at the head of a send queue. False when something is left, for
    /// [`run_send`](Device::run_send).
    #[inline(always)]
    pub(crate) fn express<E: Env>(&mut self, card: u8, q: u16, env: &mut E) -> bool {
        let producer = env.sq_producer(card, q);
        // SAFETY: the place is ours while the cards are run, and the environment leaves it alone.
        let route = unsafe { env.route(card, q).as_mut() };
        for _ in 0..E::TURN {
            if !route.is_of(card, q, env) && !self.find_route(route, card, q, env) {
                return false;
            }
            if !self.send_plain(route, producer, env) {
                return false;
            }
            if self.cards[card as usize].qps[q as usize].req.cur == producer {
                return true;
            }
        }
        false
    }

    /// Finds out what a plain message of this QP has to know. False when the connection is not up and idle.
    #[cold]
    #[inline(never)]
    fn find_route(&self, route: &mut Route, card: u8, q: u16, env: &mut impl Env) -> bool {
        let found = self.route(card, q, env);
        *route = found.unwrap_or(Route::NONE);
        found.is_some()
    }

    fn route(&self, card: u8, q: u16, env: &mut impl Env) -> Option<Route> {
        let qp = &self.cards[card as usize].qps[q as usize];
        if !qp.used || qp.state != QpState::RTS || qp.qp_type != QpType::RC || qp.dest.card >= self.count {
            return None;
        }
        let req = &qp.req;
        let idle = req.ci == req.cur && req.una == req.psn && req.cur_offset == 0 && req.rd_out == 0;
        let waits = req.rnr_wait || req.pending_status != 0;
        // As the acknowledgement of the last message left them, and that of the next would.
        let fresh = req.retry == qp.attributes.retry_cnt() && req.rnr == qp.attributes.rnr_retry();
        if !idle || waits || !fresh {
            return None;
        }
        let device = &self.cards[qp.dest.card as usize];
        let peer = device.find_qp(qp.dest_qpn)?;
        let other = &device.qps[peer];
        let connected = other.qp_type == QpType::RC && other.dest == qp.port && other.port == qp.dest;
        let resp = &other.resp;
        let expects = resp.epsn == req.psn && resp.op == IDLE && resp.established && !resp.nak_sent;
        if !connected || !other.receives() || !expects {
            return None;
        }
        let sq = Addr { iova: qp.sq_iova, domain: qp.domain };
        let sq = ring(sq, (u64::from(qp.sq_mask) + 1) << 6, env)?;
        let rq = Addr { iova: other.rq_iova, domain: other.domain };
        let rq = ring(rq, (u64::from(other.rq_mask) + 1) << other.rq_stride_log, env);
        let rq = rq.filter(|_| !other.has_srq && other.rq_stride_log >= 5);
        Some(Route {
            generation: env.generation(),
            card,
            peer_card: qp.dest.card,
            q,
            peer: peer as u16,
            rq_stride_log: rq.map_or(0, |_| other.rq_stride_log),
            mtu: qp.mtu().min(other.mtu()),
            sq_mask: qp.sq_mask,
            sq,
            ack_bytes: qp.ack_bytes() as u32,
            rq_mask: other.rq_mask,
            rq: rq.unwrap_or(Here::new(null_mut())),
            ..Route::NONE
        })
    }

    /// Executes the message of the next WQE and completes it. False, and nothing is changed, when it is not plain.
    #[inline(always)]
    fn send_plain(&mut self, route: &mut Route, producer: u32, env: &mut impl Env) -> bool {
        let device = &self.cards[route.card as usize];
        let qp = &device.qps[route.q as usize];
        let (index, psn) = (qp.req.cur, qp.req.psn);
        // None, or more than there can be.
        if producer.wrapping_sub(index).wrapping_sub(1) > route.sq_mask {
            return false;
        }
        let block = route.sq.add(u64::from(index & route.sq_mask) << 6);
        // SAFETY: the route is of this generation, so the ring is where it was found; a block has eight words.
        let words: [u64; 6] = unsafe { block.words() };
        let Some(message) = self.plain(route, block, &words, env) else { return false };
        let peer = &mut self.cards[route.peer_card as usize];
        match message.to {
            Some(to) => {
                env.touch_pair(route.peer_card, route.peer);
                // SAFETY: both places were found for this length in this generation.
                unsafe { to.copy(message.from, message.length as usize) };
            }
            None => {
                if !peer.take_plain_send(route, &message, env) {
                    return false;
                }
            }
        }
        let ack_bytes = u64::from(route.ack_bytes);
        let resp = &mut peer.qps[route.peer as usize].resp;
        resp.epsn = psn::add(psn, 1);
        resp.msn = psn::add(resp.msn, 1);
        resp.packets += 1;
        resp.bytes += message.bytes;
        resp.tx_packets += 1;
        resp.tx_bytes += ack_bytes;
        let device = &mut self.cards[route.card as usize];
        let qp = &mut device.qps[route.q as usize];
        if qp.state != QpState::RTS {
            // Its CQ is the receiver's too, and was overrun by it: the WQE was flushed.
            return false;
        }
        let req = &mut qp.req;
        req.psn = psn::add(psn, 1);
        req.una = req.psn;
        req.cur = index.wrapping_add(1);
        req.packets += 1;
        req.bytes += message.bytes;
        req.rx_packets += 1;
        req.rx_bytes += ack_bytes;
        device.complete_head(route.q as usize, &WqeCtrl::from_bytes(&bytes(message.ctrl)), 1, env);
        true
    }

    /// The message of a WQE, if it is plain.
    #[inline(always)]
    fn plain(&self, route: &mut Route, block: Here, words: &[u64; 6], env: &mut impl Env) -> Option<Message> {
        let ctrl = WqeCtrl::from_bytes(&bytes([words[0], words[1]]));
        // Units of 16 bytes before the data.
        let (headers, data) = match ctrl.opcode() {
            WqeOpcode::WRITE => (2, [words[4], words[5]]),
            WqeOpcode::SEND => (1, [words[2], words[3]]),
            _ => return None,
        };
        let length = ctrl.length();
        if length == 0 || length > route.mtu {
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
            match route.local.find(sge.lkey(), sge.addr(), length) {
                Some(from) => from,
                None => self.local(route, &sge, env)?,
            }
        };
        // An acknowledgement has an AETH and nothing else.
        let mut bytes = u64::from(route.ack_bytes) - 4 + u64::from((length + 3) & !3);
        let mut to = None;
        if headers == 2 {
            let remote = WqeRemote::from_bytes(&self::bytes([words[2], words[3]]));
            bytes += WqeRemote::BYTES as u64;
            to = match route.remote.find(remote.rkey(), remote.remote_addr(), length) {
                Some(to) => Some(to),
                None => Some(self.remote(route, &remote, length, env)?),
            };
        }
        Some(Message { ctrl: [words[0], words[1]], length, from, to, bytes })
    }

    /// Looks for the source of a message in the sender's keys.
    #[cold]
    #[inline(never)]
    fn local(&self, route: &mut Route, sge: &WqeSge, env: &mut impl Env) -> Option<Here> {
        let device = &self.cards[route.card as usize];
        let pd = device.qps[route.q as usize].pd;
        route.local = device.piece(sge.lkey(), sge.addr(), sge.length(), env, |key, va, length| {
            device.check_key(pd, 0, key, va, length, Access(0))
        })?;
        Some(route.local.here)
    }

    /// Looks for the place of a WRITE in the peer's keys.
    #[cold]
    #[inline(never)]
    fn remote(&self, route: &mut Route, at: &WqeRemote, length: u32, env: &mut impl Env) -> Option<Here> {
        let device = &self.cards[route.peer_card as usize];
        let peer = route.peer as usize;
        route.remote = device.piece(at.rkey(), at.remote_addr(), length, env, |key, va, length| {
            device.check_remote(peer, key, va, length, Access::REMOTE_WRITE)
        })?;
        Some(route.remote.here)
    }
}

/// Where a ring is, if this process reaches all of it.
fn ring(at: Addr, bytes: u64, env: &mut impl Env) -> Option<Here> {
    env.here(at).filter(|(_, reached)| *reached >= bytes).map(|(here, _)| here)
}

impl Device {
    /// What can be reached from `va` on by a key that `check` allows to use for `length` bytes there.
    fn piece(
        &self,
        key: u32,
        va: u64,
        length: u32,
        env: &mut impl Env,
        check: impl FnOnce(u32, u64, u64) -> Result<super::keys::Range, KeyError>,
    ) -> Option<Piece> {
        let length = length.into();
        let range = check(key, va, length).ok()?;
        let (at, contiguous) = self.translate(range, 0, env)?;
        let (here, reached) = env.here(at)?;
        // A window ends before its region does.
        let k = &self.keys[(key >> 8) as usize];
        let left = (k.length - va.wrapping_sub(k.va)).min(contiguous).min(reached);
        (left >= length).then_some(Piece { key, va, length: left, here })
    }

    /// Puts a SEND into the next receive WQE and completes that. False, and nothing is changed, when it is not as
    /// plain as the message.
    #[inline(always)]
    fn take_plain_send(&mut self, route: &mut Route, message: &Message, env: &mut impl Env) -> bool {
        let (q, length) = (route.peer as usize, message.length);
        let posted = self.posted_receives(q, env);
        let qp = &self.qps[q];
        let index = qp.resp.rq_ci;
        if route.rq_stride_log == 0 || qp.resp.has_recv || posted.wrapping_sub(1) > route.rq_mask {
            return false;
        }
        let entry = |index: u32| route.rq.add(u64::from(index & route.rq_mask) << route.rq_stride_log);
        // SAFETY: the route is of this generation, so the ring is where it was found, and no stride is shorter.
        let words: [u64; 4] = unsafe { entry(index).words() };
        let head = RecvHead::from_bytes(&bytes([words[0], words[1]]));
        let sge = WqeSge::from_bytes(&bytes([words[2], words[3]]));
        if head.num_sge() != 1 || sge.length() < length {
            return false;
        }
        if posted > 1 {
            entry(index.wrapping_add(1)).prefetch();
        }
        let to = match route.receive.find(sge.lkey(), sge.addr(), sge.length()) {
            Some(to) => to,
            None => match self.receive_piece(q, &sge, env) {
                Some(piece) => {
                    route.receive = piece;
                    piece.here
                }
                None => return false,
            },
        };
        env.touch_pair(route.peer_card, route.peer);
        let qp = &mut self.qps[q];
        qp.resp.rq_ci = index.wrapping_add(1);
        // For whoever finds us dead.
        qp.recv.index = head.index();
        qp.resp.has_recv = true;
        // SAFETY: both places were found for this length in this generation.
        unsafe { to.copy(message.from, length as usize) };
        let solicited = WqeCtrl::from_bytes(&bytes(message.ctrl)).solicited();
        let packet = if solicited { &SOLICITED } else { &PLAIN };
        self.complete_recv(q, CqeStatus::SUCCESS, Syndrome::NONE, false, length, packet, env);
        true
    }

    /// Looks for the place of a receive WQE in the keys.
    #[cold]
    #[inline(never)]
    fn receive_piece(&self, q: usize, sge: &WqeSge, env: &mut impl Env) -> Option<Piece> {
        let Qp { pd, .. } = self.qps[q];
        self.piece(sge.lkey(), sge.addr(), sge.length(), env, |key, va, length| {
            self.check_key(pd, 0, key, va, length, Access::LOCAL_WRITE)
        })
    }
}
