//! The switches that connect the ports of a net: each stores whole frames, and has a queue for each port that they leave by.
//! Most often there is one; [`super::fabric`] knows how several are connected.
//!
//! A frame whose last bit has arrived (`ToSwitch`) joins the queue of the port that it is for; it is dropped if there is no
//! room. Frames leave one after the other at the ports' rate (`FromSwitch`), and are marked when they begin to. Congestion notifications
//! have a queue of their own, which goes first and is never paused. Without a switch none of these events exist.

use super::engine::Engine;
use super::event::Event;
use super::fabric::{connector, End, Fabric, CONNECTORS};
use super::port::{frame_bytes, on_wire, traced};
use super::slab::Slab;
use super::state::{Sim, SLOTS};
use super::trace::Phase;
use crate::congestion::SwitchOptions;
use crate::link::faults::{mark, mix};
use crate::packet::{Packet, PortId, CONGESTION};
use crate::plain::{Flag, Plain};
use crate::profile::Profile;
use fpga_regs::regs::port;
use fpga_regs::MAX_FRAME;

/// Bytes that a pause frame takes on the wire, with preamble and gap (IEEE 802.3, annex 31D).
const PAUSE_BYTES: u64 = 84;
/// Bytes of the largest frame with preamble and gap, roundly.
const LARGEST: u64 = MAX_FRAME as u64 + 160;

/// A frame in the switch.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Inside {
    /// Its packet's slot.
    slot: u32,
    /// The next of its queue, plus one.
    next: u32,
    /// The port that it came in by.
    from: u16,
    /// Bytes, with FCS.
    bytes: u32,
}

/// What happened at a port of the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Counts {
    /// Frames sent to the port's card.
    pub frames: u64,
    /// Their bytes, with FCS.
    pub bytes: u64,
    /// Frames for it that were dropped.
    pub drops: u64,
    /// Frames for it that were marked.
    pub marks: u64,
    /// Times that the card was told to pause.
    pub pauses: u64,
    /// Picoseconds that its port has been paused.
    pub paused_ps: u64,
    /// Most bytes that waited for it.
    pub deepest: u64,
    /// Bytes that waited for it, times nanoseconds.
    pub byte_ns: u64,
}

/// A port of the switch.
#[derive(Plain)]
#[repr(C)]
pub struct Connector {
    /// Frames that wait to leave by it, first and last plus one: notifications, and all others.
    queues: [(u32, u32); 2],
    /// Bytes of the others.
    queued: u64,
    /// The frame that leaves, plus one.
    leaving: u32,
    /// When its cable is free.
    free_at: u64,
    /// Bytes in the switch that came in by it.
    held: u64,
    /// The other end was told to pause.
    paused: Flag,
    /// The other end, of another switch, has told it to pause.
    stopped: Flag,
    /// Since when its card has been pausing, plus one (ps).
    paused_at: u64,
    /// When `byte_ns` was brought up to date (ns).
    counted_at: u64,
    counts: Counts,
}

/// The switch. All zeros: there is none.
#[derive(Plain)]
#[repr(C)]
pub struct Switch {
    on: Flag,
    pfc: Flag,
    buffer: u64,
    kmin: u64,
    kmax: u64,
    pmax: u64,
    xoff: u64,
    xon: u64,
    headroom: u64,
    /// Random numbers drawn so far, from the seed on.
    random: u64,
    fabric: Fabric,
    inside: Slab<Inside, SLOTS>,
    ports: [Connector; CONNECTORS],
}

/// The queue that a packet waits in, here and at the MAC.
pub(super) fn class(packet: &Packet) -> usize {
    usize::from(!packet.is_notification())
}

impl Switch {
    /// Makes a switch, or several.
    pub fn start(&mut self, options: &SwitchOptions, fabric: Fabric, profile: &Profile) {
        self.fabric = fabric;
        let SwitchOptions { buffer, kmin, kmax, pmax, pfc, .. } = *options;
        (self.buffer, self.kmin, self.kmax, self.pmax) = (buffer, kmin, kmax, pmax);
        self.random = mix(options.seed());
        if let Some(pfc) = pfc {
            let (wire, rate) = (&profile.wire, profile.wire.rate_bps);
            // A frame in progress delays the pause, one is being sent when it comes, and one made the switch send it;
            // the rest was on the cables.
            let under_way = 3 * LARGEST + PAUSE_BYTES + rate.bytes_in(2 * wire.cable_ps);
            self.pfc = true.into();
            (self.xoff, self.xon) = (pfc.xoff, pfc.xon);
            self.headroom = pfc.headroom.unwrap_or(under_way);
        }
        self.on = true.into();
    }

    /// There is a switch.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Loses all frames.
    pub fn reset(&mut self) {
        self.inside.clear();
        for port in &mut self.ports {
            (port.queues, port.queued, port.leaving) = Default::default();
            (port.held, port.paused, port.stopped, port.paused_at) = (0, Flag::NO, Flag::NO, 0);
        }
    }

    /// What happened at the port of a card's port until `now` (ps), and how many bytes wait for it.
    pub fn counts(&self, port: PortId, now: u64) -> (Counts, u64) {
        connector(port).map(|at| self.counts_at(at, now)).unwrap_or_default()
    }

    /// The same of all ports, with `cards` cards: of the cards' ports, two by two, and then of those between switches.
    pub fn all_counts(&self, cards: u16, now: u64) -> Vec<Counts> {
        (0..self.fabric.ports(cards)).map(|at| self.counts_at(at, now).0).collect()
    }

    fn counts_at(&self, at: usize, now: u64) -> (Counts, u64) {
        let port = &self.ports[at];
        let mut counts = port.counts;
        counts.byte_ns += port.queued * (now / 1000).saturating_sub(port.counted_at);
        counts.paused_ps += match port.paused_at {
            0 => 0,
            since => now.saturating_sub(since - 1),
        };
        (counts, port.queued)
    }

    /// Whether a frame that leaves this many bytes behind is marked: not up to `kmin`, always beyond `kmax`, and with a
    /// probability that rises to `pmax` in between (Zhu et al., figure 5).
    fn marks(&mut self, queued: u64) -> bool {
        if queued <= self.kmin {
            return false;
        }
        if queued > self.kmax {
            return true;
        }
        let p = u128::from(self.pmax) * u128::from(queued - self.kmin) / u128::from(self.kmax - self.kmin);
        self.random = self.random.wrapping_add(1);
        u128::from(mix(self.random) >> 32) < p
    }

    /// Whether there is room for a frame.
    fn has_room(&self, from: usize, to: usize, bytes: u64) -> bool {
        match self.pfc.get() {
            true => self.ports[from].held + bytes <= self.xoff + self.headroom,
            false => self.ports[to].queued + bytes <= self.buffer,
        }
    }
}

impl Connector {
    /// The other end pauses, or goes on.
    fn other_end_pauses(&mut self, now: u64, on: bool) {
        match on {
            true => self.paused_at = now + 1,
            false => {
                let since = std::mem::take(&mut self.paused_at);
                self.counts.paused_ps += now - since.saturating_sub(1).min(now);
            }
        }
    }

    /// The bytes that wait for it change.
    fn queue_changes(&mut self, now: u64, queued: u64) {
        let ns = now / 1000;
        self.counts.byte_ns += self.queued * (ns - self.counted_at);
        self.counted_at = ns;
        self.queued = queued;
        self.counts.deepest = self.counts.deepest.max(queued);
    }
}

impl Sim {
    /// Tells the other end of a cable to pause, or to go on: after the frame in progress.
    fn tell_pause(&mut self, at: usize, on: bool) {
        let wire = &self.profile.wire;
        let port = &mut self.switch.ports[at];
        port.paused = on.into();
        port.counts.pauses += u64::from(on);
        port.free_at = port.free_at.max(self.now) + wire.rate_bps.time(PAUSE_BYTES);
        let there = port.free_at + wire.cable_ps;
        let event = match self.switch.fabric.end(at) {
            End::Card(PortId { card, port }) => Event::Pause { card, port, on: on.into() },
            End::Switch(port) => Event::PauseSwitch { port: port as u16, on: on.into() },
        };
        self.at(there, event);
    }

    /// A frame that begins to leave is marked, or not, by the bytes that still wait: the mark does not wait with them.
    fn mark(&mut self, at: usize, slot: u32) {
        let s = self.slots.get_mut(slot);
        let mut packet = s.packet.get();
        if !matches!(packet.ecn, 1 | 2) || !self.switch.marks(self.switch.ports[at].queued) {
            return;
        }
        self.switch.ports[at].counts.marks += 1;
        packet.ecn = CONGESTION;
        s.packet.set(packet);
        match packet.is_frame() {
            true => mark(&mut self.payload[slot as usize][..packet.payload.len()]),
            // If it travels as one.
            false => self.frames[slot as usize].mark(),
        }
    }

    /// The next frame leaves by a port, if there is one and the last has left.
    fn send_next(&mut self, at: usize) {
        let switch = &mut self.switch;
        let port = &mut switch.ports[at];
        if port.leaving != 0 {
            return;
        }
        let may = |class: &usize| port.queues[*class].0 != 0 && (*class == 0 || !port.stopped.get());
        let Some(class) = (0..2).find(may) else { return };
        let place = port.queues[class].0;
        let frame = *switch.inside.get(place - 1);
        port.queues[class].0 = frame.next;
        if frame.next == 0 {
            port.queues[class].1 = 0;
        }
        port.leaving = place;
        let packet = self.slots.get(frame.slot).packet.get();
        let start = port.free_at.max(self.now);
        port.free_at = start + on_wire(&packet, packet.payload.len() as u32, &self.profile);
        let left = port.free_at;
        if class != 0 {
            port.queue_changes(self.now, port.queued - u64::from(frame.bytes));
            self.mark(at, frame.slot);
            let switch = &mut self.switch;
            let source = &mut switch.ports[usize::from(frame.from)];
            source.held -= u64::from(frame.bytes);
            if source.paused.get() && source.held <= switch.xon {
                self.tell_pause(frame.from.into(), false);
            }
        }
        self.at(left, Event::FromSwitch { port: at as u16 });
    }
}

impl Engine<'_> {
    /// The last bit of a frame has come to a switch, by one of its ports; 0: from the card that sends it, else the port's
    /// number plus one.
    pub(super) fn enters_switch(&mut self, slot: u32, by: u16) {
        if by == 0 && self.never_enters(slot) {
            return self.env.sim.release(slot);
        }
        let sim = &mut *self.env.sim;
        let (now, packet) = (sim.now, sim.slots.get(slot).packet.get());
        let len = packet.payload.len() as u32;
        let (Some(from), Some(to)) = (connector(packet.src), connector(packet.dst)) else {
            // Multicast waits in no queue.
            let comes = now + on_wire(&packet, len, &sim.profile) + sim.profile.wire.cable_ps;
            self.comes_from_switch(slot, &packet, comes);
            let at = comes + self.env.sim.profile.rx.rx_ps;
            return self.env.sim.at(at, Event::Arrive { slot });
        };
        let from = usize::from(by).checked_sub(1).unwrap_or(from);
        let to = sim.switch.fabric.way(from, to, &packet);
        let bytes = frame_bytes(&packet, len, &sim.profile);
        let (class, switch) = (class(&packet), &mut sim.switch);
        let queued = switch.ports[to].queued;
        let room = class == 0 || switch.has_room(from, to, bytes.into());
        let Some(place) = room.then(|| switch.inside.take()).flatten() else {
            switch.ports[to].counts.drops += 1;
            return sim.release(slot);
        };
        *switch.inside.get_mut(place) = Inside { slot, next: 0, from: from as u16, bytes };
        let place = place + 1;
        let last = std::mem::replace(&mut switch.ports[to].queues[class].1, place);
        match last {
            0 => switch.ports[to].queues[class].0 = place,
            last => switch.inside.get_mut(last - 1).next = place,
        }
        if class != 0 {
            switch.ports[to].queue_changes(now, queued + u64::from(bytes));
            let source = &mut switch.ports[from];
            source.held += u64::from(bytes);
            if switch.pfc.get() && !source.paused.get() && source.held >= switch.xoff {
                sim.tell_pause(from, true);
            }
        }
        sim.send_next(to);
    }

    /// The last bit of a frame has left a switch.
    pub(super) fn leaves_switch(&mut self, port: u16) {
        let at = usize::from(port) % CONNECTORS;
        let sim = &mut *self.env.sim;
        let out = &mut sim.switch.ports[at];
        let Some(place) = std::mem::take(&mut out.leaving).checked_sub(1) else { return };
        let Inside { slot, bytes, .. } = *sim.switch.inside.get(place);
        sim.switch.inside.free(place);
        out.counts.frames += 1;
        out.counts.bytes += u64::from(bytes);
        if let End::Switch(next) = sim.switch.fabric.end(at) {
            let comes = sim.now + sim.profile.wire.cable_ps;
            sim.at(comes, Event::ToSwitch { slot, by: next as u16 + 1 });
            return sim.send_next(at);
        }
        let s = sim.slots.get_mut(slot);
        let (packet, message, since) = (s.packet.get(), s.message, s.since);
        let comes = sim.now + sim.profile.wire.cable_ps;
        if traced(&packet) {
            s.since = comes;
            sim.trace.packet(Phase::WIRE, (since, comes), &packet, message, true);
        }
        let arrival = sim.arrival(&packet, comes);
        self.comes_from_switch(slot, &packet, comes);
        let sim = &mut *self.env.sim;
        sim.at(arrival, Event::Arrive { slot });
        sim.send_next(at);
    }

    /// The last bit of a frame comes to its receiver at a time: it is recorded, if the capture sees it there.
    fn comes_from_switch(&mut self, slot: u32, packet: &Packet, comes: u64) {
        if self.link.is_on() && self.link.sees((packet.src, packet.dst), true) {
            let sim = &mut *self.env.sim;
            sim.slots.get_mut(slot).refs += 1;
            sim.at(comes, Event::Record { slot, received: true.into() });
        }
    }

    /// A pause frame has come to a card's port.
    pub(super) fn pause(&mut self, card: u16, port: u8, on: bool) {
        let sim = &mut *self.env.sim;
        sim.cards[card as usize].ports[port as usize].paused = on.into();
        if let Some(at) = connector(PortId { card, port }) {
            sim.switch.ports[at].other_end_pauses(sim.now, on);
        }
        if on {
            return self.world.cards[card as usize].counters[port as usize].add(port::RX_PAUSE, 1);
        }
        self.mac(card, port);
    }

    /// A pause frame has come to a port of a switch, from another switch.
    pub(super) fn pause_switch(&mut self, port: u16, on: bool) {
        let at = usize::from(port) % CONNECTORS;
        let sim = &mut *self.env.sim;
        sim.switch.ports[at].stopped = on.into();
        if let End::Switch(other) = sim.switch.fabric.end(at) {
            sim.switch.ports[other].other_end_pauses(sim.now, on);
        }
        if !on {
            sim.send_next(at);
        }
    }
}
