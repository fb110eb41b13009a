//! From the wire to the card: a port's receive pipeline, and the QP timers.

use super::engine::Engine;
use super::event::Event;
use super::port::in_path;
use super::state::Sim;
use super::trace::{Phase, Subject};
use crate::env::Env;
use crate::journal;
use crate::packet::{Packet, CONGESTION, PORTS};
use crate::wire::{Operation, Transport};
use fpga_regs::regs::port;

impl Sim {
    /// Looks up the context and the key that a packet names; returns when the card has them (ps).
    fn finds_queue(&mut self, packet: &Packet) -> u64 {
        let (p, now) = (&self.profile, self.now);
        let c = &mut self.cards[packet.dst.card as usize];
        // The headers name both, so the two reads overlap.
        let mut known = now;
        if !c.qpc.touch(&mut c.recent_qpc, packet.dest_qpn & 0xffff, p.caches.qpc()) {
            known = c.bus.read(now, p.caches.qpc_bytes, p).last;
        }
        let keyed = packet.rkey != 0 && packet.first;
        if keyed && !c.keys.touch(&mut c.recent_keys, packet.rkey, p.caches.keys()) {
            known = known.max(c.bus.read(now, p.caches.key_bytes, p).last);
        }
        known
    }
}

impl Engine<'_> {
    /// Receives a packet.
    pub(super) fn arrive(&mut self, slot: u32) {
        if self.never_comes(slot) {
            return self.env.sim.release(slot);
        }
        let sim = &mut *self.env.sim;
        let now = sim.now;
        let s = sim.slots.get_mut(slot);
        let packet = s.packet.get();
        let (message, since) = (s.message, s.since);
        let dst = packet.dst;
        if (dst.card as usize) < self.world.count() as usize {
            let p = &sim.profile;
            let c = &mut sim.cards[dst.card as usize];
            let port = &mut c.ports[dst.port as usize % PORTS];
            // A packet that arrives just when the pipeline becomes free queues after those that wait.
            if !s.warm.get() && (port.rx_free_at > now || (port.rx_waits > 0 && !s.waits.get())) {
                port.rx_waits += u16::from(!std::mem::replace(&mut s.waits, true.into()).get());
                let at = port.rx_free_at.max(now);
                return sim.at(at, Event::Arrive { slot });
            }
            if !s.warm.get() {
                port.rx_waits -= u16::from(s.waits.take());
                s.warm = true.into();
                let occupied =
                    p.rx.rx_packet_ps.max(in_path(&packet, packet.payload.len() as u32, p.rx.width_bytes, p));
                port.rx_free_at = now + occupied;
                let known = match packet.is_frame() {
                    true => self.finds_queues(slot, &packet),
                    false => sim.finds_queue(&packet),
                };
                let sim = &mut *self.env.sim;
                let port = &mut sim.cards[dst.card as usize].ports[dst.port as usize % PORTS];
                if known > now {
                    // A packet that arrives at that moment comes after this one.
                    port.rx_free_at = port.rx_free_at.max(known + 1);
                    return sim.at(known, Event::Arrive { slot });
                }
            }
        }
        let sim = &mut *self.env.sim;
        let phase = if packet.operation == Operation::Acknowledge { Phase::ACK } else { Phase::RX };
        if !packet.is_notification() {
            sim.trace.packet(phase, (since, now), &packet, message, false);
        }
        self.env.step.subject = Subject::of(&packet, message, false);
        let word = match packet.transport == Transport::UD {
            // Others than the dead may send to it, and it goes on.
            true => journal::pair(packet.dst.card, packet.dest_qpn),
            false => journal::one(packet.dst.card, packet.dest_qpn),
        };
        match self.link.exact() {
            _ if packet.is_frame() => self.receive_whole(slot, &packet),
            true => self.noted(word, |engine| engine.receive_frame(slot)),
            false => {
                if packet.ecn == CONGESTION {
                    // A frame is counted when it is opened.
                    let card = &self.world.cards[packet.dst.card as usize];
                    card.counters[packet.dst.port as usize % PORTS].add(port::RX_ECN_MARKED, 1);
                }
                self.noted(word, |engine| engine.receive(&packet, dst));
            }
        }
        self.env.sim.release(slot);
        self.settle();
    }

    /// Queue pairs whose requests wait in the card cannot have an answer yet.
    fn excuse(&mut self, card: u16) {
        if !self.env.sim.delays() {
            return;
        }
        let now = self.env.now();
        let device = &mut self.world.cards[card as usize];
        let due = |q: &usize| device.qps[*q].req.deadline <= now && self.env.sim.has_unsent(card, *q);
        let excused: Vec<usize> = device.timers.armed().filter(due).collect();
        excused.into_iter().for_each(|q| device.starts_to_wait(q, now));
    }

    /// Whether a timer is due. If not, their next check is scheduled.
    pub(super) fn has_due_timer(&mut self) -> bool {
        let now = self.env.now();
        // A check that one at an earlier time has made unnecessary: the next is later.
        if self.env.sim.timer_at == 0 || self.env.sim.timer_at > self.env.sim.now {
            return false;
        }
        self.env.sim.timer_at = 0;
        let next = self.world.next_deadline();
        if let Some(later) = next.filter(|&at| at > now) {
            self.env.timer(later);
        }
        next.is_some_and(|at| at <= now)
    }

    /// Runs the timers that are due.
    pub(super) fn timers(&mut self) {
        self.env.step.card = 0;
        let next = self.world.manager(&mut self.env).run_timers();
        self.settle();
        if let Some(next) = next {
            self.env.timer(next);
        }
        for card in 0..self.world.count() {
            self.env.step.card = card;
            self.excuse(card);
            let control = self.env.guard.control();
            let note = |q: Option<usize>| match q {
                Some(q) => control.write_journal(journal::one(card, q as u32)),
                None => control.close_journal(),
            };
            let next = self.world.cards[card as usize].run_timers(&mut self.env, note);
            self.settle();
            if let Some(next) = next {
                self.env.timer(next);
            }
        }
    }
}
