//! When a send queue may continue: doorbell, WQE fetch, the QP's engine, the requester's pipeline.

use super::engine::Engine;
use super::event::Event;
use super::pcie::Bus;
use super::state::{QpTime, Sim, SENDS};
use super::trace::{Phase, Subject};
use crate::device::tables::MAX_CQS;
use crate::journal;
use crate::plain::Flag;
use crate::profile::Profile;

/// Bytes of a WQE block.
const BLOCK: u32 = fpga_regs::WQE_BLOCK as u32;

impl QpTime {
    /// When the WQE at `cur` is in the card. Fetches it, and as many more as fit, if it is not.
    fn available(&mut self, cur: u32, producer: u32, now: u64, bus: &mut Bus, p: &Profile) -> u64 {
        let left = producer.wrapping_sub(cur);
        let behind = |upto: u32| (upto.wrapping_sub(cur) as i32) > 0 && upto.wrapping_sub(cur) <= left;
        // The WQEs are fetched again after going back.
        let went_back = (cur.wrapping_sub(self.base) as i32) < 0;
        if went_back || !behind(self.upto[1]) {
            self.base = cur;
            self.upto = [cur; 2];
            self.fetch(producer, now, bus, p);
            return self.done[1];
        }
        if behind(self.upto[0]) {
            return self.done[0];
        }
        // The second batch becomes the first.
        self.base = self.upto[0];
        self.upto[0] = self.upto[1];
        self.done[0] = self.done[1];
        self.asked[0] = self.asked[1];
        self.done[0]
    }

    /// When the WQE at `cur` was requested, and when it was in the card.
    fn fetched(&self, cur: u32) -> (u64, u64) {
        let batch = usize::from((self.upto[0].wrapping_sub(cur) as i32) <= 0);
        (self.asked[batch], self.done[batch])
    }

    /// Fetches the next batch while the card works on the last.
    fn prefetch(&mut self, cur: u32, producer: u32, now: u64, bus: &mut Bus, p: &Profile) {
        let left = producer.wrapping_sub(self.upto[1]);
        if left == 0 || left > i32::MAX as u32 || self.upto[0] != self.upto[1] {
            return;
        }
        if self.upto[1].wrapping_sub(cur) <= p.sq.wqe_low {
            self.fetch(producer, now, bus, p);
        }
    }

    fn fetch(&mut self, producer: u32, at: u64, bus: &mut Bus, p: &Profile) {
        let blocks = producer.wrapping_sub(self.upto[1]).min(p.sq.wqe_prefetch);
        self.done[1] = bus.read(at, blocks * BLOCK, p).last;
        self.asked[1] = at;
        self.upto[1] = self.upto[1].wrapping_add(blocks);
    }
}

impl Sim {
    /// When a doorbell is decoded that could be at `at`. It overtakes no earlier one of the same queue, even if fewer
    /// bytes were pushed with it, or another thread of the program rang the earlier one at a later clock: they rang one
    /// after the other, because a lock of the queue made them.
    pub fn rung(&mut self, event: &Event, at: u64) -> u64 {
        let last = match *event {
            Event::SendBell { card, qp, .. } => &mut self.cards[card as usize].qps[qp as usize].rung[0],
            Event::RecvBell { card, qp, .. } => &mut self.cards[card as usize].qps[qp as usize].rung[1],
            Event::SharedBell { card, srq, .. } => &mut self.cards[card as usize].srqs_rung[srq as usize],
            Event::Arm { card, value, .. } => {
                &mut self.cards[card as usize].cqs_rung[fpga_regs::CqArm(value).cqn() as usize % MAX_CQS]
            }
            _ => return at,
        };
        // Two threads' events of the same time come in the order of the threads.
        *last = at.max(last.saturating_add(1));
        *last
    }
}

impl Engine<'_> {
    /// Executes a send doorbell.
    pub(super) fn send_bell(&mut self, card: u16, qp: u16, producer: u32, pushed: bool) {
        let bell = &self.env.bells[card as usize].qp[qp as usize].sq;
        let before = bell.swap(producer, std::sync::atomic::Ordering::AcqRel);
        let cur = self.world.cards[card as usize].qps[qp as usize].req.cur;
        let sim = &mut *self.env.sim;
        let t = &mut sim.cards[card as usize].qps[qp as usize];
        // Only if no earlier WQE waits: the queue is in order.
        if pushed && cur == before {
            t.base = cur;
            t.upto = [producer; 2];
            t.done = [sim.now; 2];
            t.asked = [sim.now; 2];
        }
        self.want_send(card, qp);
    }

    /// Schedules the next WQE of a send queue, if there is one.
    pub(super) fn want_send(&mut self, card: u16, qp: u16) {
        let producer = self.env.bells[card as usize].sq_producer(qp.into());
        let device = &self.world.cards[card as usize].qps[qp as usize];
        let cur = device.req.cur;
        let sim = &mut *self.env.sim;
        let (profile, now) = (&sim.profile, sim.now);
        let c = &mut sim.cards[card as usize];
        let t = &mut c.qps[qp as usize];
        if t.pending.get() {
            return;
        }
        if u32::from(t.flows[SENDS].count) >= profile.sq.ahead {
            t.stalled = true.into();
            return;
        }
        let at = if producer == cur { now } else { t.available(cur, producer, now, &mut c.bus, profile) };
        t.pending = true.into();
        let at = at.max(t.free_at).max(now);
        sim.at(at, Event::Send { card, qp });
    }

    /// Starts the next WQE of a QP.
    pub(super) fn send(&mut self, card: u16, qp: u16) {
        let sim = &mut *self.env.sim;
        let now = sim.now;
        let c = &mut sim.cards[card as usize];
        if c.pipe_free_at > now {
            let at = c.pipe_free_at;
            return sim.at(at, Event::Send { card, qp });
        }
        let t = &mut c.qps[qp as usize];
        if !t.known.get() && !c.qpc.touch(&mut c.recent_qpc, qp.into(), sim.profile.caches.qpc()) {
            // The context that is read serves this WQE, even if it has left the cache again when it arrives.
            t.known = true.into();
            let at = c.bus.read(now, sim.profile.caches.qpc_bytes, &sim.profile).last;
            return sim.at(at, Event::Send { card, qp });
        }
        (t.known, t.pending) = (Flag::NO, Flag::NO);
        let device = &mut self.world.cards[card as usize];
        let before = device.qps[qp as usize].req;
        self.env.step.card = card;
        let frames = device.qps[qp as usize].takes_frames();
        self.noted(journal::one(card, qp.into()), |engine| match frames {
            true => engine.send_frame(card, qp),
            false => engine.world.cards[card as usize].run_send(qp.into(), &mut engine.env),
        });
        let after = self.world.cards[card as usize].qps[qp as usize].req;
        if after.cur != before.cur || after.cur_offset != before.cur_offset {
            let payload: u64 = self.env.step.sent.iter().map(|p| p.payload.len() as u64).sum();
            let sim = &mut *self.env.sim;
            let c = &mut sim.cards[card as usize];
            c.pipe_free_at = now + sim.profile.sq.pipe_ps;
            let t = &mut c.qps[qp as usize];
            t.free_at = now + sim.profile.sq.message_ps(payload);
            t.message = before.cur;
            let fetched = t.fetched(before.cur);
            let producer =
                self.env.bells[card as usize].qp[qp as usize].sq.load(std::sync::atomic::Ordering::Relaxed);
            t.prefetch(after.cur, producer, now, &mut c.bus, &sim.profile);
            if before.cur_offset == 0 {
                let q = &self.world.cards[card as usize].qps[qp as usize];
                let port = q.port.port;
                let subject = Subject {
                    card,
                    port,
                    place: card,
                    qpn: q.qpn,
                    message: before.cur,
                    ..Subject::default()
                };
                sim.trace.step(Phase::WQE_FETCH, fetched, &subject, before.cur, 0);
            }
        }
        self.settle();
    }
}
