//! Congestion control: when a queue pair that was told of congestion may send its next packet.

use super::engine::Engine;
use super::env::SimEnv;
use super::event::Event;
use super::parts::QpRate;
use super::port::{frame_bytes, in_path, on_wire};
use super::state::flow_id;
use super::ways::way;
use crate::congestion::dcqcn::RateControl;
use crate::device::tables::MAX_QPS;
use crate::packet::{Packet, Payload, NOT_CONGESTED};
use crate::plain::{Flag, Kept};
use crate::wire::{Operation, Transport};

/// Whether a packet takes part: all that a queue pair sends to the one that it is connected to, but what only answers; RoCE
/// version 1 has no congestion notification.
fn takes_part(packet: &Packet) -> bool {
    let connected = matches!(packet.transport, Transport::RC | Transport::UC | Transport::XRC);
    connected && packet.operation != Operation::Acknowledge && !packet.encapsulation.is_v1()
}

impl SimEnv<'_> {
    fn qp_rate(&mut self, card: u16, qp: u16) -> &mut QpRate {
        let life = self.bells[card as usize].qp[qp as usize].life.load(std::sync::atomic::Ordering::Relaxed);
        let rate = &mut self.sim.cards[card as usize].rates[qp as usize];
        if rate.life != life {
            *rate = QpRate { life, control: RateControl::default(), next_at: 0 };
        }
        rate
    }

    fn line(&self) -> u64 {
        self.sim.profile.wire.rate_bps.bits_per_second()
    }

    /// When a queue pair may send this packet; 0: at any time.
    #[inline]
    pub fn paced_until(&mut self, card: u16, qp: u16, packet: &Packet) -> u64 {
        match self.sim.cc.on() && takes_part(packet) {
            true => self.qp_rate(card, qp).next_at,
            false => 0,
        }
    }

    /// A queue pair sends a packet with `len` bytes of payload now: from now on it says whether it met congestion.
    #[inline]
    pub fn paces(&mut self, card: u16, qp: u16, packet: &mut Packet, len: u32) {
        if !self.sim.cc.on() || !takes_part(packet) {
            return;
        }
        packet.ecn = NOT_CONGESTED;
        let (p, line, now) = (self.sim.cc, self.line(), self.sim.now);
        let bytes = frame_bytes(packet, len, &self.sim.profile);
        let took = on_wire(packet, len, &self.sim.profile);
        let rate = self.qp_rate(card, qp);
        rate.control.rate(&p, line, now);
        rate.control.sent(&p, line, bytes.into());
        if let Some(limit) = rate.control.rate(&p, line, now) {
            rate.sent(now, (u128::from(took) * u128::from(line) / u128::from(limit.max(1))) as u64);
        }
    }

    /// A queue pair is told that its packets meet congestion.
    pub fn rate_falls(&mut self, card: u16, qp: u16) {
        if self.sim.cc.on() {
            let (p, line, now) = (self.sim.cc, self.line(), self.sim.now);
            self.qp_rate(card, qp).control.notified(&p, line, now);
        }
    }
}

impl Engine<'_> {
    /// A notification is sent: it waits for nothing that its queue pair sends.
    pub(super) fn notify(&mut self, packet: &Packet) {
        let sim = &mut *self.env.sim;
        let Some(at) = sim.slots.take() else {
            sim.overflows += 1;
            return self.never_leaves(packet, 0);
        };
        let (src, dst) = way(self.link, self.world, packet);
        let slot = sim.slots.get_mut(at);
        slot.packet = Kept::new(Packet { src, dst, payload: Payload::None, ..*packet });
        (slot.refs, slot.flow) =
            (1, flow_id((packet.src_qpn & 0xffff) as u16 % MAX_QPS as u16, super::state::ANSWERS));
        (slot.unread, slot.waits, slot.warm) = (Flag::NO, Flag::NO, Flag::NO);
        (slot.fetched, slot.message, slot.since) = (0, 0, sim.now);
        let tx = &sim.profile.tx;
        let ready = sim.now + tx.ack_ps + tx.tx_ps + in_path(packet, 0, tx.width_bytes, &sim.profile);
        sim.at(ready, Event::Ready { slot: at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_have_one_rate() {
        let mut rate = QpRate { life: 0, control: RateControl::default(), next_at: 0 };
        // A request and an answer that both waited for the same time.
        for _ in 0..2 {
            rate.sent(1000, 100);
        }
        assert_eq!(rate.next_at, 1200);
        // What was not used is not saved.
        rate.sent(5000, 100);
        assert_eq!(rate.next_at, 5100);
    }
}
