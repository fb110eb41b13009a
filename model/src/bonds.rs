//! Ports that are one: by which of them packets go, at both ends.
//!
//! Packets and frames name the port that a queue pair has. Where the ports of a card are one, they leave by one of the members and
//! arrive by one: at a card at the other end of the cable by the same one, else by the one that the switch chooses, which is
//! no other.

use crate::cm::mad::GSI_QPN;
use crate::device::lag;
use crate::env::Env;
use crate::packet::{Packet, PortId};
use crate::world::World;

impl World {
    /// Whether the ports of a card are one.
    pub(crate) fn any_bond(&self) -> bool {
        self.present().iter().any(|card| card.lag.is_on())
    }

    fn is_bond(&self, card: u16) -> bool {
        self.cards.get(usize::from(card)).is_some_and(|card| card.lag.is_on())
    }

    /// Whether a frame may be lost because a port of the net has no link.
    pub(crate) fn may_lose(&self) -> bool {
        self.present().iter().any(|card| match card.lag.is_on() {
            true => !card.lag.is_up(),
            false => !card.has_link(0) || !card.has_link(1),
        })
    }

    /// Links or members have changed since this was asked last.
    pub(crate) fn take_links_changed(&mut self) -> bool {
        self.present_mut().iter_mut().fold(false, |any, card| card.links_changed.take() | any)
    }

    /// The ports by which a packet leaves and arrives.
    pub(crate) fn way(&self, p: &Packet) -> (PortId, PortId) {
        if p.is_frame() {
            return (p.src, self.far_end(p.src).unwrap_or(PortId::NOBODY));
        }
        let mut from = p.src;
        if self.is_bond(from.card) {
            from.port = self.cards[usize::from(from.card)].leaves(p);
        }
        match p.dst == p.src {
            true => (from, from),
            false => (from, self.arrival(from, p.dst)),
        }
    }

    /// The port by which what leaves by a port arrives that is for another.
    pub(crate) fn arrival(&self, from: PortId, to: PortId) -> PortId {
        match self.is_bond(to.card) {
            true => PortId { port: self.cards[usize::from(to.card)].lag.member(from.port), ..to },
            false => to,
        }
    }

    /// A packet that names the ports of its way, as the queue pairs at its ends know it: with their ports.
    pub(crate) fn known(&self, p: &Packet) -> Packet {
        Packet { src: self.known_port(p.src), dst: self.known_port(p.dst), ..*p }
    }

    /// The port of which queue pairs know that something comes to a port.
    pub(crate) fn known_port(&self, at: PortId) -> PortId {
        match self.is_bond(at.card) {
            true => PortId { port: self.cards[usize::from(at.card)].known_port(at.port), ..at },
            false => at,
        }
    }

    /// Whether what is for all reaches a port: of those that are one, one has it.
    pub(crate) fn takes_of_all(&self, from: PortId, at: PortId) -> bool {
        match self.is_bond(at.card) {
            true if at.card == from.card => at == from,
            _ => self.arrival(from, at) == at,
        }
    }

    /// A packet arrives by a port: it is counted there.
    pub(crate) fn arrives(&mut self, p: &Packet, by: PortId) {
        if self.is_bond(by.card) {
            let card = &mut self.cards[usize::from(by.card)];
            // What is for no queue pair is counted there as if it was for QP 1, which has no counters of its own.
            match card.find_qp(p.dest_qpn) {
                Some(q) => card.arrive_by(q, by.port),
                None => card.qps[GSI_QPN as usize].arrives = by.port,
            }
        }
    }

    /// What two queue pairs that are connected send to each other is counted where it leaves and arrives.
    pub(crate) fn settle(&mut self, own: (PortId, u32), peer: (PortId, u32)) {
        if !self.is_bond(own.0.card) && !self.is_bond(peer.0.card) {
            return;
        }
        for ((from, qpn), (to, other)) in [(own, peer), (peer, own)] {
            let Some(card) = self.cards.get(usize::from(from.card)) else { continue };
            let port = card.find_qp(qpn).map_or(from.port, |q| card.qps[q].leaves);
            let at = match from == to {
                true => PortId { port, ..to },
                false => self.arrival(PortId { port, ..from }, to),
            };
            let blank = Packet { dest_qpn: other, ..Packet::BLANK };
            self.arrives(&blank, at);
        }
    }

    /// Whether the card of a port negotiates by [slow frames](crate::lacp::pdu::is_slow).
    pub(crate) fn speaks_lacp(&self, at: PortId) -> bool {
        self.cards.get(usize::from(at.card)).is_some_and(|card| card.lag.speaks_lacp())
    }

    /// LACP goes on where it is time; returns when it is again (ns).
    pub(crate) fn run_lacp(&mut self, env: &mut impl Env) -> Option<u64> {
        let now = env.now();
        for card in self.present_mut() {
            if card.lacp_due != 0 && card.lacp_due <= now {
                card.lacp_goes_on(env);
            }
        }
        self.present().iter().map(|card| card.lacp_due).filter(|&at| at != 0).min()
    }

    /// A frame of a card itself comes to the other end of a cable.
    pub(crate) fn hand_over_slow(&mut self, way: (PortId, PortId), p: &Packet, env: &mut impl Env) {
        if let Some(bytes) = lag::frame_bytes(&p.payload, env) {
            self.arrive_frame(way, NOBODY, (&bytes, &p.payload), env);
        }
    }
}

/// No queue pair sends what the card sends itself.
pub(crate) const NOBODY: (u16, u16) = (u16::MAX, u16::MAX);
