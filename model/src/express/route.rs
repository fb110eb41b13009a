//! What is remembered of a connection for the express lane, and how it is found out.
#![allow(unsafe_code)]

use std::mem::offset_of;
use std::ptr::null_mut;

use fpga_regs::{Access, QpState, QpType, WqeCtrl, WqeOpcode, WqeRemote, WqeSge};

use super::piece::Piece;
use super::Express;
use crate::device::qp::{Qp, IDLE};
use crate::device::{bytes, Device, KeyError, KeyRange};
use crate::dma::Addr;
use crate::here::Here;
use crate::journal;
use crate::world::World;

/// What was found out about the two ends of a connection. True as long as nothing but plain messages goes through the
/// cards: its generation is [`Express::generation`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Route {
    /// 0: nothing was found out yet.
    pub(super) generation: u64,
    /// Bytes from the world to the sender's queue pair, and to its peer's.
    pub(super) own_at: u32,
    pub(super) peer_at: u32,
    pub(super) sq_mask: u32,
    /// Longest message of one packet.
    pub(super) mtu: u32,
    /// The journal's word while a message is executed.
    pub(super) note: u64,
    /// The send ring.
    pub(super) sq: Here,
    /// Bytes of an acknowledgement's frame, from the Ethernet header to the ICRC.
    pub(super) ack_bytes: u32,
    pub(super) q: u16,
    pub(super) peer: u16,
    pub(super) card: u16,
    pub(super) peer_card: u16,
    /// Every message completes.
    pub(super) signal_all: bool,
    /// log2 of the receive stride in bytes; 0: receives come from an SRQ, or there are none.
    pub(super) rq_stride_log: u8,
    pub(super) rq_mask: u32,
    /// The peer's receive ring.
    rq: Here,
    /// Where messages came from last.
    pub(super) local: Piece,
    /// Where the last WRITE went.
    pub(super) remote: Piece,
    /// Where the last SEND went.
    pub(super) receive: Piece,
}

impl Route {
    /// Nothing is known.
    pub const NONE: Route = Route {
        generation: 0,
        own_at: 0,
        peer_at: 0,
        sq_mask: 0,
        mtu: 0,
        note: 0,
        sq: Here::new(null_mut()),
        ack_bytes: 0,
        q: 0,
        peer: 0,
        card: 0,
        peer_card: 0,
        signal_all: false,
        rq_stride_log: 0,
        rq_mask: 0,
        rq: Here::new(null_mut()),
        local: Piece::NONE,
        remote: Piece::NONE,
        receive: Piece::NONE,
    };

    /// Where the two queue pairs are: bytes from the world.
    pub(crate) fn places(&self) -> [u32; 2] {
        [self.own_at, self.peer_at]
    }

    /// The cache lines of two queue pairs that a message between them changes, and the one that its completion reads.
    pub(crate) fn lines([own, peer]: [u32; 2]) -> [u32; 3] {
        [own + offset_of!(Qp, req) as u32, peer + offset_of!(Qp, resp) as u32, own]
    }

    /// Whether this is the route of a queue pair, if the generation is what it was.
    #[inline(always)]
    pub(super) fn is_of(&self, card: u16, q: u16) -> bool {
        (self.card, self.q) == (card, q)
    }

    #[inline(always)]
    pub(super) fn receive_entry(&self, index: u32) -> Here {
        self.rq.add(u64::from(index & self.rq_mask) << self.rq_stride_log)
    }
}

/// The address segment of a WRITE.
#[inline(always)]
pub(super) fn remote_of(words: &[u64; 6]) -> WqeRemote {
    WqeRemote::from_bytes(&bytes([words[2], words[3]]))
}

impl World {
    /// As [`route`](Self::route). What goes on it is counted where it leaves and arrives.
    pub(super) fn find_route(&mut self, card: u16, q: u16, env: &mut impl Express) -> Option<Route> {
        let qp = &self.cards[card as usize].qps[q as usize];
        self.settle((qp.port, qp.qpn), (qp.dest, qp.dest_qpn));
        self.route(card, q, env)
    }

    /// Finds out what a plain message of this QP has to know. `None` when the connection is not up and idle.
    fn route(&self, card: u16, q: u16, env: &mut impl Express) -> Option<Route> {
        let qp = &self.cards[card as usize].qps[q as usize];
        if qp.state != QpState::RTS || qp.qp_type != QpType::RC {
            return None;
        }
        let req = &qp.req;
        let idle = req.ci == req.cur && req.una == req.psn && req.ci_psn == req.psn && req.cur_offset == 0;
        let waits = req.rd_out != 0 || req.rnr_wait.get() || req.pending_status != 0 || req.again.get();
        // As the acknowledgement of the last message left them, and that of the next would.
        let fresh = req.retry == qp.attributes.retry_cnt() && req.rnr == qp.attributes.rnr_retry();
        if !idle || waits || !fresh {
            return None;
        }
        let (peer_card, peer) = self.peer((card, q.into()))?;
        let other = &self.cards[peer_card as usize].qps[peer];
        let speaks_alike = other.encapsulation.link() == qp.encapsulation.link();
        let resp = &other.resp;
        let expects =
            resp.epsn == req.psn && resp.op == IDLE && resp.established.get() && !resp.nak_sent.get();
        if !speaks_alike || !other.receives() || !expects {
            return None;
        }
        let sq = Addr { iova: qp.sq_iova, domain: qp.domain };
        let sq = ring(sq, (u64::from(qp.sq_mask) + 1) << 6, env)?;
        let rq = Addr { iova: other.rq_iova, domain: other.domain };
        let rq = ring(rq, (u64::from(other.rq_mask) + 1) << other.rq_stride_log, env);
        let rq = rq.filter(|_| !other.has_srq.get() && other.rq_stride_log >= 5);
        let at = |qp: *const Qp| (qp.addr() - (&raw const *self).addr()) as u32;
        Some(Route {
            generation: env.generation(),
            own_at: at(qp),
            peer_at: at(other),
            sq_mask: qp.sq_mask,
            mtu: qp.mtu().min(other.mtu()),
            note: journal::pair(peer_card, peer as u32),
            sq,
            ack_bytes: qp.ack_bytes() as u32,
            q,
            peer: peer as u16,
            card,
            peer_card,
            signal_all: qp.sq_sig_all.get(),
            rq_stride_log: rq.map_or(0, |_| other.rq_stride_log),
            rq_mask: other.rq_mask,
            rq: rq.unwrap_or(Here::new(null_mut())),
            ..Route::NONE
        })
    }

    /// The first block of the next WQE.
    fn next_wqe(&self, route: &Route) -> [u64; 6] {
        let index = self.cards[route.card as usize].qps[route.q as usize].req.cur;
        // SAFETY: the lane ended at this WQE: the route is of this generation.
        unsafe { route.sq.add(u64::from(index & route.sq_mask) << 6).words() }
    }

    /// Looks for the source of the next message in the sender's keys.
    #[cold]
    pub(super) fn local(&self, route: &mut Route, env: &mut impl Express) -> bool {
        let words = self.next_wqe(route);
        let ctrl = WqeCtrl::from_bytes(&bytes([words[0], words[1]]));
        let data = if ctrl.opcode() == WqeOpcode::WRITE { 4 } else { 2 };
        let sge = WqeSge::from_bytes(&bytes([words[data], words[data + 1]]));
        let device = &self.cards[route.card as usize];
        let pd = device.qps[route.q as usize].pd;
        let found = device.piece(sge.lkey(), sge.addr(), sge.length(), env, |key, va, length| {
            device.check_key(pd, 0, key, va, length, Access(0))
        });
        found.map(|piece| route.local = piece).is_some()
    }

    /// Looks for the place of the next WRITE in the peer's keys.
    #[cold]
    pub(super) fn remote(&self, route: &mut Route, env: &mut impl Express) -> bool {
        let words = self.next_wqe(route);
        let length = WqeCtrl::from_bytes(&bytes([words[0], words[1]])).length();
        let at = remote_of(&words);
        let device = &self.cards[route.peer_card as usize];
        let found = device.piece(at.rkey(), at.remote_addr(), length, env, |key, va, length| {
            match device.qps[route.peer as usize].grants(Access::REMOTE_WRITE) {
                true => device.check_remote(route.peer as usize, key, va, length, Access::REMOTE_WRITE),
                false => Err(KeyError::Rights),
            }
        });
        found.map(|piece| route.remote = piece).is_some()
    }

    /// Looks for the place of the next receive WQE in the peer's keys.
    #[cold]
    pub(super) fn receive(&self, route: &mut Route, env: &mut impl Express) -> bool {
        let device = &self.cards[route.peer_card as usize];
        let Qp { pd, ref resp, .. } = device.qps[route.peer as usize];
        // SAFETY: the lane ended at this WQE: the route is of this generation.
        let words: [u64; 4] = unsafe { route.receive_entry(resp.rq_ci).words() };
        let sge = WqeSge::from_bytes(&bytes([words[2], words[3]]));
        let found = device.piece(sge.lkey(), sge.addr(), sge.length(), env, |key, va, length| {
            device.check_key(pd, 0, key, va, length, Access::LOCAL_WRITE)
        });
        found.map(|piece| route.receive = piece).is_some()
    }
}

/// Where a ring is, if this process reaches all of it.
pub(super) fn ring(at: Addr, bytes: u64, env: &mut impl Express) -> Option<Here> {
    env.here(at).filter(|(_, reached)| *reached >= bytes).map(|(here, _)| here)
}

impl Device {
    /// What can be reached from `va` on by a key that `check` allows to use for `length` bytes there.
    pub(super) fn piece(
        &self,
        key: u32,
        va: u64,
        length: u32,
        env: &mut impl Express,
        check: impl FnOnce(u32, u64, u64) -> Result<KeyRange, KeyError>,
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
}
