//! From a message to the wire and on: fetch of the payload, transmit buffer, MAC, receiver.
//!
//! Messages wait per QP and side in *flows*, which take turns packet by packet for the fetch. A
//! packet whose payload has come is `Ready` and takes its place on the wire.

use super::engine::Engine;
use super::event::Event;
use super::state::*;
use super::trace::{Phase, Subject};
use super::Sim;
use crate::device::Outcome;
use crate::env::Env;
use crate::packet::{aeth, Kind, Packet, Payload, PortId};
use crate::profile::Profile;
use crate::wire::psn;

impl Packet {
    /// Packets that the answering side of a QP sends.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.kind, Kind::Ack | Kind::ReadResponse | Kind::AtomicAck)
    }

    /// Whether the payload must be fetched by DMA.
    fn fetches(&self) -> bool {
        !self.inline && !self.payload.is_empty()
    }

    /// A train becomes its packet `i`.
    fn become_one(&mut self, i: u32) {
        let last = i + 1 == self.count;
        self.psn = psn::add(self.psn, i);
        self.count = 1;
        self.first &= i == 0;
        self.last &= last;
        if !last {
            self.ack_req = false;
            self.solicited = false;
            self.extra = crate::packet::Extra::None;
        }
    }
}

/// Bytes of a packet from the BTH to the padding: `wire_bytes` counts from the Ethernet header to the ICRC.
fn transport_bytes(p: &Packet, len: u32) -> u32 {
    let around = if p.ipv6 { 66 } else { 46 };
    p.wire_bytes(len) as u32 - around
}

/// Time that a packet takes on the wire.
fn on_wire(p: &Packet, len: u32, profile: &Profile) -> u64 {
    profile.wire.packet_ps(transport_bytes(p, len), if p.ipv6 { 20 } else { 0 })
}

/// Time of a packet in a data path of some width.
fn in_path(p: &Packet, len: u32, width: u32, profile: &Profile) -> u64 {
    profile.cycles(transport_bytes(p, len).div_ceil(width.max(1)))
}

impl Sim {
    /// When a packet that could be received at a time is: after those that came before it, although a short
    /// one takes less time in the receiver's data path than a long one.
    fn in_turn(&mut self, to: PortId, at: u64) -> u64 {
        let Some(card) = self.cards.get_mut(to.card as usize) else { return at };
        let last = &mut card.ports[to.port as usize % crate::packet::PORTS].last_arrival;
        *last = at.max(*last);
        *last
    }

    /// When `bytes` that a QP sends from now on have left its port, as far as is known now: after what
    /// its port and the QP have before them.
    pub(super) fn leaves(&self, card: u8, port: u8, qp: u16, mtu: u32, bytes: u32) -> u64 {
        const BTH: u32 = 12;
        let p = &self.profile;
        let wire = |bytes: u32| {
            let (full, rest) = (bytes / mtu, bytes % mtu);
            let last = if rest > 0 || full == 0 { p.wire.packet_ps(BTH + rest, 0) } else { 0 };
            u64::from(full) * p.wire.packet_ps(BTH + mtu, 0) + last
        };
        let c = &self.cards[card as usize];
        let port = &c.ports[port as usize];
        let mut at = port.free_at.max(self.now + p.sq.start_ps + p.pcie.read_ps + p.tx.tx_ps) + wire(bytes);
        if port.coming > 0 {
            at += wire(port.coming);
        }
        let mut next = c.qps[qp as usize].flows[SENDS].head;
        while next != 0 {
            let job = self.jobs.get(u32::from(next - 1));
            at += wire((job.packet.payload.len() as u32).saturating_sub(job.issued * mtu));
            next = job.next;
        }
        at
    }
}

impl Engine<'_> {
    /// Takes what a step left: packets to send, send queues to go on with, timers to arm.
    pub(crate) fn settle(&mut self) {
        // By index: nothing is moved away where there is nothing, as most often.
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
        self.world.end_run(&mut self.env);
    }

    /// The step's train `nth` joins its flow.
    fn enqueue(&mut self, nth: usize, gathers: u16) {
        let answered = self.env.step.subject.message;
        let (sim, packet) = (&mut *self.env.sim, &self.env.step.sent[nth]);
        let src = packet.src;
        let p = &sim.profile;
        let start = sim.now
            + match packet.kind {
                Kind::Ack => p.tx.ack_ps,
                Kind::ReadResponse => p.rx.resp_read_ps,
                Kind::AtomicAck => p.rx.resp_read_ps + p.pcie.read_ps,
                _ => p.sq.start_ps,
            };
        if let Payload::Stash(slot, _) = packet.payload {
            if slot as usize >= SLOTS {
                sim.overflows += 1;
                return;
            }
            sim.slots.get_mut(slot).refs += 1;
        }
        if matches!(packet.kind, Kind::ReadResponse | Kind::AtomicAck) {
            sim.trace.packet(Phase::ReadResponse, (sim.now, start), packet, answered, true);
        }
        let card = &mut sim.cards[src.card as usize];
        let qp = (packet.src_qpn & 0xffff) as u16 % crate::device::tables::MAX_QPS as u16;
        let side = if packet.is_answer() { ANSWERS } else { SENDS };
        let t = &mut card.qps[qp as usize];
        let back = t.back;
        let message = if side == SENDS { t.message } else { answered };
        let flow = &mut t.flows[side];
        if flow.tail != 0 && packet.kind == Kind::Ack && packet.syndrome == aeth::ACK {
            let last = sim.jobs.get_mut(u32::from(flow.tail - 1));
            // An acknowledgement that has not left says more when it leaves.
            if last.packet.kind == Kind::Ack && last.packet.syndrome == aeth::ACK {
                (last.packet, last.message, last.born) = (*packet, message, sim.now);
                return;
            }
        }
        let Some(at) = sim.jobs.take() else {
            sim.overflows += 1;
            if let Payload::Stash(slot, _) = packet.payload {
                sim.release(slot as u16);
            }
            return;
        };
        let job = sim.jobs.get_mut(at);
        job.packet = *packet;
        (job.next, job.issued, job.start, job.gathers) = (0, 0, start, gathers);
        (job.back, job.message, job.born) = (back, message, sim.now);
        let place = at as u16 + 1;
        if flow.tail == 0 {
            flow.head = place;
            let port = &mut card.ports[src.port as usize];
            let id = flow_id(qp, side);
            join_round(port, &mut card.qps, id);
        } else {
            sim.jobs.get_mut(u32::from(flow.tail - 1)).next = place;
        }
        let flow = &mut card.qps[qp as usize].flows[side];
        flow.tail = place;
        flow.count += 1;
        self.feed(src.card, src.port);
    }

    /// Asks for payload as long as there is room for it in the transmit buffer.
    pub(super) fn feed(&mut self, card: u8, port: u8) {
        loop {
            let sim = &mut *self.env.sim;
            let c = &mut sim.cards[card as usize];
            let first = c.ports[port as usize].round.0;
            if first == 0 {
                return;
            }
            let id = first - 1;
            let (qp, side) = (id / 2, (id % 2) as usize);
            let (flow, back) = (c.qps[qp as usize].flows[side], c.qps[qp as usize].back);
            let job = sim.jobs.get_mut(u32::from(flow.head - 1));
            if side == SENDS && job.back != back {
                // It is sent again from where the QP went back to.
                leave_round(&mut c.ports[port as usize], &mut c.qps);
                self.finish_job(card, qp, side);
                self.rejoin(card, port, id);
                continue;
            }
            let mtu = self.world.cards[card as usize].qps[qp as usize].mtu();
            let (payload, kind) = (job.packet.payload, job.packet.kind);
            let offset = (job.issued * mtu) as usize;
            let len = (payload.len() - offset).min(mtu as usize);
            let fetches = job.packet.fetches();
            let buffered = c.ports[port as usize].fetched;
            if fetches && buffered > 0 && buffered + len as u32 > sim.profile.tx.buffer_bytes {
                return;
            }
            let (start, gathers, message) = (job.start.max(sim.now), job.gathers, job.message);
            // The first packet has been in the pipeline.
            let since = match kind {
                _ if job.issued != 0 => start,
                Kind::ReadResponse | Kind::AtomicAck => job.start,
                _ => job.born,
            };
            let Some(at) = sim.slots.take() else {
                // Slots are freed by arrivals; the round goes on with the next departure or message.
                return;
            };
            // Made in place: a copy of what was just written waits for the writes.
            let slot = sim.slots.get_mut(at);
            slot.packet = job.packet;
            slot.packet.become_one(job.issued);
            (slot.refs, slot.flow, slot.waits, slot.warm) = (1, id, false, false);
            slot.fetched = if fetches { len as u16 } else { 0 };
            (slot.message, slot.since) = (message, since);
            job.issued += 1;
            let done = job.issued == job.packet.count;
            leave_round(&mut c.ports[port as usize], &mut c.qps);
            if done {
                self.finish_job(card, qp, side);
            }
            self.rejoin(card, port, id);
            let c = &mut self.env.sim.cards[card as usize];
            let mut ready = start;
            if fetches {
                c.ports[port as usize].fetched += len as u32;
                c.ports[port as usize].coming += len as u32;
                let translated = match payload {
                    Payload::Memory(from, _) => self.env.translation(card, from.add(offset as u64)),
                    _ => 0,
                };
                let sim = &mut *self.env.sim;
                let c = &mut sim.cards[card as usize];
                let (asked, start) = (start, start.max(translated));
                // Each piece that is gathered is a read of its own.
                for _ in 1..gathers {
                    c.bus.read(start, 4, &sim.profile);
                }
                ready = c.bus.read(start, len as u32, &sim.profile).last;
                let slot = sim.slots.get_mut(at);
                slot.since = ready;
                if sim.trace.on() {
                    let (subject, psn) = (Subject::of(&slot.packet, message, true), slot.packet.psn);
                    sim.trace.step(Phase::Tx, (since, asked), &subject, psn, len as u32);
                    sim.trace.step(Phase::PayloadFetch, (asked, ready), &subject, psn, len as u32);
                }
            }
            if self.env.snapshot(&payload, offset, at as u16, len).is_err() {
                // Its process is gone.
                let sim = &mut *self.env.sim;
                if fetches {
                    let port = &mut sim.cards[card as usize].ports[port as usize];
                    (port.fetched, port.coming) = (port.fetched - len as u32, port.coming - len as u32);
                }
                sim.release(at as u16);
                continue;
            }
            let sim = &mut *self.env.sim;
            let slot = sim.slots.get_mut(at);
            let width = sim.profile.tx.width_bytes;
            ready += sim.profile.tx.tx_ps + in_path(&slot.packet, len as u32, width, &sim.profile);
            let flow = &mut sim.cards[card as usize].qps[qp as usize].flows[side];
            ready = ready.max(flow.last_ready);
            flow.last_ready = ready;
            slot.packet.payload = if len == 0 { Payload::None } else { Payload::Stash(at, len as u32) };
            sim.at(ready, Event::Ready { slot: at as u16 });
        }
    }

    /// A flow that has left the round comes last, if it has something left to send.
    fn rejoin(&mut self, card: u8, port: u8, id: u16) {
        let c = &mut self.env.sim.cards[card as usize];
        if c.qps[(id / 2) as usize].flows[(id % 2) as usize].head != 0 {
            join_round(&mut c.ports[port as usize], &mut c.qps, id);
        }
    }

    /// All of a job is asked for: the QP's engine may have waited for that.
    fn finish_job(&mut self, card: u8, qp: u16, side: usize) {
        let sim = &mut *self.env.sim;
        let t = &mut sim.cards[card as usize].qps[qp as usize];
        let flow = &mut t.flows[side];
        let at = u32::from(flow.head - 1);
        let job = *sim.jobs.get(at);
        flow.head = job.next;
        flow.count -= 1;
        if job.next == 0 {
            flow.tail = 0;
        }
        let stalled = side == SENDS && std::mem::take(&mut t.stalled);
        sim.jobs.free(at);
        if let Payload::Stash(slot, _) = job.packet.payload {
            sim.release(slot as u16);
        }
        if stalled {
            self.want_send(card, qp);
        }
    }

    /// A packet takes its place on the wire.
    pub(super) fn ready(&mut self, slot: u16) {
        let sim = &mut *self.env.sim;
        let s = sim.slots.get_mut(slot.into());
        let (packet, flow, fetched) = (s.packet, s.flow, s.fetched);
        let (message, since) = (s.message, s.since);
        let p = &sim.profile;
        let len = packet.payload.len() as u32;
        let port = &mut sim.cards[packet.src.card as usize].ports[packet.src.port as usize];
        port.coming -= u32::from(fetched);
        let mut start = port.free_at.max(sim.now);
        if packet.first && !packet.is_answer() && port.last_flow == flow + 1 {
            start = start.max(port.free_at + p.tx.gap_ps);
        }
        let end = start + on_wire(&packet, len, p);
        port.free_at = end;
        port.last_flow = flow + 1;
        let loopback = packet.src.card == packet.dst.card;
        let cable = if loopback { 0 } else { p.wire.cable_ps };
        let received = end + cable + p.rx.rx_ps + in_path(&packet, len, p.rx.width_bytes, p);
        let arrival = sim.in_turn(packet.dst, received);
        if packet.kind != Kind::Ack {
            sim.trace.packet(Phase::Tx, (since, start), &packet, message, true);
            sim.trace.packet(Phase::Wire, (start, end + cable), &packet, message, true);
            sim.slots.get_mut(slot.into()).since = end + cable;
        }
        let feed = fetched != 0 && start == sim.now;
        if feed {
            sim.cards[packet.src.card as usize].ports[packet.src.port as usize].fetched -= u32::from(fetched);
        } else if fetched != 0 {
            let (card, port) = (packet.src.card, packet.src.port);
            sim.at(start, Event::Depart { card, port, bytes: fetched.into() });
        }
        if self.link.is_on() {
            let passing = (end - start, start, end + cable);
            self.put_on_wire(slot, arrival, passing);
        } else {
            sim.at(arrival, Event::Arrive { slot });
        }
        if feed {
            self.feed(packet.src.card, packet.src.port);
        }
    }

    /// Fetched payload has left the transmit buffer.
    pub(super) fn depart(&mut self, card: u8, port: u8, bytes: u32) {
        self.env.sim.cards[card as usize].ports[port as usize].fetched -= bytes;
        self.feed(card, port);
    }

    /// A packet is received.
    pub(super) fn arrive(&mut self, slot: u16) {
        let sim = &mut *self.env.sim;
        let now = sim.now;
        let s = sim.slots.get_mut(slot.into());
        let packet = s.packet;
        let (message, since) = (s.message, s.since);
        let dst = packet.dst;
        if (dst.card as usize) < self.world.count as usize {
            let p = &sim.profile;
            let c = &mut sim.cards[dst.card as usize];
            let port = &mut c.ports[dst.port as usize % crate::packet::PORTS];
            // Who comes just when the pipeline is free comes behind those that wait for it.
            if !s.warm && (port.rx_free_at > now || (port.rx_waits > 0 && !s.waits)) {
                port.rx_waits += u16::from(!std::mem::replace(&mut s.waits, true));
                let at = port.rx_free_at.max(now);
                return sim.at(at, Event::Arrive { slot });
            }
            if !s.warm {
                port.rx_waits -= u16::from(std::mem::take(&mut s.waits));
                s.warm = true;
                let occupied =
                    p.rx.rx_packet_ps.max(in_path(&packet, packet.payload.len() as u32, p.rx.width_bytes, p));
                let mut known = now;
                if !c.qpc.touch(packet.dest_qpn & 0xffff, p.caches.qpc_entries) {
                    known = c.bus.read(now, p.caches.qpc_bytes, p).last;
                }
                let keyed = packet.rkey != 0 && packet.first;
                if keyed && !c.keys.touch(packet.rkey, p.caches.key_entries) {
                    known = c.bus.read(known, p.caches.key_bytes, p).last;
                }
                // Whoever else comes then comes behind it.
                port.rx_free_at = if known > now { (known + 1).max(now + occupied) } else { now + occupied };
                if known > now {
                    return sim.at(known, Event::Arrive { slot });
                }
            }
        }
        let phase = if packet.kind == Kind::Ack { Phase::Ack } else { Phase::Rx };
        sim.trace.packet(phase, (since, now), &packet, message, false);
        self.env.step.subject = Subject::of(&packet, message, false);
        match self.link.exact() {
            true => self.receive_frame(slot),
            false => self.receive(&packet),
        }
        self.env.sim.release(slot);
        self.settle();
    }

    pub(super) fn receive(&mut self, packet: &Packet) {
        let cards = 0..self.world.count;
        if cards.contains(&packet.dst.card) {
            self.env.step.card = packet.dst.card;
            let card = &mut self.world.cards[packet.dst.card as usize];
            if let Outcome::Acknowledge { psn: ack, .. } = card.receive(packet, &mut self.env) {
                card.send_plain_ack(packet, ack, &mut self.env);
            }
        } else if packet.dst == crate::packet::PortId::ALL {
            for card in cards {
                self.env.step.card = card;
                // Datagrams: nothing is acknowledged.
                let _ = self.world.cards[card as usize].receive(packet, &mut self.env);
            }
        }
    }

    /// The QP timers are looked at.
    pub(super) fn timers(&mut self) {
        let sim = &mut *self.env.sim;
        if sim.timer_at == sim.now {
            sim.timer_at = 0;
        }
        for card in 0..self.world.count {
            self.env.step.card = card;
            let next = self.world.cards[card as usize].run_timers(&mut self.env);
            self.settle();
            if let Some(next) = next {
                self.env.timer(next);
            }
        }
    }
}

/// A flow takes its place at the end of the round.
fn join_round(port: &mut PortTime, qps: &mut [QpTime], id: u16) {
    let place = id + 1;
    flow_mut(qps, id).next = 0;
    if port.round.1 == 0 {
        port.round.0 = place;
    } else {
        flow_mut(qps, port.round.1 - 1).next = place;
    }
    port.round.1 = place;
}

/// The first flow leaves the round.
fn leave_round(port: &mut PortTime, qps: &mut [QpTime]) {
    let first = port.round.0 - 1;
    port.round.0 = flow_mut(qps, first).next;
    if port.round.0 == 0 {
        port.round.1 = 0;
    }
}

fn flow_mut(qps: &mut [QpTime], id: u16) -> &mut Flow {
    &mut qps[(id / 2) as usize].flows[(id % 2) as usize]
}
