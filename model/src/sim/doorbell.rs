//! What a doorbell costs the program that rings it, and when the card has understood it.

use std::sync::atomic::Ordering;

use fpga_regs::CqArm;

use crate::cells::Bells;
use crate::device::Device;
use crate::profile::Profile;
use crate::sim::engine::Engine;
use crate::sim::env::SimEnv;
use crate::sim::event::Event;

/// A doorbell that is about to be rung.
#[derive(Clone, Copy)]
pub(crate) struct DoorbellWrite {
    /// Time that the program uses before the store (ps).
    pub cost: u64,
    /// What the card makes of it.
    event: Event,
    /// Bytes of the store.
    bytes: u64,
    /// Time that the card needs to understand it, beyond that of a store on the bus.
    more: u64,
}

impl DoorbellWrite {
    /// Of a receive queue, posted up to `producer`.
    pub fn recv(bells: &Bells, card: u16, qp: u16, producer: u32, p: &Profile) -> DoorbellWrite {
        let (count, life) = bells.qp[usize::from(qp)].advance(1, producer);
        DoorbellWrite::plain(count, Event::RecvBell { card, qp, producer, life }, p)
    }

    /// Of a shared receive queue.
    pub fn shared(bells: &Bells, card: u16, srq: u16, producer: u32, p: &Profile) -> DoorbellWrite {
        let life = bells.srq[usize::from(srq)].life.load(Ordering::Relaxed);
        DoorbellWrite::plain(1, Event::SharedBell { card, srq, producer, life }, p)
    }

    /// That arms a CQ.
    pub fn arms(card: u16, function: u16, arm: CqArm, p: &Profile) -> DoorbellWrite {
        DoorbellWrite::plain(0, Event::Arm { card, function, value: arm.0 }, p)
    }

    /// One store, after `receives` were posted.
    pub fn plain(receives: u32, event: Event, p: &Profile) -> DoorbellWrite {
        let cost = p.host.post_recv_ps * u64::from(receives) + p.host.doorbell_ps;
        DoorbellWrite { cost, event, bytes: 8, more: 0 }
    }
}

impl Engine<'_> {
    /// A doorbell of a send queue, for its last blocks: it depends on the WQEs whether they come with it. Also returns how
    /// many blocks it is for.
    pub fn sends(
        &mut self,
        card: u16,
        qp: u16,
        producer: u32,
        (blocks, life): (u32, u32),
    ) -> (DoorbellWrite, u32) {
        let device = &self.world.cards[card as usize];
        // The difference of two doorbells, of which any member can write one, may be more than the ring has.
        let blocks = blocks.min(device.ring_blocks(qp));
        let (count, inline) = posted(device, &mut self.env, qp, producer, blocks);
        let p = &self.env.sim.profile;
        let bytes = blocks * fpga_regs::WQE_BLOCK as u32;
        // As our driver does it: one small WQE.
        let pushed = count == 1 && bytes <= p.sq.push_max && (p.sq.push_inline_only == 0 || inline);
        let cost = p.host.post_ps * u64::from(count) + p.host.doorbell_ps;
        // The stores of a pushed WQE are posted: the processor does not wait until they have arrived.
        let pushing = if pushed { p.host.push_ps * u64::from(blocks) } else { 0 };
        let event = Event::SendBell { card, qp, producer, pushed: pushed.into(), life };
        let more = p.cycles(p.sq.doorbell_cycles) + pushing.saturating_sub(p.host.doorbell_ps);
        (DoorbellWrite { cost, event, bytes: if pushed { u64::from(bytes) } else { 8 }, more }, blocks)
    }

    /// The event of a doorbell that is rung at a clock, and when the card has understood it.
    pub fn rung(&mut self, write: &DoorbellWrite, clock: u64) -> (u64, Event) {
        let p = &self.env.sim.profile;
        let on_link = p.pcie.pcie_bps.time(write.bytes + u64::from(p.pcie.mwr_overhead));
        let at = clock + p.pcie.mmio_ps.max(1) + on_link + write.more;
        (self.env.sim.rung(&write.event, at), write.event)
    }
}

/// How many WQEs the last `blocks` blocks of a send queue are, and whether the first has inline data.
fn posted(device: &Device, env: &mut SimEnv<'_>, qp: u16, producer: u32, blocks: u32) -> (u32, bool) {
    let (mut count, mut inline, mut left) = (0, false, blocks);
    while left > 0 {
        let Some((ctrl, n)) = device.posted(qp, producer.wrapping_sub(left), env) else { break };
        inline |= count == 0 && ctrl.inline();
        count += 1;
        left = left.saturating_sub(n);
    }
    (count.max(1), inline)
}
