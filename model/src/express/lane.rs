//! One plain message: checked, copied and completed at both ends, or left untouched for the slow path.
#![allow(unsafe_code)]

use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

use fpga_regs::{CqeStatus, QpState, RecvHead, Syndrome, WqeCtrl, WqeOpcode, WqeRemote, WqeSge};

use super::route::{remote_of, Route};
use super::Express;
use crate::device::bytes;
use crate::device::qp::Qp;
use crate::here::Here;
use crate::packet::Packet;
use crate::wire::{psn, Aeth};
use crate::world::World;

/// What a SEND says beside its payload, as its packet would.
const PLAIN: Packet = Packet::BLANK;
const SOLICITED: Packet = Packet { solicited: true, ..Packet::BLANK };

/// What the lane asks of its surroundings.
pub(crate) trait Lane {
    /// As [`Express::generation`].
    fn generation(&self) -> u64;
    /// As [`Env::note`](crate::env::Env::note).
    fn note(&mut self, word: u64);
    /// The producer index of a receive queue.
    fn rq_producer(&mut self, card: u16, qp: u16) -> u32;
    /// Has [`World::sent`] called.
    fn sent(&mut self, card: u16, qp: u16, ctrl: [u64; 2]);
    /// Has [`World::received`] called.
    fn received(&mut self, card: u16, qp: u16, length: u32, solicited: bool);
}

/// How the lane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The message is sent and was the last one.
    Sent,
    /// The message is sent.
    More,
    /// It is not plain, or its receiver not ready.
    NotPlain,
    /// The route is void, or another queue pair's.
    NoRoute,
    /// The route does not cover the source of the message.
    NoLocal,
    /// The route does not cover the target of the WRITE.
    NoRemote,
    /// The route does not cover the buffer of the next receive WQE.
    NoReceive,
}

/// Executes and completes the next message of the send queue of `q` if it is plain and the route covers it; otherwise
/// changes nothing.
///
/// # Safety
/// The lock is held, `world` is the cards of the segment, and there is no other reference to them; `route` was found
/// by this process.
#[inline(always)]
pub(crate) unsafe fn send(
    world: *mut World,
    route: &Route,
    card: u16,
    q: u16,
    producer: u32,
    lane: &mut impl Lane,
) -> End {
    let own: *mut Qp = world.wrapping_byte_add(route.own_at as usize).cast();
    let peer: *mut Qp = world.wrapping_byte_add(route.peer_at as usize).cast();
    if !route.is_of(card, q) || route.generation != lane.generation() {
        return End::NoRoute;
    }
    // SAFETY: the route is of this generation: the queue pairs are where they were found.
    let (index, psn) = unsafe { ((*own).req.cur, (*own).req.psn) };
    // None, or more than there can be.
    if producer.wrapping_sub(index).wrapping_sub(1) > route.sq_mask {
        return End::NotPlain;
    }
    let block = route.sq.add(u64::from(index & route.sq_mask) << 6);
    // SAFETY: same argument for the ring; a block has eight words.
    let words: [u64; 6] = unsafe { block.words() };
    let ctrl = WqeCtrl::from_bytes(&bytes([words[0], words[1]]));
    // Units of 16 bytes before the data.
    let (write, headers, data) = match ctrl.opcode() {
        WqeOpcode::WRITE => (true, 2, [words[4], words[5]]),
        WqeOpcode::SEND => (false, 1, [words[2], words[3]]),
        _ => return End::NotPlain,
    };
    let length = ctrl.length();
    if length.wrapping_sub(1) >= route.mtu {
        return End::NotPlain;
    }
    let from = if ctrl.inline() {
        // All of it in the first block.
        if ctrl.ds() > 4 || headers * 16 + length > u32::from(ctrl.ds()) * 16 {
            return End::NotPlain;
        }
        block.add(u64::from(headers) * 16)
    } else {
        let sge = WqeSge::from_bytes(&bytes(data));
        if ctrl.num_sge() != 1 || u32::from(ctrl.ds()) != headers + 1 || sge.length() != length {
            return End::NotPlain;
        }
        match route.local.find(sge.lkey(), sge.addr(), length) {
            Some(from) => from,
            None => return End::NoLocal,
        }
    };
    let ack_bytes = u64::from(route.ack_bytes);
    // An acknowledgement has an AETH and nothing else.
    let mut frame = ack_bytes - Aeth::BYTES as u64 + u64::from((length + 3) & !3);
    if write {
        let remote = remote_of(&words);
        let Some(to) = route.remote.find(remote.rkey(), remote.remote_addr(), length) else {
            return End::NoRemote;
        };
        frame += WqeRemote::BYTES as u64;
        lane.note(route.note);
        // SAFETY: both places were found for this length in this generation.
        unsafe { to.copy(from, length as usize) };
    } else {
        // SAFETY: as the caller promises.
        let end = unsafe { receive(route, peer, from, length, ctrl.solicited(), lane) };
        if end != End::Sent {
            return end;
        }
    }
    let next = psn::add(psn, 1);
    // SAFETY: as above; there are no other references just now.
    let resp = unsafe { &mut (*peer).resp };
    resp.epsn = next;
    resp.msn = psn::add(resp.msn, 1);
    resp.packets += 1;
    resp.bytes += frame;
    resp.tx_packets += 1;
    resp.tx_bytes += ack_bytes;
    // SAFETY: as above.
    if !write && unsafe { (*own).state } != QpState::RTS {
        // Its CQ is the receiver's too, and was overrun by it: the WQE was flushed.
        return End::NotPlain;
    }
    // SAFETY: as above.
    let req = unsafe { &mut (*own).req };
    req.psn = next;
    req.una = next;
    req.cur = index.wrapping_add(1);
    req.packets += 1;
    req.bytes += frame;
    req.rx_packets += 1;
    req.rx_bytes += ack_bytes;
    if ctrl.signaled() || route.signal_all {
        lane.sent(route.card, route.q, [words[0], words[1]]);
    } else {
        // One packet and, as checked above, one block.
        req.ci_psn = next;
        req.ci = req.cur;
    }
    if index.wrapping_add(1) == producer {
        End::Sent
    } else {
        End::More
    }
}

/// Puts a SEND into the next receive WQE and completes that: [`End::Sent`]; or nothing is changed.
///
/// # Safety
/// As [`send`], to whose peer this is.
#[inline(always)]
unsafe fn receive(
    route: &Route,
    peer: *mut Qp,
    from: Here,
    length: u32,
    solicited: bool,
    lane: &mut impl Lane,
) -> End {
    let (card, q) = (route.peer_card, route.peer);
    // SAFETY: as the caller promises; there are no other references just now.
    let resp = unsafe { &mut (*peer).resp };
    let posted = resp.posted(|| lane.rq_producer(card, q));
    let index = resp.rq_ci;
    if route.rq_stride_log == 0 || resp.has_recv.get() || posted.wrapping_sub(1) > route.rq_mask {
        return End::NotPlain;
    }
    // SAFETY: the route is of this generation, so the ring is where it was found, and no stride is shorter.
    let words: [u64; 4] = unsafe { route.receive_entry(index).words() };
    let head = RecvHead::from_bytes(&bytes([words[0], words[1]]));
    let sge = WqeSge::from_bytes(&bytes([words[2], words[3]]));
    if head.num_sge() != 1 || sge.length() < length {
        return End::NotPlain;
    }
    if posted > 1 {
        route.receive_entry(index.wrapping_add(1)).prefetch();
    }
    let Some(to) = route.receive.find(sge.lkey(), sge.addr(), sge.length()) else { return End::NoReceive };
    lane.note(route.note);
    // In this order, for crash recovery.
    // SAFETY: as above; the reference is to another part of it.
    unsafe { (*peer).recv.index = head.index() };
    compiler_fence(SeqCst);
    resp.has_recv = true.into();
    compiler_fence(SeqCst);
    resp.rq_ci = index.wrapping_add(1);
    // SAFETY: both places were found for this length in this generation.
    unsafe { to.copy(from, length as usize) };
    lane.received(card, q, length, solicited);
    End::Sent
}

/// The lane with an environment.
pub(super) struct Within<'a, E> {
    pub world: *mut World,
    pub env: &'a mut E,
}

impl<E: Express> Lane for Within<'_, E> {
    fn generation(&self) -> u64 {
        self.env.generation()
    }

    fn note(&mut self, word: u64) {
        self.env.note(word);
    }

    fn rq_producer(&mut self, card: u16, qp: u16) -> u32 {
        self.env.bells(card).rq_producer(qp.into())
    }

    fn sent(&mut self, card: u16, qp: u16, ctrl: [u64; 2]) {
        // SAFETY: `express` borrows the world exclusively and uses no reference to it during this call.
        unsafe { &mut *self.world }.sent(card, qp, ctrl, self.env);
    }

    fn received(&mut self, card: u16, qp: u16, length: u32, solicited: bool) {
        // SAFETY: as above.
        unsafe { &mut *self.world }.received(card, qp, length, solicited, self.env);
    }
}

impl World {
    /// Completes the oldest WQE of a send queue, which was sent on the lane.
    #[inline(always)]
    pub(crate) fn sent(&mut self, card: u16, qp: u16, ctrl: [u64; 2], env: &mut impl Express) {
        let ctrl = WqeCtrl::from_bytes(&bytes(ctrl));
        self.cards[card as usize].complete_head(qp.into(), &ctrl, 1, env);
        self.completed(card, qp, env);
    }

    /// Completes the receive WQE in use with a SEND that came on the lane.
    #[inline(always)]
    pub(crate) fn received(
        &mut self,
        card: u16,
        qp: u16,
        length: u32,
        solicited: bool,
        env: &mut impl Express,
    ) {
        let packet = if solicited { &SOLICITED } else { &PLAIN };
        let (status, syndrome) = (CqeStatus::SUCCESS, Syndrome::NONE);
        self.cards[card as usize].complete_recv(qp.into(), status, syndrome, false, length, packet, env);
        self.completed(card, qp, env);
    }

    /// A CQE that overran its CQ has brought all QPs of the CQ to error, this one among them.
    #[inline(always)]
    fn completed(&self, card: u16, qp: u16, env: &mut impl Express) {
        if self.cards[card as usize].qps[qp as usize].state == QpState::ERR {
            env.forget_routes();
        }
    }
}
