//! What a program does to its cards at its clock: control operations, doorbells.

use std::borrow::Borrow;

use super::polls::row_ends;
use super::{called, Held, HORIZON};
use crate::attach::wall::env::Wall;
use crate::attach::wall::runner::Runner;
use crate::device::Device;
use crate::segment::{LockError, Segment};
use crate::sim::env::SimEnv;
use crate::sim::event::Event;
use crate::sim::programs::actors::State;
use crate::world::World;

impl<S: Borrow<Segment>> Runner<S> {
    /// A control operation: the thread's clock goes on to where the operation takes place, in its turn, behind the
    /// doorbells that it has rung.
    pub(crate) fn turn<R>(&self, first: impl FnOnce(&mut World, &mut Wall<'_>) -> R) -> Result<R, LockError> {
        called();
        let me = self.me();
        let guard = self.locked()?;
        self.engine(&guard, |e| {
            let lookahead = e.env.sim.lookahead();
            let a = &mut e.env.sim.actors.all[me as usize];
            if a.state == State::Dismissed {
                return;
            }
            a.state = State::Turn;
            a.target = (a.now() + lookahead).max(a.rung);
            a.step = 0;
            a.due = false.into();
        });
        let (_, guard) = self.finish(me, guard);
        let result = self.run_locked(&guard, first);
        HORIZON.set(0);
        Ok(result)
    }

    /// A doorbell, after the program has used `cost`.
    pub(crate) fn bell(&self, cost: u64, event: Event) {
        let me = self.me();
        if let Ok(guard) = self.locked() {
            self.bell_held(me, cost, (event, 8, 0), guard);
        }
    }

    /// The same with the lock, with the bytes that are written, and with what it takes beyond the way of a store
    /// until the card has understood it. Returns when it has.
    fn bell_held(&self, me: u16, cost: u64, (event, bytes, more): (Event, u64, u64), guard: Held<'_>) -> u64 {
        called();
        row_ends();
        let p = self.profile();
        let (clock, guard) = self.spend_held(me, cost, guard);
        let on_link = p.pcie.pcie_bps.time(bytes + u64::from(p.pcie.mwr_overhead));
        let at = clock + p.pcie.mmio_ps.max(1) + on_link + more;
        let (at, unseen) = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let at = sim.rung(&event, at);
            let a = &mut sim.actors.all[me as usize];
            a.rung = a.rung.max(at);
            sim.act(me, at, event);
            (at, sim.unseen(me))
        });
        HORIZON.set(HORIZON.get().min(at + unseen));
        at
    }

    /// Like [`bell`](Self::bell) for a send queue: whether its WQEs go with the doorbell depends on them.
    pub(crate) fn send_bell(&self, card: u8, qp: u16, producer: u32, blocks: u32) {
        let p = self.profile();
        let bytes = blocks * fpga_regs::WQE_BLOCK as u32;
        let me = self.me();
        let Ok(guard) = self.locked() else { return };
        let (count, inline) =
            self.engine(&guard, |e| posted(&e.world.cards[card as usize], &mut e.env, qp, producer, blocks));
        // As our driver does it: one small WQE.
        let pushed = count == 1 && bytes <= p.sq.push_max && (p.sq.push_inline_only == 0 || inline);
        let cost = p.host.post_ps * u64::from(count) + p.host.doorbell_ps;
        // The stores of a pushed WQE are posted: the processor does not wait until they have arrived.
        let pushing = if pushed { p.host.push_ps * u64::from(blocks) } else { 0 };
        let on_bus = if pushed { u64::from(bytes) } else { 8 };
        let event = Event::SendBell { card, qp, producer, pushed };
        let more = p.cycles(p.sq.doorbell_cycles) + pushing.saturating_sub(p.host.doorbell_ps);
        let at = self.bell_held(me, cost, (event, on_bus, more), guard);
        self.trace_posted((card, qp), producer.wrapping_sub(blocks)..producer, cost, at);
    }

    /// Whose function it is, for interrupts.
    pub(crate) fn note_function(&self, card: u8, function: u16) {
        let member = self.segment().member();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.members[card as usize][function as usize] = member);
        }
    }

    /// Before memory goes away: lets all writes that are under way to this process happen.
    pub(crate) fn drain_writes(&self) {
        let member = self.segment().member();
        // Twice: what waits for its time only makes a write then. What comes later is not for this memory.
        for _ in 0..2 {
            let Ok(guard) = self.locked() else { return };
            let last = self.engine(&guard, |e| e.env.sim.last_write(member));
            drop(guard);
            match last {
                Some(last) => self.sleep_until(last),
                None => return,
            };
        }
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
