//! Which message a port fetches next: the flows and their round.
//!
//! Messages wait per QP and side in *flows*, which take turns packet by packet for the fetch.

use super::engine::Engine;
use super::event::Event;
use super::slab::Slab;
use super::state::*;
use super::trace::Phase;
use super::ways::way;
use crate::link::frames;
use crate::packet::{Packet, Payload};
use crate::plain::{Flag, Kept};
use crate::wire::{self, psn, Operation};

impl Job {
    /// Since when its next packet has been in the pipeline; `u64::MAX` for all but the first, which start with their
    /// fetch.
    pub(super) fn since(&self, operation: Operation) -> u64 {
        match operation {
            _ if self.issued != 0 => u64::MAX,
            Operation::ReadResponse | Operation::AtomicAcknowledge => self.start,
            _ => self.born,
        }
    }
}

impl Engine<'_> {
    /// Appends the step's train `nth` to its flow.
    pub(super) fn enqueue(&mut self, nth: usize, gathers: u16) {
        let answered = self.env.step.subject.message;
        if self.env.step.sent[nth].is_notification() {
            let packet = self.env.step.sent[nth];
            return self.notify(&packet);
        }
        let (sim, packet) = (&mut *self.env.sim, &self.env.step.sent[nth]);
        let src = packet.src;
        let p = &sim.profile;
        let start = sim.now
            + match packet.operation {
                Operation::Acknowledge => p.tx.ack_ps,
                Operation::ReadResponse | Operation::AtomicAcknowledge => p.rx.resp_read_ps,
                _ => p.sq.start_ps,
            };
        if let Payload::Stash(slot, _) = packet.payload {
            if slot as usize >= SLOTS {
                return self.overflows(nth);
            }
            sim.slots.get_mut(slot).refs += 1;
        }
        let answers = matches!(packet.operation, Operation::ReadResponse | Operation::AtomicAcknowledge);
        if answers && sim.trace.on() {
            let (src, dst) = way(self.link, self.world, packet);
            let packet = Packet { src, dst, ..*packet };
            sim.trace.packet(Phase::READ_RESPONSE, (sim.now, start), &packet, answered, true);
        }
        let card = &mut sim.cards[src.card as usize];
        let qp = (packet.src_qpn & 0xffff) as u16 % crate::device::tables::MAX_QPS as u16;
        let side = if packet.is_answer() { ANSWERS } else { SENDS };
        let t = &mut card.qps[qp as usize];
        let back = self.world.cards[src.card as usize].qps[qp as usize].req.rewinds;
        let message = if side == SENDS { t.message } else { answered };
        let flow = &mut t.flows[side];
        if flow.tail != 0
            && packet.operation == Operation::Acknowledge
            && packet.syndrome == wire::Syndrome::ACK
        {
            let last = sim.jobs.get_mut(flow.tail - 1);
            // Coalesce: an ACK that has not left yet is replaced by the newer one.
            let before = last.packet.get();
            if before.operation == Operation::Acknowledge && before.syndrome == wire::Syndrome::ACK {
                (last.packet, last.message, last.born) = (Kept::new(*packet), message, sim.now);
                return self.world.cards[src.card as usize].unsent_ack(packet.src_qpn);
            }
        }
        let Some(at) = sim.jobs.take() else {
            if let Payload::Stash(slot, _) = packet.payload {
                sim.release(slot);
            }
            return self.overflows(nth);
        };
        let job = sim.jobs.get_mut(at);
        job.packet.set(*packet);
        (job.next, job.issued, job.start, job.gathers, job.known) = (0, 0, start, gathers, Flag::NO);
        (job.back, job.message, job.born) = (back, message, sim.now);
        let place = at + 1;
        let alone = flow.tail == 0;
        let before = match self.world.cards[src.card as usize].repeats_first(packet) {
            true => behind(flow, &sim.jobs, (packet.psn, back)),
            false => flow.tail,
        };
        let next = match before {
            0 => std::mem::replace(&mut flow.head, place),
            before => std::mem::replace(&mut sim.jobs.get_mut(before - 1).next, place),
        };
        let job = sim.jobs.get_mut(at);
        job.next = next;
        if next == 0 {
            flow.tail = place;
        } else {
            // It is in the round of those that may start.
            job.start = sim.now;
        }
        flow.count += 1;
        let by = way(self.link, self.world, &self.env.step.sent[nth]).0.port;
        if alone {
            self.line_up(src.card, by, flow_id(qp, side));
        }
        self.feed(src.card, by);
    }

    /// Drops the step's train `nth`, for which there is no room.
    #[cold]
    fn overflows(&mut self, nth: usize) {
        let packet = self.env.step.sent[nth];
        self.env.sim.overflows += 1;
        self.never_leaves(&packet, 0);
        if !packet.transport.is_reliable() {
            self.world.left(&packet, &mut self.env);
        }
    }

    /// Takes back what was counted of a train whose packets leave no more, from one on.
    #[cold]
    pub(super) fn never_leaves(&self, train: &Packet, from: u32) {
        let by = way(self.link, self.world, train).0;
        let Some(card) = self.world.cards.get(usize::from(by.card)).filter(|_| !train.is_frame()) else {
            return;
        };
        let bytes =
            frames::pieces(train).skip(from as usize).map(|p| p.packet.wire_bytes(p.part.len() as u32)).sum();
        card.never_left(by.port, (train.count - from).into(), bytes);
    }

    /// Adds a flow to the round, once its first job may start its DMA reads.
    pub(super) fn line_up(&mut self, card: u16, port: u8, id: u16) {
        let sim = &mut *self.env.sim;
        let c = &mut sim.cards[card as usize];
        let job = sim.jobs.get(flow_mut(&mut c.qps, id).head - 1);
        let mut at = 0;
        if job.start > sim.now && job.packet.get().reads() {
            at = job.start;
        }
        if sim.cc.on() {
            let packet = job.packet.get();
            at = at.max(self.env.paced_until(card, id / 2, &packet));
        }
        let sim = &mut *self.env.sim;
        if at > sim.now {
            return sim.at(at, Event::Due { card, port, flow: id });
        }
        let c = &mut sim.cards[card as usize];
        join_round(&mut c.ports[port as usize], &mut c.qps, id);
    }

    /// The first job of a flow may start its DMA reads.
    pub(super) fn due(&mut self, card: u16, port: u8, flow: u16) {
        let c = &mut self.env.sim.cards[card as usize];
        join_round(&mut c.ports[port as usize], &mut c.qps, flow);
        self.feed(card, port);
    }

    /// Puts a flow that has left the round at its end again, if it has more to send.
    pub(super) fn rejoin(&mut self, card: u16, port: u8, id: u16) {
        if flow_mut(&mut self.env.sim.cards[card as usize].qps, id).head != 0 {
            self.line_up(card, port, id);
        }
    }

    /// Removes a job whose payload is all requested, and wakes the QP's engine if it waited for that.
    pub(super) fn finish_job(&mut self, card: u16, qp: u16, side: usize) {
        let sim = &mut *self.env.sim;
        let t = &mut sim.cards[card as usize].qps[qp as usize];
        let flow = &mut t.flows[side];
        let at = flow.head - 1;
        let job = *sim.jobs.get(at);
        flow.head = job.next;
        flow.count -= 1;
        if job.next == 0 {
            flow.tail = 0;
        }
        let stalled = side == SENDS && t.stalled.take();
        sim.jobs.free(at);
        if let Payload::Stash(slot, _) = job.packet.get().payload {
            sim.release(slot);
        }
        if stalled {
            self.want_send(card, qp);
        }
    }
}

/// The place, plus one, of the job of a flow behind which a packet goes that may have been sent before: those that follow it and
/// have not left go later.
#[cold]
fn behind(flow: &Flow, jobs: &Slab<Job, JOBS>, (psn, back): (u32, u16)) -> u32 {
    let (mut before, mut next) = (0, flow.head);
    while next != 0 {
        let job = jobs.get(next - 1);
        let leaves = psn::add(job.packet.get().psn, job.issued);
        if job.back == back && psn::diff(psn, leaves) < 0 {
            break;
        }
        (before, next) = (next, job.next);
    }
    before
}

/// Appends a flow to the round.
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

/// Removes the first flow from the round.
pub(super) fn leave_round(port: &mut PortTime, qps: &mut [QpTime]) -> u16 {
    let first = port.round.0 - 1;
    port.round.0 = flow_mut(qps, first).next;
    if port.round.0 == 0 {
        port.round.1 = 0;
    }
    first
}

pub(super) fn flow_mut(qps: &mut [QpTime], id: u16) -> &mut Flow {
    &mut qps[(id / 2) as usize].flows[(id % 2) as usize]
}
