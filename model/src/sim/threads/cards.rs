//! What a program does to its cards at its clock: control operations, doorbells.

use std::borrow::Borrow;
use std::io;
use std::time::Duration;

use super::lock::Held;
use super::polls::row_ends;
use super::{called, Threads, HORIZON};
use crate::link::capture;
use crate::segment::{now_ns, LockError, Segment};
use crate::sim::control::ControlEnv;
use crate::sim::doorbell::DoorbellWrite;
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

    /// Rings a doorbell.
    pub fn bell(&self, write: DoorbellWrite) {
        let me = self.me();
        if let Ok(held) = self.locked() {
            self.bell_held(me, write, held);
        }
    }

    /// The same with the lock. Returns when the card has understood it.
    fn bell_held(&self, me: u16, write: DoorbellWrite, held: Held<'_>) -> u64 {
        called();
        row_ends();
        let (clock, mut held) = self.spend_held(me, write.cost, held);
        let (at, event) = held.engine(|e| e.rung(&write, clock));
        let sim = held.sim();
        let a = &mut sim.actors.all[me as usize];
        a.rung = a.rung.max(at);
        sim.act(me, at, event);
        HORIZON.set(HORIZON.get().min(at + sim.unseen(me)));
        at
    }

    /// Like [`bell`](Self::bell) for a send queue.
    pub fn send_bell(&self, card: u16, qp: u16, producer: u32, advance: (u32, u32)) {
        let me = self.me();
        let Ok(mut held) = self.locked() else { return };
        let (write, blocks) = held.engine(|e| e.sends(card, qp, producer, advance));
        let cost = write.cost;
        let at = self.bell_held(me, write, held);
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

    /// Writes what the trace has gathered. Why it is not complete; `None`: it is.
    pub fn trace_lost(&self) -> Result<Option<io::Error>, LockError> {
        let mut held = self.locked()?;
        let trace = &mut held.sim().trace;
        trace.flush();
        Ok(trace.lost())
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

    /// A change that is no event of simulated time.
    pub fn outside_time<R>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut World, &mut ControlEnv<'_, '_>) -> R,
    ) -> Result<R, LockError> {
        Ok(self.locked_within(patience)?.control(work))
    }

    /// For the keeper: a process is gone. Its functions are closed, its clock holds no other back, and nothing is
    /// written to its memory.
    pub fn member_gone(&self, member: u16, patience: Duration) -> Result<(), LockError> {
        let mut held = self.locked_within(patience)?;
        held.control(|world, env| world.detach(member, env));
        capture::trim(&self.net().link);
        self.net().link.end_live(member, self.segment());
        let sim = held.sim();
        sim.forget_domain(member);
        sim.trace.flush();
        let waiting = sim.leave(|a| a.member == member);
        held.wakes(waiting);
        self.segment().arm_deadline(now_ns());
        Ok(())
    }
}
