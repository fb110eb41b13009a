//! Plain frames on the express lane: one that one queue gets is put into its memory as it is looked at.
//!
//! A frame of one piece of memory, for one queue that has a receive WQE of one piece, is the most frequent frame of a program
//! in a hurry. Who gets it is [remembered](Flows).
//!
//! The result is that of [`next_frame`](World::next_frame), [`hand_over`](World::hand_over) and
//! [`frame_sent`](World::frame_sent), which do all other frames. What could keep a frame from being plain is checked before
//! anything is changed. `tests/tests/express_frames.rs` compares the two.
#![allow(unsafe_code)]

use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

use fpga_regs::regs::port;
use fpga_regs::{Access, CqeStatus, QpState, QpType, RecvHead, Syndrome, WqeCtrl, WqeOpcode, WqeSge};

use super::flows::{Flows, Key, Place, Receiver, Sender, RECEIVERS, SENDERS};
use super::Express;
use crate::device::arrival::Found;
use crate::device::bytes;
use crate::device::qp::Qp;
use crate::device::raw::Added;
use crate::here::Here;
use crate::packet::PortId;
use crate::steering::{Copy, Fields};
use crate::wire::{ethernet, psn, Ethernet};
use crate::world::World;

/// Frames that a queue pair sends before others have a turn.
const TURN: u32 = 64;
/// How often a sender looks for a receive before it waits: some microseconds, in which a receiver that is at work posts.
const LOOKS: u32 = 100;
/// So many frames before a line of the receiver's is needed it is prefetched, as it is in another core's cache.
const AHEAD: u32 = 4;
/// Bytes of a frame's place that are prefetched: what the places of so many frames leave of a first-level cache.
const MOST_AHEAD: u64 = 2048;

/// Frames that have come to a port and are not counted yet.
#[derive(Default)]
struct Tally {
    at: PortId,
    frames: u64,
    bytes: u64,
}

/// What became of the next frame.
enum Next {
    Sent,
    /// There is none.
    Empty,
    /// It is not plain, or its receiver not ready.
    NotPlain,
}

impl World {
    /// Sends the plain frames at the head of a send queue, and finds out what they need. False if something is left, for
    /// [`next_frame`](Self::next_frame).
    pub(crate) fn express_frames<E: Express>(&mut self, card: u16, q: u16, env: &mut E) -> bool {
        if !self.cards[usize::from(card)].qps[usize::from(q)].sends_plain_frames() {
            return false;
        }
        let mut flows = core::mem::take(env.flows());
        flows.make_room();
        let mut tally = Tally::default();
        // Who rings while this runs has it run again.
        let producer = env.bells(card).sq_producer(q.into());
        let mut next = Next::Sent;
        for _ in 0..TURN {
            next = flows.send(self, (card, q), producer, &mut tally, env);
            if !matches!(next, Next::Sent) {
                break;
            }
        }
        tally.count(self);
        *env.flows() = flows;
        if matches!(next, Next::Sent) {
            env.send_later(card, q);
        }
        !matches!(next, Next::NotPlain)
    }
}

impl Qp {
    /// Whether the next frame of this queue pair may be plain: nothing is under way or waits.
    fn sends_plain_frames(&self) -> bool {
        let req = &self.req;
        let idle = req.ci == req.cur && req.una == req.psn && req.ci_psn == req.psn && req.cur_offset == 0;
        let waits = req.rnr_wait.get() || req.pending_status != 0 || req.again.get() || self.awaited.get();
        self.used.get() && self.qp_type == QpType::RAW_PACKET && self.state == QpState::RTS && idle && !waits
    }
}

impl Tally {
    /// A frame of so many bytes has come to a port.
    #[inline(always)]
    fn add(&mut self, world: &World, at: PortId, bytes: usize) {
        if self.at != at {
            self.count(world);
            self.at = at;
        }
        self.frames += 1;
        self.bytes += bytes as u64;
    }

    fn count(&mut self, world: &World) {
        let Tally { at, frames, bytes } = core::mem::take(self);
        if frames != 0 {
            let counters = &world.cards[usize::from(at.card)].counters[usize::from(at.port)];
            counters.add(port::RX_PACKETS, frames);
            counters.add(port::RX_BYTES, bytes);
        }
    }
}

impl Flows {
    /// Sends the next frame of a queue pair that [may send plain ones](Qp::sends_plain_frames), if it is plain.
    #[inline(always)]
    fn send<E: Express>(
        &mut self,
        world: &mut World,
        sender: Place,
        producer: u32,
        tally: &mut Tally,
        env: &mut E,
    ) -> Next {
        let (card, q) = (usize::from(sender.0), usize::from(sender.1));
        let generation = env.generation();
        let known = &mut self.senders[q % SENDERS];
        if known.is_none_or(|known| (known.generation, known.place) != (generation, sender)) {
            // One that sends no plain frames takes no other's place.
            let Some(found) = world.frame_sender(sender, env) else { return Next::NotPlain };
            *known = Some(found);
        }
        let Some(own) = known else { return Next::NotPlain };
        let index = world.cards[card].qps[q].req.cur;
        match producer.wrapping_sub(index) {
            0 => return Next::Empty,
            posted if posted > own.sq_mask + 1 => return Next::NotPlain,
            _ => {}
        }
        let Some((ctrl, from)) = own.fetch(index, world, env) else { return Next::NotPlain };
        let Some(added) = Added::by(&ctrl) else { return Next::NotPlain };
        let posted = ctrl.length() as usize;
        // SAFETY: the memory was found for this length in this generation; frames are no longer than the room for one.
        unsafe { from.read_frame(&mut self.frame[..posted]) };
        let frame = &mut self.frame[..added.length(posted)];
        if !added.leaves_as_it_is(posted) {
            added.add(frame, posted);
        }
        let fields = Fields::of(frame);
        // Before the fields are read as a whole: they have just been written in parts, for which that would wait.
        let found = Found::of(frame, &fields);
        let key = |mask| Key { generation, from: own.port, fields: fields.under(mask) };
        let rules = &mut self.rules;
        let flow = self.flows.find(&key(&own.hashed), || {
            world.flow(rules.find(&key(&own.asked), || world.rule(sender, &fields, env))?, &fields)
        });
        let Some(flow) = flow else { return Next::NotPlain };
        let place = (flow.copy.at.card, flow.copy.queue);
        if place.0 == sender.0 && (place.1 == sender.1 || world.cards[card].sends_for(sender.1, place.1)) {
            return Next::NotPlain;
        }
        let known = &mut self.receivers[usize::from(place.1) % RECEIVERS];
        if known.is_none_or(|known| (known.generation, known.place) != (generation, place)) {
            *known = world.frame_receiver(place, env);
        }
        let Some(receiver) = known else { return Next::NotPlain };
        if !receiver.take(world, (&flow.copy, flow.pauses), (frame, found), env) {
            return Next::NotPlain;
        }
        if let Some(rule) = flow.counts {
            world.cards[usize::from(place.0)].rules.count(rule, frame.len() as u64);
        }
        tally.add(world, flow.copy.at, frame.len());
        if world.cards[card].qps[q].state != QpState::RTS {
            // Its CQ is the receiver's too, and was overrun by it: the WQE was flushed.
            return Next::NotPlain;
        }
        world.plain_frame_sent(sender, &ctrl, frame.len(), env)
    }
}

impl Sender {
    /// The control segment of a WQE and where its frame is, if it is one, of one piece.
    #[inline(always)]
    fn fetch(&mut self, index: u32, world: &World, env: &mut impl Express) -> Option<(WqeCtrl, Here)> {
        // SAFETY: the ring was found in this generation; a block has eight words.
        let words: [u64; 4] = unsafe { self.sq.add(u64::from(index & self.sq_mask) << 6).words() };
        let ctrl = WqeCtrl::from_bytes(&bytes([words[0], words[1]]));
        let sge = WqeSge::from_bytes(&bytes([words[2], words[3]]));
        let one_piece = !ctrl.inline() && ctrl.num_sge() == 1 && (2..=4).contains(&ctrl.ds());
        if ctrl.opcode() != WqeOpcode::RAW_ETH || !one_piece || sge.length() != ctrl.length() {
            return None;
        }
        let from = match self.from.find(sge.lkey(), sge.addr(), sge.length()) {
            Some(from) => from,
            None => {
                self.from = world.frame_memory(self.place, &sge, Access(0), env)?;
                self.from.start()
            }
        };
        Some((ctrl, from))
    }
}

impl Receiver {
    /// Takes a frame into the next receive WQE and completes that; false: nothing is changed.
    #[inline(always)]
    fn take(
        &mut self,
        world: &mut World,
        (copy, pauses): (&Copy, bool),
        (frame, found): (&[u8], Found),
        env: &mut impl Express,
    ) -> bool {
        let (card, q) = (usize::from(self.place.0), usize::from(self.place.1));
        let qp = &mut world.cards[card].qps[q];
        if !qp.receives() || qp.resp.has_recv.get() {
            return false;
        }
        let mut posted = qp.resp.posted(|| env.bells(self.place.0).rq_producer(q));
        let mut looks = if pauses { LOOKS } else { 0 };
        while posted == 0 && looks != 0 {
            core::hint::spin_loop();
            posted = qp.resp.posted(|| env.bells(self.place.0).rq_producer(q));
            looks -= 1;
        }
        if posted.wrapping_sub(1) > self.rq_mask {
            return false;
        }
        let index = qp.resp.rq_ci;
        let words = self.words(index);
        let head = RecvHead::from_bytes(&bytes([words[0], words[1]]));
        let sge = WqeSge::from_bytes(&bytes([words[2], words[3]]));
        let stripped = found.stripped_by(qp);
        let length = frame.len() - if stripped.is_some() { Ethernet::TAG_BYTES } else { 0 };
        if head.num_sge() != 1 || (sge.length() as usize) < length {
            return false;
        }
        let to = match self.to.find(sge.lkey(), sge.addr(), sge.length()) {
            Some(to) => to,
            None => {
                let found = world.frame_memory(self.place, &sge, Access::LOCAL_WRITE, env);
                let Some(found) = found else { return false };
                self.to = found;
                found.start()
            }
        };
        let cq = &world.cards[card].cqs[usize::from(self.recv_cq)];
        self.prefetch_ahead(index, posted, cq.pi.wrapping_add(AHEAD) & cq.mask, length as u64);
        let qp = &mut world.cards[card].qps[q];
        if qp.waits_until != 0 {
            qp.waits_until = 0;
        }
        // In this order, and all of it, for crash recovery: the next frame is written there then.
        (qp.recv.index, qp.recv.num_sge, qp.recv.room) = (head.index(), 1, sge.length().into());
        // By words: a load that spans two recent stores is not forwarded and stalls.
        qp.recv.sges[0].set_words([words[2], words[3]]);
        compiler_fence(SeqCst);
        qp.resp.has_recv = true.into();
        compiler_fence(SeqCst);
        qp.resp.rq_ci = index.wrapping_add(1);
        // SAFETY: the memory was found for this length in this generation.
        unsafe {
            match stripped {
                None => to.write_frame(frame),
                Some(_) => {
                    let (addresses, rest) = frame.split_at(ethernet::ADDRESSES);
                    to.write_frame(addresses);
                    to.add(addresses.len() as u64).write(&rest[Ethernet::TAG_BYTES..]);
                }
            }
        }
        let device = &mut world.cards[card];
        let mut cqe = device.recv_cqe(q, CqeStatus::SUCCESS, Syndrome::NONE, length as u32);
        found.tell(&mut cqe, copy, stripped);
        device.push_recv(q, cqe, false, env);
        if device.qps[q].state == QpState::ERR {
            // It has overrun its CQ.
            env.forget_routes();
        }
        true
    }

    /// Prefetches what later frames of this length need: receive WQEs, the places that they name, and CQEs.
    #[inline(always)]
    fn prefetch_ahead(&self, index: u32, posted: u32, cqe: u32, length: u64) {
        if let Some(cq) = self.cq {
            cq.add(u64::from(cqe) << 6).prefetch_for_write();
        }
        if posted <= AHEAD {
            return;
        }
        let words = self.words(index.wrapping_add(AHEAD));
        let sge = WqeSge::from_bytes(&bytes([words[2], words[3]]));
        if let Some(to) = self.to.find(sge.lkey(), sge.addr(), sge.length()) {
            let mut line = 0;
            while line < length.min(MOST_AHEAD) {
                to.add(line).prefetch_for_write();
                line += 64;
            }
        }
        if posted > 2 * AHEAD {
            self.entry(index.wrapping_add(2 * AHEAD)).prefetch();
        }
    }

    /// The head of a receive WQE and its first element.
    #[inline(always)]
    fn words(&self, index: u32) -> [u64; 4] {
        // SAFETY: the ring was found in this generation, and no stride is shorter.
        unsafe { self.entry(index).words() }
    }

    #[inline(always)]
    fn entry(&self, index: u32) -> Here {
        self.rq.add(u64::from(index & self.rq_mask) << self.rq_stride_log)
    }
}

impl World {
    /// A plain frame of so many bytes has left: its WQE is complete.
    #[inline(always)]
    fn plain_frame_sent(
        &mut self,
        (card, q): Place,
        ctrl: &WqeCtrl,
        len: usize,
        env: &mut impl Express,
    ) -> Next {
        let device = &mut self.cards[usize::from(card)];
        let qp = &mut device.qps[usize::from(q)];
        let next = psn::add(qp.req.psn, 1);
        qp.req.psn = next;
        qp.req.una = next;
        qp.req.cur = qp.req.cur.wrapping_add(1);
        qp.req.packets += 1;
        qp.req.bytes += len as u64;
        if !ctrl.signaled() && !qp.sq_sig_all.get() {
            qp.req.ci_psn = next;
            qp.req.ci = qp.req.cur;
            return Next::Sent;
        }
        device.complete_head(q.into(), ctrl, 1, env);
        match device.qps[usize::from(q)].state == QpState::RTS {
            true => Next::Sent,
            false => {
                // It has overrun its CQ.
                env.forget_routes();
                Next::NotPlain
            }
        }
    }
}
