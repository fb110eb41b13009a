//! Whole frames of raw packet queue pairs.
//!
//! On its way a frame is a packet, whose payload is all of it. It leaves its send queue when all who get a copy have a receive
//! WQE, as by the wall clock. Those on their way when a queue runs out of them wait at the receiver, as in the headroom of a port
//! that has told its peer to pause, until the queue has receives or was waited for long enough.

use super::engine::Engine;
use super::event::Event;
use super::state::Sim;
use super::trace::Subject;
use crate::device::arrival::Found;
use crate::frames::Received;
use crate::packet::Packet;
use crate::plain::Plain;
use crate::steering::{Copies, Copy, Fields};
use fpga_regs::regs::port;

/// A copy of a frame that waits for a receive.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Parked {
    /// The frame.
    slot: u32,
    /// The next one of the same queue, plus one.
    next: u32,
    copy: Copy,
    /// The number of the queue, whose place may be another's meanwhile.
    qpn: u32,
}

impl Sim {
    /// Removes the first parked frame of a queue.
    fn unpark(&mut self, card: u16, qp: u16) -> Option<Parked> {
        let parked = &mut self.cards[usize::from(card)].qps[usize::from(qp)].parked;
        let place = parked.0.checked_sub(1)?;
        let first = *self.parked.get(place);
        parked.0 = first.next;
        if first.next == 0 {
            parked.1 = 0;
        }
        self.parked.free(place);
        Some(first)
    }
}

impl Engine<'_> {
    /// Starts the next frame of a raw packet queue pair, unless it has to wait.
    pub(super) fn send_frame(&mut self, card: u16, qp: u16) {
        let Some(frame) = self.world.next_frame((card, qp), &mut self.env) else { return };
        if !frame.waits {
            self.world.send_frame(&frame, &mut self.env);
            crate::env::Env::send_later(&mut self.env, card, qp);
        }
    }

    /// Who gets a copy of a frame in a slot.
    fn receivers(&self, slot: u32, packet: &Packet) -> Copies {
        let bytes = &self.env.sim.payload[slot as usize][..packet.payload.len()];
        let sender = (packet.src.card, packet.src_qpn as u16);
        self.world.receivers((packet.src, packet.dst), sender, &Fields::of(bytes), self.env.sim.now / 1000)
    }

    /// Looks up the contexts of the queues that get a frame; returns when the card has them (ps).
    pub(super) fn finds_queues(&mut self, slot: u32, packet: &Packet) -> u64 {
        let copies = self.receivers(slot, packet);
        let sim = &mut *self.env.sim;
        let (p, mut known) = (&sim.profile, sim.now);
        let c = &mut sim.cards[usize::from(packet.dst.card)];
        for copy in copies.all() {
            if !c.qpc.touch(&mut c.recent_qpc, copy.queue.into(), p.caches.qpc()) {
                known = known.max(c.bus.read(sim.now, p.caches.qpc_bytes, p).last);
            }
        }
        known
    }

    /// A frame is received.
    pub(super) fn receive_whole(&mut self, slot: u32, packet: &Packet) {
        let way = (packet.src, packet.dst);
        if !self.arrives_whole(slot, packet.payload.len()) {
            return self.world.lose_damaged(way, self.env.sim.now / 1000);
        }
        let copies = self.receivers(slot, packet);
        let mut received = Received::default();
        for copy in copies.all() {
            if !self.world.pauses(packet.src, copy.at) || !self.park(slot, copy) {
                self.give(slot, copy, &mut received);
            }
        }
        self.world.count_frame(way, &copies, packet.payload.len(), || self.env.sim.now / 1000);
    }

    /// Gives a copy of a frame to its queue.
    fn give(&mut self, slot: u32, copy: &Copy, received: &mut Received) {
        let s = self.env.sim.slots.get(slot);
        let (packet, message) = (s.packet.get(), s.message);
        let frame = &self.env.sim.payload[slot as usize][..packet.payload.len()];
        let found = Found::of(frame, &Fields::of(frame));
        let card = copy.at.card;
        self.env.step.card = card;
        self.env.step.subject = Subject { place: card, ..Subject::of(&packet, message, false) };
        let device = &mut self.world.cards[usize::from(card)];
        if device.receive_frame(copy, found, &packet.payload, &mut self.env) {
            received.add(device, copy.at, packet.payload.len());
        }
    }

    /// Keeps a copy of a frame if its queue has no receive and is waited for.
    fn park(&mut self, slot: u32, copy: &Copy) -> bool {
        let (card, q) = (copy.at.card, usize::from(copy.queue));
        let device = &mut self.world.cards[usize::from(card)];
        if device.lacks_recv(q, &mut self.env).is_none() {
            return false;
        }
        let sim = &mut *self.env.sim;
        let parked = Parked { slot, next: 0, copy: *copy, qpn: device.qps[q].qpn };
        let Some(place) = sim.parked.put(parked) else { return false };
        sim.slots.get_mut(slot).refs += 1;
        let list = &mut sim.cards[usize::from(card)].qps[q].parked;
        let place = place + 1;
        match std::mem::replace(&mut list.1, place) {
            0 => list.0 = place,
            last => sim.parked.get_mut(last - 1).next = place,
        }
        self.wait_for_queue(card, copy.queue);
        true
    }

    /// Whoever waits for receives of a queue does so no longer than that.
    fn wait_for_queue(&mut self, card: u16, qp: u16) {
        let until = self.world.cards[usize::from(card)].qps[usize::from(qp)].waits_until;
        let sim = &mut *self.env.sim;
        let waited_for = &mut sim.cards[usize::from(card)].qps[usize::from(qp)].waited_for;
        if !std::mem::replace(waited_for, true.into()).get() {
            let at = until.saturating_mul(1000).max(sim.now);
            sim.at(at, Event::Patience { card, qp });
        }
    }

    /// A queue whose frames wait for receives may have been waited for long enough.
    #[cold]
    pub(super) fn patience(&mut self, card: u16, qp: u16) {
        self.env.sim.cards[usize::from(card)].qps[usize::from(qp)].waited_for.take();
        self.give_parked(card, qp);
        if self.env.sim.cards[usize::from(card)].qps[usize::from(qp)].parked.0 != 0 {
            self.wait_for_queue(card, qp);
        }
        self.settle();
    }

    /// A receive doorbell has come that somebody waits for.
    #[cold]
    pub(super) fn watched_bell(&mut self, card: u16, qp: u16) {
        if self.world.cards[usize::from(card)].qps[usize::from(qp)].takes_frames() {
            // What has come goes before what has not left.
            self.give_parked(card, qp);
            self.world.resume_frames((card, qp), &mut self.env);
            self.settle();
        }
        self.want_send(card, qp);
    }

    /// Gives a queue the frames that wait, as far as it has receives for them or is not waited for any more.
    fn give_parked(&mut self, card: u16, qp: u16) {
        let (at, q) = (usize::from(card), usize::from(qp));
        loop {
            let Some(place) = self.env.sim.cards[at].qps[q].parked.0.checked_sub(1) else { return };
            let Parked { qpn, .. } = *self.env.sim.parked.get(place);
            let queue = &self.world.cards[at].qps[q];
            let gone = !queue.used.get() || queue.qpn != qpn;
            if !gone && self.world.cards[at].lacks_recv(q, &mut self.env).is_some() {
                return;
            }
            let Some(first) = self.env.sim.unpark(card, qp) else { return };
            match gone {
                true => self.world.cards[at].counters[usize::from(first.copy.at.port)].add(port::RX_NO_QP, 1),
                // It is counted by itself: other copies may have come long ago.
                false => self.give(first.slot, &first.copy, &mut Received::default()),
            }
            self.env.sim.release(first.slot);
        }
    }
}
