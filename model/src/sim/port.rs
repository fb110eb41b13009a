//! From a message to the wire: fetch of the payload, transmit buffer, MAC.
//!
//! The flows take turns to fetch, packet by packet ([`super::flows`]). A packet whose payload has arrived is `Ready`
//! and gets its time slot on the wire.

use super::engine::Engine;
use super::event::Event;
use super::flows::{flow_mut, leave_round};
use super::state::Sim;
use super::state::*;
use super::trace::{Phase, Subject};
use super::ways::way;
use super::wire::Times;
use crate::encapsulation::Encapsulation;
use crate::journal;
use crate::packet::{Packet, Payload, PortId};
use crate::plain::Flag;
use crate::profile::Profile;
use crate::wire::{psn, Bth, Operation};

impl Packet {
    /// Whether the payload must be fetched by DMA.
    fn fetches(&self) -> bool {
        !self.inline && !self.payload.is_empty()
    }

    /// Whether sending it takes a DMA read: of its payload, or of an atomic's operand.
    pub(super) fn reads(&self) -> bool {
        self.fetches() || self.operation == Operation::AtomicAcknowledge
    }
}

/// Bytes of an atomic's operand.
const ATOMIC: u32 = 8;

/// Bytes of a packet from the BTH to the padding: `wire_bytes` counts from the Ethernet header to the ICRC.
fn transport_bytes(p: &Packet, len: u32) -> u32 {
    (p.wire_bytes(len) - p.encapsulation.overhead()) as u32 + Bth::BYTES as u32
}

/// Bytes that the encapsulation of a packet takes beyond RoCEv2 in IPv4.
fn beyond_ipv4(p: &Packet) -> u32 {
    (p.encapsulation.overhead() - Encapsulation::UDP_IPV4.overhead()) as u32
}

/// Time that a packet takes on the wire.
pub(super) fn on_wire(p: &Packet, len: u32, profile: &Profile) -> u64 {
    if p.is_frame() {
        return profile.wire.whole_ps(len);
    }
    profile.wire.packet_ps(transport_bytes(p, len), beyond_ipv4(p))
}

/// Bytes of a packet's frame, with FCS.
pub(super) fn frame_bytes(p: &Packet, len: u32, profile: &Profile) -> u32 {
    if p.is_frame() {
        return profile.wire.whole_bytes(len);
    }
    profile.wire.frame_bytes(transport_bytes(p, len), beyond_ipv4(p))
}

/// Whether the way of a packet is in the trace, apart from an acknowledgement's as a whole.
pub(super) fn traced(p: &Packet) -> bool {
    p.operation != Operation::Acknowledge && !p.is_notification()
}

/// Time that a packet takes in a data path of `width` bytes.
pub(super) fn in_path(p: &Packet, len: u32, width: u32, profile: &Profile) -> u64 {
    let bytes = if p.is_frame() { len } else { transport_bytes(p, len) };
    profile.cycles(bytes.div_ceil(width.max(1)))
}

impl Sim {
    /// When a packet is received that could be at `at`: never before an earlier packet, although a short one
    /// spends less time in the receiver's data path than a long one.
    fn in_turn(&mut self, to: PortId, at: u64) -> u64 {
        let Some(card) = self.cards.get_mut(to.card as usize) else { return at };
        let last = &mut card.ports[to.port as usize % crate::packet::PORTS].last_arrival;
        *last = at.max(*last);
        *last
    }

    /// Whether something delays packets in their card: pauses, or rates.
    pub(super) fn delays(&self) -> bool {
        self.switch.is_on() || self.cc.on()
    }

    /// A packet of a flow leaves its card, or never will.
    fn is_sent(&mut self, card: u16, flow: u16) {
        if usize::from(flow % 2) == SENDS {
            let unsent = &mut self.cards[card as usize].qps[usize::from(flow / 2)].unsent;
            *unsent = unsent.saturating_sub(1);
        }
    }

    /// Whether packets of a queue pair's requests wait in its card.
    pub(super) fn has_unsent(&self, card: u16, qp: usize) -> bool {
        let qp = &self.cards[card as usize].qps[qp];
        qp.flows[SENDS].head != 0 || qp.unsent != 0
    }

    /// When a packet whose last bit comes at a time has passed the receiver's port.
    pub(super) fn arrival(&mut self, packet: &Packet, comes: u64) -> u64 {
        let (p, len) = (&self.profile, packet.payload.len() as u32);
        let passed = comes + p.rx.rx_ps + in_path(packet, len, p.rx.width_bytes, p);
        self.in_turn(packet.dst, passed)
    }
}

impl Engine<'_> {
    /// Handles the results of a step: packets to send, send queues to continue, timers to arm.
    pub(crate) fn settle(&mut self) {
        // By index, without taking the vectors: they are usually empty.
        let gathers = std::mem::take(&mut self.env.step.gathers);
        for i in 0..self.env.step.sent.len() {
            self.enqueue(i, gathers);
        }
        self.env.step.sent.clear();
        for &slot in &self.env.step.stashes {
            self.env.sim.release(slot);
        }
        self.env.step.stashes.clear();
        for i in 0..self.env.step.wanted.len() {
            let (card, qp) = self.env.step.wanted[i];
            self.want_send(card, qp);
        }
        self.env.step.wanted.clear();
        while let Some((card, qp)) = self.env.step.watched.pop() {
            self.world.cards[card as usize].arm_if_waiting(qp as usize, &mut self.env);
        }
    }

    /// Looks up the translation of the next payload of a flow's first job, whose packet is on its way. On a miss the flow leaves
    /// the round until the translation has been read, and the result is false.
    fn translated(&mut self, packet: &Packet, id: u16, offset: usize, len: usize) -> bool {
        let PortId { card, port } = packet.src;
        let head = flow_mut(&mut self.env.sim.cards[card as usize].qps, id).head - 1;
        let job = self.env.sim.jobs.get_mut(head);
        let Payload::Memory(from, _) = packet.payload else { return true };
        if !packet.fetches() || job.known.take() {
            return true;
        }
        let known = self.env.translation(card, from.add(offset as u64));
        let sim = &mut *self.env.sim;
        if known <= sim.now {
            return true;
        }
        let job = sim.jobs.get_mut(head);
        let asked = job.start.max(sim.now);
        let since = job.since(packet.operation).min(asked);
        if sim.trace.on() {
            let subject = Subject::of(packet, job.message, true);
            let psn = psn::add(packet.psn, job.issued);
            sim.trace.step(Phase::TX, (since, asked), &subject, psn, len as u32);
            sim.trace.step(Phase::PAYLOAD_FETCH, (asked, known), &subject, psn, len as u32);
        }
        let job = sim.jobs.get_mut(head);
        (job.start, job.born, job.known) = (known, known, true.into());
        let c = &mut sim.cards[card as usize];
        leave_round(&mut c.ports[port as usize], &mut c.qps);
        self.line_up(card, port, id);
        false
    }

    /// Requests payload while the transmit buffer has room for it.
    pub(super) fn feed(&mut self, card: u16, port: u8) {
        loop {
            let sim = &mut *self.env.sim;
            let c = &mut sim.cards[card as usize];
            let first = c.ports[port as usize].round.0;
            if first == 0 {
                return;
            }
            let id = first - 1;
            let (qp, side) = (id / 2, (id % 2) as usize);
            let flow = c.qps[qp as usize].flows[side];
            let back = self.world.cards[card as usize].qps[qp as usize].req.rewinds;
            let job = sim.jobs.get_mut(flow.head - 1);
            if side == SENDS && job.back != back {
                // The QP went back, and sends it again.
                let job = sim.jobs.get(flow.head - 1);
                let (train, issued) = (job.packet.get(), job.issued);
                self.never_leaves(&train, issued);
                self.world.cards[card as usize].not_again(qp.into(), &train, issued);
                let sim = &mut *self.env.sim;
                let c = &mut sim.cards[card as usize];
                leave_round(&mut c.ports[port as usize], &mut c.qps);
                self.finish_job(card, qp, side);
                self.rejoin(card, port, id);
                continue;
            }
            let mut packet = job.packet.get();
            (packet.src, packet.dst) = way(self.link, self.world, &packet);
            if packet.src.port != port {
                self.change_port(card, (port, packet.src.port));
                continue;
            }
            let mtu = self.world.cards[card as usize].qps[qp as usize].mtu();
            let (payload, count) = (packet.payload, packet.count);
            let offset = (job.issued * mtu) as usize;
            let len = (payload.len() - offset).min(mtu as usize);
            let fetched = if packet.fetches() { len as u32 } else { 0 };
            let buffered = c.ports[port as usize].fetched;
            if fetched > 0 && buffered > 0 && buffered + fetched > sim.profile.tx.buffer_bytes {
                return;
            }
            if !self.translated(&packet, id, offset, len) {
                continue;
            }
            let sim = &mut *self.env.sim;
            let c = &mut sim.cards[card as usize];
            let job = sim.jobs.get_mut(flow.head - 1);
            let (start, gathers, message) = (job.start.max(sim.now), job.gathers, job.message);
            let since = job.since(packet.operation).min(start);
            let Some(at) = sim.slots.take() else {
                // Slots are freed by arrivals; the round continues with the next departure or message.
                return;
            };
            packet.become_nth(job.issued);
            let slot = sim.slots.get_mut(at);
            (slot.refs, slot.flow) = (1, id);
            (slot.unread, slot.waits, slot.warm) = (Flag::NO, Flag::NO, Flag::NO);
            slot.fetched = fetched as u16;
            (slot.message, slot.since) = (message, since);
            job.issued += 1;
            let done = job.issued == count;
            c.qps[qp as usize].unsent += u16::from(side == SENDS);
            leave_round(&mut c.ports[port as usize], &mut c.qps);
            if done {
                self.finish_job(card, qp, side);
            }
            let sim = &mut *self.env.sim;
            let c = &mut sim.cards[card as usize];
            let more = c.qps[qp as usize].flows[side].head != 0;
            let mut ready = start;
            let read = match packet.operation {
                Operation::AtomicAcknowledge => ATOMIC,
                _ => fetched,
            };
            if read > 0 {
                c.ports[port as usize].fetched += fetched;
                c.ports[port as usize].coming += fetched;
                // Each gathered piece is a separate read.
                for _ in 1..gathers {
                    c.bus.read(start, 4, &sim.profile);
                }
                ready = c.bus.read(start, read, &sim.profile).last;
                let slot = sim.slots.get_mut(at);
                slot.since = ready;
                if sim.trace.on() {
                    let (subject, psn) = (Subject::of(&packet, message, true), packet.psn);
                    sim.trace.step(Phase::TX, (since, start), &subject, psn, read);
                    sim.trace.step(Phase::PAYLOAD_FETCH, (start, ready), &subject, psn, read);
                }
            }
            self.env.paces(card, qp, &mut packet, len as u32);
            if more {
                self.line_up(card, port, id);
            }
            let unread = self.env.snapshot(&payload, offset, at, len).is_err();
            let sim = &mut *self.env.sim;
            let slot = sim.slots.get_mut(at);
            slot.unread = unread.into();
            let width = sim.profile.tx.width_bytes;
            ready += sim.profile.tx.tx_ps + in_path(&packet, len as u32, width, &sim.profile);
            let flow = &mut sim.cards[card as usize].qps[qp as usize].flows[side];
            ready = ready.max(flow.last_ready);
            flow.last_ready = ready;
            packet.payload = if len == 0 { Payload::None } else { Payload::Stash(at, len as u32) };
            slot.packet.set(packet);
            sim.at(ready, Event::Ready { slot: at });
        }
    }

    /// Puts a packet on the wire, after those before it.
    pub(super) fn ready(&mut self, slot: u32) {
        let sim = &mut *self.env.sim;
        let s = sim.slots.get_mut(slot);
        let (packet, fetched) = (s.packet.get(), s.fetched);
        if s.unread.get() {
            return self.cannot_be_sent(slot);
        }
        let port = &mut sim.cards[packet.src.card as usize].ports[packet.src.port as usize];
        port.coming -= u32::from(fetched);
        if sim.switch.is_on() {
            return self.wait_for_mac(slot, &packet);
        }
        let start = sim.mac_start(slot);
        self.leave(slot, start);
    }

    /// The first bit of a packet leaves at `start`.
    pub(super) fn leave(&mut self, slot: u32, start: u64) {
        let sim = &mut *self.env.sim;
        let s = sim.slots.get(slot);
        let (packet, flow, fetched) = (s.packet.get(), s.flow, s.fetched);
        let (message, since) = (s.message, s.since);
        sim.is_sent(packet.src.card, flow);
        let port = &mut sim.cards[packet.src.card as usize].ports[packet.src.port as usize];
        let end = start + on_wire(&packet, packet.payload.len() as u32, &sim.profile);
        port.free_at = end;
        port.last_flow = flow + 1;
        let loopback = packet.src.card == packet.dst.card;
        let switched = sim.switch.is_on() && !loopback;
        let comes = end + if loopback { 0 } else { sim.profile.wire.cable_ps };
        let arrival = if switched { comes } else { sim.arrival(&packet, comes) };
        if traced(&packet) {
            sim.trace.packet(Phase::TX, (since, start), &packet, message, true);
            if switched {
                // The way through the switch is part of the wire.
                sim.slots.get_mut(slot).since = start;
            } else {
                sim.trace.packet(Phase::WIRE, (start, comes), &packet, message, true);
                sim.slots.get_mut(slot).since = comes;
            }
        }
        let feed = fetched != 0 && start == sim.now;
        if feed {
            sim.cards[packet.src.card as usize].ports[packet.src.port as usize].fetched -= u32::from(fetched);
        } else if fetched != 0 {
            let (card, port) = (packet.src.card, packet.src.port);
            sim.at(start, Event::Depart { card, port, bytes: fetched.into() });
        }
        if self.link.is_on() {
            let times = Times { took: end - start, leaves: start, comes, arrival, switched };
            self.put_on_wire(slot, times);
        } else if switched {
            sim.at(comes, Event::ToSwitch { slot, by: 0 });
        } else {
            sim.at(arrival, Event::Arrive { slot });
        }
        if !packet.transport.is_reliable() && !packet.is_notification() {
            (self.env.step.card, self.env.step.not_before) = (packet.src.card, end);
            let word = journal::one(packet.src.card, packet.src_qpn);
            self.noted(word, |engine| engine.world.left(&packet, &mut engine.env));
            self.settle();
            self.env.step.not_before = 0;
        }
        if self.env.sim.delays() && !packet.is_answer() && !packet.is_notification() {
            let qp = usize::from(flow / 2);
            self.world.cards[packet.src.card as usize].starts_to_wait(qp, end.div_ceil(1000));
        }
        if feed {
            self.feed(packet.src.card, packet.src.port);
        }
    }

    /// Handles a packet whose payload could not be read, instead of sending it.
    #[cold]
    fn cannot_be_sent(&mut self, slot: u32) {
        let s = self.env.sim.slots.get_mut(slot);
        let (packet, flow, fetched) = (s.packet.get(), s.flow, u32::from(s.fetched));
        self.env.sim.is_sent(packet.src.card, flow);
        self.env.sim.release(slot);
        let port = &mut self.env.sim.cards[packet.src.card as usize].ports[packet.src.port as usize];
        (port.fetched, port.coming) = (port.fetched - fetched, port.coming - fetched);
        self.env.step.card = packet.src.card;
        let word = journal::one(packet.src.card, packet.src_qpn);
        self.noted(word, |engine| engine.world.unread(&packet, &mut engine.env));
        self.settle();
        self.feed(packet.src.card, packet.src.port);
    }

    /// Fetched payload has left the transmit buffer.
    pub(super) fn depart(&mut self, card: u16, port: u8, bytes: u32) {
        self.env.sim.cards[card as usize].ports[port as usize].fetched -= bytes;
        self.feed(card, port);
    }
}
