//! What a program does to its cards at its clock: control operations, doorbells.

use std::borrow::Borrow;
use std::time::Duration;

use super::lock::Held;
use super::polls::row_ends;
use super::{called, Threads, HORIZON};
use crate::device::Device;
use crate::link::capture;
use crate::segment::{now_ns, LockError, Segment};
use crate::sim::control::ControlEnv;
use crate::sim::env::SimEnv;
use crate::sim::event::Event;
use crate::sim::programs::actor::State;
use crate::world::World;

impl<S: Borrow<Segment>> Threads<S> {
    /// A control operation: the thread's clock advances to where the operation takes place, in its turn, after the
    /// doorbells that it has rung.
    pub fn control<R>(
        &self,
        work: impl FnOnce(&mut World, &mut ControlEnv<'_, '_>) -> R,
    ) -> Result<R, LockError> {
        called();
        let me = self.me();
        let mut held = self.locked()?;
        let lookahead = held.sim().lookahead();
        let a = held.actor(me);
        if a.state != State::Dismissed {
            a.state = State::Turn;
            a.target = (a.now() + lookahead).max(a.rung);
            a.step = 0;
            a.due = false.into();
        }
        let (_, mut held) = self.finish(me, held);
        let result = held.control(work);
        HORIZON.set(0);
        Ok(result)
    }

    /// A doorbell, after the program has used `cost` (ps).
    pub fn bell(&self, cost: u64, event: Event) {
        let me = self.me();
        if let Ok(held) = self.locked() {
            self.bell_held(me, cost, (event, 8, 0), held);
        }
    }

    /// The same with the lock, for a write of `bytes` that the card needs `more` (ps) to understand, beyond the time of a
    /// store on the bus. Returns when it has.
    fn bell_held(&self, me: u16, cost: u64, (event, bytes, more): (Event, u64, u64), held: Held<'_>) -> u64 {
        called();
        row_ends();
        let p = self.profile();
        let (clock, mut held) = self.spend_held(me, cost, held);
        let on_link = p.pcie.pcie_bps.time(bytes + u64::from(p.pcie.mwr_overhead));
        let at = clock + p.pcie.mmio_ps.max(1) + on_link + more;
        let sim = held.sim();
        let at = sim.rung(&event, at);
        let a = &mut sim.actors.all[me as usize];
        a.rung = a.rung.max(at);
        sim.act(me, at, event);
        HORIZON.set(HORIZON.get().min(at + sim.unseen(me)));
        at
    }

    /// Like [`bell`](Self::bell) for a send queue: it depends on the WQEs whether they come with the doorbell.
    pub fn send_bell(&self, card: u16, qp: u16, producer: u32, (blocks, life): (u32, u32)) {
        let p = self.profile();
        let me = self.me();
        let Ok(mut held) = self.locked() else { return };
        let (blocks, count, inline) = held.engine(|e| {
            let device = &e.world.cards[card as usize];
            // The difference of two doorbells, of which any member can write one, may be more than the ring has.
            let blocks = blocks.min(device.ring_blocks(qp));
            let (count, inline) = posted(device, &mut e.env, qp, producer, blocks);
            (blocks, count, inline)
        });
        let bytes = blocks * fpga_regs::WQE_BLOCK as u32;
        // As our driver does it: one small WQE.
        let pushed = count == 1 && bytes <= p.sq.push_max && (p.sq.push_inline_only == 0 || inline);
        let cost = p.host.post_ps * u64::from(count) + p.host.doorbell_ps;
        // The stores of a pushed WQE are posted: the processor does not wait until they have arrived.
        let pushing = if pushed { p.host.push_ps * u64::from(blocks) } else { 0 };
        let on_bus = if pushed { u64::from(bytes) } else { 8 };
        let event = Event::SendBell { card, qp, producer, pushed: pushed.into(), life };
        let more = p.cycles(p.sq.doorbell_cycles) + pushing.saturating_sub(p.host.doorbell_ps);
        let at = self.bell_held(me, cost, (event, on_bus, more), held);
        self.trace_posted((card, qp), producer.wrapping_sub(blocks)..producer, cost, at);
    }

    /// This process has opened a function: its interrupts go here.
    pub fn own_function(&self, card: u16, function: u16) {
        let member = self.segment().member();
        if let Ok(mut held) = self.locked() {
            held.sim().cards[card as usize].members[function as usize] = member;
        }
    }

    /// How far the simulated time of the net has advanced (ps).
    pub fn furthest(&self) -> Result<u64, LockError> {
        Ok(self.locked()?.sim().furthest())
    }

    /// Before memory is freed: waits until all writes in flight to this process have happened.
    pub fn drain_writes(&self) {
        let member = self.segment().member();
        // Twice: an event that waits for its time makes its write only then. Later writes are not to this memory.
        for _ in 0..2 {
            let Ok(mut held) = self.locked() else { return };
            let last = held.sim().last_write(member);
            drop(held);
            match last {
                Some(last) => self.sleep_until(last),
                None => return,
            };
        }
    }

    /// For the keeper: a change that is no event of simulated time.
    pub fn outside_time<R>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut World) -> R,
    ) -> Result<R, LockError> {
        Ok(self.locked_within(patience)?.control(|world, _| work(world)))
    }

    /// For the keeper: a process is gone. Its functions are closed, its clock holds no other back, and nothing is
    /// written to its memory.
    pub fn member_gone(&self, member: u16, patience: Duration) -> Result<(), LockError> {
        let mut held = self.locked_within(patience)?;
        held.control(|world, env| world.detach(member, env));
        capture::trim(&self.net().link);
        let sim = held.sim();
        sim.forget_domain(member);
        sim.trace.flush();
        let waiting = sim.leave(|a| a.member == member);
        held.wakes(waiting);
        self.segment().arm_deadline(now_ns());
        Ok(())
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
