//! By which ports packets go where two are one, and what is lost where a cable is pulled.
//!
//! A packet that waits in a flow names the ports that its queue pairs know. When it leaves the flow it names those of its way, as a
//! whole frame does from the beginning, until it is received.

use super::engine::Engine;
use super::flows::leave_round;
use crate::link::LinkArea;
use crate::packet::{Packet, PortId};
use crate::world::World;

/// The ports by which a packet leaves and arrives.
#[inline]
pub(super) fn way(link: &LinkArea, world: &World, p: &Packet) -> (PortId, PortId) {
    match link.mode().has_bonds() && !p.is_frame() {
        true => world.way(p),
        false => (p.src, p.dst),
    }
}

impl Engine<'_> {
    /// The first flow of a port's round goes on by another port of its card.
    #[cold]
    pub(super) fn change_port(&mut self, card: u16, (from, to): (u8, u8)) {
        let c = &mut self.env.sim.cards[usize::from(card)];
        let id = leave_round(&mut c.ports[usize::from(from)], &mut c.qps);
        self.line_up(card, to, id);
        self.feed(card, to);
    }

    /// A packet has come to the end of its way.
    pub(super) fn receive(&mut self, packet: &Packet, by: PortId) {
        if !self.link.mode().has_bonds() {
            return self.deliver(packet);
        }
        self.world.arrives(packet, by);
        let known = self.world.known(packet);
        self.deliver(&known);
    }

    fn deliver(&mut self, packet: &Packet) {
        for card in self.world.reached(packet) {
            self.env.step.card = card;
            self.world.deliver_to(card, packet, false, &mut self.env);
        }
    }

    /// Whether a packet meets a port without a link on a way, or on a part of it.
    #[inline]
    pub(super) fn is_cut(&self, way: (PortId, PortId)) -> bool {
        self.link.mode().minds_links() && self.world.is_cut(way, || self.env.sim.now / 1000)
    }

    /// Whether a packet is lost on its way to a switch, and counted.
    #[inline]
    pub(super) fn never_enters(&self, slot: u32) -> bool {
        self.link.mode().minds_links() && {
            let packet = self.env.sim.slots.get(slot).packet.get();
            self.loses(&packet, (packet.src, PortId::NOBODY))
        }
    }

    /// Whether a packet is lost on its way to a port, or on the part of it that begins at a switch, and counted.
    #[inline]
    pub(super) fn never_comes(&self, slot: u32) -> bool {
        self.link.mode().minds_links() && {
            let s = self.env.sim.slots.get(slot);
            let packet = s.packet.get();
            // Later it is in the card.
            !s.waits.get() && !s.warm.get() && self.loses(&packet, self.last_part(&packet))
        }
    }

    /// The last part of a packet's way, which begins at the switch if there is one.
    pub(super) fn last_part(&self, packet: &Packet) -> (PortId, PortId) {
        let switched = self.env.sim.switch.is_on() && packet.src.card != packet.dst.card;
        (if switched { PortId::NOBODY } else { packet.src }, packet.dst)
    }

    #[cold]
    fn loses(&self, packet: &Packet, way: (PortId, PortId)) -> bool {
        let (cut, now) = (self.is_cut(way), self.env.sim.now / 1000);
        // A frame for all comes to those that can be reached.
        let of_all = packet.is_frame() && way.1 == PortId::ALL;
        match packet.is_frame() {
            true if cut || of_all => self.world.count_cut_frame((packet.src, way.1), way.0, now),
            false if cut => self.world.count_cut(way, 1, now),
            _ => {}
        }
        cut && !of_all
    }
}
