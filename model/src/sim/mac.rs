//! When the MAC of a port sends which packet, if there is a switch, which may tell it to pause.
//!
//! Without a switch a packet gets its time on the wire as soon as it is ready ([`super::port`]): nothing can change it.

use super::engine::Engine;
use super::event::Event;
use super::state::Sim;
use super::switch::class;
use crate::packet::Packet;

impl Sim {
    /// When the MAC could send a packet.
    pub(super) fn mac_start(&mut self, slot: u32) -> u64 {
        let s = self.slots.get(slot);
        let (packet, flow) = (s.packet.get(), s.flow);
        let port = &self.cards[packet.src.card as usize].ports[packet.src.port as usize];
        let start = port.free_at.max(self.now);
        if packet.first && !packet.is_answer() && port.last_flow == flow + 1 {
            return start.max(port.free_at + self.profile.tx.gap_ps);
        }
        start
    }
}

impl Engine<'_> {
    /// A packet queues for the MAC.
    pub(super) fn wait_for_mac(&mut self, slot: u32, packet: &Packet) {
        let sim = &mut *self.env.sim;
        let src = packet.src;
        sim.slots.get_mut(slot).next = 0;
        let queue = &mut sim.cards[src.card as usize].ports[src.port as usize].mac[class(packet)];
        match std::mem::replace(&mut queue.1, slot + 1) {
            0 => queue.0 = slot + 1,
            last => sim.slots.get_mut(last - 1).next = slot + 1,
        }
        self.mac(src.card, src.port);
    }

    /// Sends the next packet of a port, if its MAC is free: a notification first; others only while there is no pause.
    pub(super) fn mac(&mut self, card: u16, port: u8) {
        let sim = &mut *self.env.sim;
        let p = &sim.cards[card as usize].ports[port as usize];
        let may = |class: &usize| p.mac[*class].0 != 0 && (*class == 0 || !p.paused.get());
        let Some(class) = (0..2).find(may) else { return };
        let slot = p.mac[class].0 - 1;
        let start = sim.mac_start(slot);
        if start == sim.now {
            let next = sim.slots.get(slot).next;
            let queue = &mut sim.cards[card as usize].ports[port as usize].mac[class];
            queue.0 = next;
            if next == 0 {
                queue.1 = 0;
            }
            self.leave(slot, start);
        }
        // Again when the MAC is free, whatever is the next packet then.
        let sim = &mut *self.env.sim;
        let p = &mut sim.cards[card as usize].ports[port as usize];
        let at = if start == sim.now { p.free_at } else { start };
        if p.mac_at <= sim.now || at < p.mac_at {
            p.mac_at = at;
            sim.at(at, Event::Mac { card, port });
        }
    }
}
