//! Whole frames: from a raw packet queue pair over the wire of the net to those that the rules of its ports name.
//!
//! Through a cable a frame comes to the port at its other end. A net of more than two cards is a switch: a frame to the address
//! of a port comes to that port, and one to a group or an address that nobody has comes to all. A port gives its own queue
//! pairs' frames to its other queue pairs, too.

use fpga_regs::regs::port;
use smallvec::SmallVec;

use crate::device::arrival::Found;
use crate::device::qp::Qp;
use crate::device::raw::{with_room, Outgoing};
use crate::device::Device;
use crate::env::Env;
use crate::islands::Ends;
use crate::lacp::pdu::is_slow;
use crate::link::faults::ecn_of;
use crate::packet::{Packet, Payload, PortId};
use crate::steering::{Copies, Copy, Fields, Taken};
use crate::wire::Operation;
use crate::world::World;

/// A frame that may leave.
pub(crate) struct Frame {
    /// The port that it leaves, and the one that it is for.
    pub way: (PortId, PortId),
    /// Card and index of the queue pair that sends it.
    pub sender: (u16, u16),
    outgoing: Outgoing,
    found: Found,
    /// Its ECN code point, if it is of IP.
    ecn: u8,
    copies: Copies,
    /// The card at the other end takes it itself.
    pub slow: bool,
    /// It has to wait: somebody who gets a copy has no receive WQE.
    pub waits: bool,
}

impl Frame {
    /// Its bytes.
    pub fn payload(&self) -> &Payload {
        &self.outgoing.payload
    }

    /// The queue pairs that it goes between.
    pub fn ends(&self) -> impl Iterator<Item = Ends> + '_ {
        let place = |(card, q): (u16, u16)| Some((card, usize::from(q)));
        self.copies.all().iter().map(move |copy| [place(self.sender), place((copy.at.card, copy.queue))])
    }
}

/// The ports that have received a frame: each counts it once, however many queues get a copy.
#[derive(Default)]
pub(crate) struct Received(SmallVec<[PortId; 2]>);

impl Received {
    /// A queue at a port of a card has got a copy of a frame of so many bytes.
    pub fn add(&mut self, device: &Device, at: PortId, bytes: usize) {
        if !self.0.contains(&at) {
            device.count_came(at.port, 1, bytes as u64);
            self.0.push(at);
        }
    }
}

/// Whether a frame to this address is for the other end of the cable alone (IEEE 802.1Q 8.6.3).
fn stays_on_cable(dmac: [u8; 6]) -> bool {
    matches!(dmac, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}

impl World {
    /// Whether a rule of a process takes frames.
    pub(crate) fn takes_frames(&self, process: u16) -> bool {
        let is_its = |card: &Device, function: u16| {
            card.functions.get(usize::from(function)).is_some_and(|function| function.domain == process)
        };
        self.cards.iter().any(|card| card.rules.functions().any(|function| is_its(card, function)))
    }

    /// The next frame of a raw packet queue pair, if it has one that it may send. The caller drops its payload.
    pub(crate) fn next_frame(&mut self, sender: (u16, u16), env: &mut impl Env) -> Option<Frame> {
        let (card, q) = (usize::from(sender.0), usize::from(sender.1));
        let outgoing = self.cards[card].next_frame(q, env)?;
        let (fields, found, ecn, slow) = with_room(outgoing.payload.len(), |bytes| {
            // What was gathered can be read.
            let _ = env.payload(&outgoing.payload, bytes);
            let fields = Fields::of(bytes);
            (fields, Found::of(bytes, &fields), ecn_of(bytes), is_slow(bytes))
        });
        self.cards[card].turn_by(q, || fields.conversation().hash(0));
        let way = self.frame_way(sender, &fields);
        let slow = slow && self.speaks_lacp(way.1);
        let copies = match slow {
            true => Copies::of(sender),
            false => self.receivers(way, sender, &fields, env.now()),
        };
        // What a card takes itself, and who gets a copy, may be of any island.
        let of = copies.all().iter().map(|copy| Some((copy.at.card, copy.queue)));
        if !of.chain(slow.then_some(None)).all(|to| env.reaches(sender, to)) {
            env.drop_payload(&outgoing.payload);
            return None;
        }
        let until = self.lack_recvs(way.0, &copies, env);
        if let Some(until) = until {
            self.cards[card].frame_waits(q, until, env);
        }
        Some(Frame { way, sender, outgoing, found, ecn, copies, slow, waits: until.is_some() })
    }

    /// The port by which a frame leaves, and the one that it is for.
    pub(crate) fn frame_way(&self, (card, q): (u16, u16), fields: &Fields) -> (PortId, PortId) {
        let Qp { port: own, leaves, .. } = self.cards[usize::from(card)].qps[usize::from(q)];
        let from = PortId { port: leaves, ..own };
        match self.port_of((own, from), fields.dmac()) {
            to if to == own => (from, from),
            to => (from, self.arrival(from, to)),
        }
    }

    /// A frame has left.
    pub(crate) fn frame_sent(&mut self, frame: &Frame, env: &mut impl Env) {
        let (card, q) = frame.sender;
        self.cards[usize::from(card)].frame_sent(q.into(), &frame.outgoing, env);
    }

    /// A frame travels as a packet.
    pub(crate) fn send_frame(&mut self, frame: &Frame, env: &mut impl Env) {
        let (card, q) = (usize::from(frame.sender.0), usize::from(frame.sender.1));
        let qp = &self.cards[card].qps[q];
        *env.send() = Packet {
            transport: qp.transport(),
            operation: Operation::Send,
            src: frame.way.0,
            dst: frame.way.1,
            src_qpn: qp.qpn,
            psn: qp.req.psn,
            ecn: frame.ecn,
            inline: frame.outgoing.inline,
            last: frame.outgoing.is_last(),
            payload: *frame.payload(),
            ..Packet::BLANK
        };
        self.cards[card].frame_starts(q, &frame.outgoing, env);
    }

    /// Whether frames wait for receives of a queue pair.
    pub(crate) fn is_awaited(&self, (card, q): (u16, u16)) -> bool {
        self.cards[usize::from(card)].qps[usize::from(q)].awaited.get()
    }

    /// A raw packet queue pair is run, with all the cards if it [is awaited](Self::is_awaited): if frames waited for its receives, they go on.
    pub(crate) fn resume_frames(&mut self, (card, q): (u16, u16), env: &mut impl Env) {
        if !self.cards[usize::from(card)].has_posted(q.into(), env) {
            return;
        }
        for card in 0..usize::from(self.count()) {
            for q in self.cards[card].waiting() {
                self.cards[card].frame_goes_on(q, env);
            }
        }
    }

    /// A frame that travels as it is comes to those that get a copy.
    pub(crate) fn hand_over(&mut self, frame: &Frame, env: &mut impl Env) {
        if !frame.slow {
            return self.give(frame.way, &frame.copies, (frame.found, frame.payload()), env);
        }
        with_room(frame.payload().len(), |bytes| {
            // As when its fields were read.
            let _ = env.payload(frame.payload(), bytes);
            self.take_slow(frame.way.1, bytes, env);
        });
    }

    /// A frame comes over the wire as bytes, which are the payload too.
    pub(crate) fn arrive_frame(
        &mut self,
        way: (PortId, PortId),
        sender: (u16, u16),
        (frame, payload): (&[u8], &Payload),
        env: &mut impl Env,
    ) {
        if is_slow(frame) && self.speaks_lacp(way.1) {
            return self.take_slow(way.1, frame, env);
        }
        let fields = Fields::of(frame);
        let copies = self.receivers(way, sender, &fields, env.now());
        self.give(way, &copies, (Found::of(frame, &fields), payload), env);
    }

    fn take_slow(&mut self, at: PortId, frame: &[u8], env: &mut impl Env) {
        self.cards[usize::from(at.card)].take_slow(at.port, frame, env);
    }

    fn give(
        &mut self,
        way: (PortId, PortId),
        copies: &Copies,
        (found, payload): (Found, &Payload),
        env: &mut impl Env,
    ) {
        let mut received = Received::default();
        for copy in copies.all() {
            let device = &mut self.cards[usize::from(copy.at.card)];
            if device.receive_frame(copy, found, payload, env) {
                received.add(device, copy.at, payload.len());
            }
        }
        self.count_frame(way, copies, payload.len(), || env.now());
    }

    /// Rules count a frame of so many bytes, and what nobody takes of it is counted where it could be taken. The clock (ns) is read
    /// only if there is such a thing.
    pub(crate) fn count_frame(
        &mut self,
        way: (PortId, PortId),
        copies: &Copies,
        bytes: usize,
        mut now: impl FnMut() -> u64,
    ) {
        for &(card, rule) in &copies.counted {
            self.cards[usize::from(card)].rules.count(rule, bytes as u64);
        }
        if !copies.all().is_empty() && copies.dropped.is_empty() && copies.lost == 0 {
            return;
        }
        for at in self.reached_ports(way, now()).filter(|&at| at == way.1 || at != way.0) {
            let counters = &self.cards[usize::from(at.card)].counters[usize::from(at.port)];
            counters.add(port::RX_OVERFLOW, copies.lost.into());
            if copies.dropped.contains(&at) {
                counters.add(port::RX_RULE_DROP, 1);
            } else if copies.all().is_empty() {
                counters.add(port::RX_NO_RULE, 1);
            }
        }
    }

    /// Until when (ns) the first of those is waited for who get a copy of a frame from a port and have no receive WQE.
    fn lack_recvs(&mut self, from: PortId, copies: &Copies, env: &mut impl Env) -> Option<u64> {
        let lacks = |copy: &Copy| {
            let at = copy.at;
            if !self.pauses(from, at) {
                return None;
            }
            let until = self.cards[usize::from(at.card)].lacks_recv(copy.queue.into(), env)?;
            self.cards[usize::from(at.card)].counters[usize::from(at.port)].add(port::TX_PAUSE, 1);
            self.cards[usize::from(from.card)].counters[usize::from(from.port)].add(port::RX_PAUSE, 1);
            Some(until)
        };
        // Each of them has to wake the sender.
        copies.all().iter().filter_map(lacks).min()
    }

    /// Whether a port stops while receives are missing at another.
    pub(crate) fn pauses(&self, from: PortId, at: PortId) -> bool {
        self.cards[usize::from(from.card)].stops(from.port)
            && self.cards[usize::from(at.card)].asks_to_stop(at.port)
    }

    /// A frame was damaged on its way: its check sequence is wrong.
    pub(crate) fn lose_damaged(&mut self, way: (PortId, PortId), now: u64) {
        for at in self.reached_ports(way, now).filter(|&at| at == way.1 || at != way.0) {
            self.cards[usize::from(at.card)].counters[usize::from(at.port)].add(port::RX_MALFORMED, 1);
        }
    }

    /// Where a frame of a port that leaves by another (or the same) to this address goes: a port of the net, or all that it
    /// can reach. A cable brings it to its other end, whoever it is for. To there and no further, also by a switch, if it is
    /// for what is there: LACP is. From a port that leads outside it leaves.
    fn port_of(&self, (own, from): (PortId, PortId), dmac: [u8; 6]) -> PortId {
        if self.is_outside(from) {
            return PortId::NOBODY;
        }
        let far = self.far_end(from);
        if stays_on_cable(dmac) {
            return far.unwrap_or(PortId::NOBODY);
        }
        let port = PortId::from_mac(dmac);
        match self.has_port(port) && !self.is_outside(port) {
            true if port == own => own,
            true => far.unwrap_or(port),
            false => PortId::ALL,
        }
    }

    /// Whether a frame on this way comes to a port: one for all goes through a cable only to its other end, and to one of
    /// those that are one. What comes to a port that leads outside comes from there.
    fn leads_to(&self, (from, to): (PortId, PortId), port: PortId) -> bool {
        let through = || port == from || self.far_end(from).is_none_or(|far| far == port);
        let all = || through() && self.takes_of_all(from, port);
        to == port || to == PortId::ALL && !self.is_outside(port) && all()
    }

    /// The ports that a frame comes to at `now` (ns).
    fn reached_ports(&self, way: (PortId, PortId), now: u64) -> impl Iterator<Item = PortId> + use<'_> {
        let of_all =
            (way.1 == PortId::ALL).then(|| self.ports().filter(move |&port| self.leads_to(way, port)));
        let ports = self.has_port(way.1).then_some(way.1).into_iter().chain(of_all.into_iter().flatten());
        ports.filter(move |&port| !self.is_cut((way.0, port), || now))
    }

    /// Counts what a link that is down loses of a frame that is at `from`: at the port that it leaves by, or behind it (nobody's).
    #[cold]
    pub(crate) fn count_cut_frame(&self, way: (PortId, PortId), from: PortId, now: u64) {
        let reached = |&port: &PortId| port != way.0 && self.leads_to(way, port);
        self.count_lost(from, self.ports().filter(reached), 1, now);
    }

    /// What the only rule that takes a frame for one port does with it, and where it comes to; `None` if there are more, or none.
    pub(crate) fn only_rule(
        &self,
        way: (PortId, PortId),
        fields: &Fields,
        now: u64,
    ) -> Option<(PortId, Taken)> {
        let (mut only, mut count) = (None, 0);
        for at in self.reached_ports(way, now) {
            self.cards[usize::from(at.card)].rules_for(at, fields, &mut |rule| {
                only = Some((at, rule));
                count += 1;
            });
        }
        only.filter(|_| count == 1)
    }

    /// Who gets a copy of a frame, but for its sender.
    pub(crate) fn receivers(
        &self,
        way: (PortId, PortId),
        sender: (u16, u16),
        fields: &Fields,
        now: u64,
    ) -> Copies {
        let mut copies = Copies::of(sender);
        if stays_on_cable(fields.dmac()) {
            // A port that is left out of several that are one has a link, by which it negotiates.
            if way.1.card < self.count() && self.both_up(way, now) {
                self.cards[usize::from(way.1.card)].steer(way.1, fields, &mut copies);
            }
            return copies;
        }
        for port in self.reached_ports(way, now) {
            self.cards[usize::from(port.card)].steer(port, fields, &mut copies);
        }
        copies
    }
}
