//! Waits in the kernel, the streams between programs, and the alarm.

use std::borrow::Borrow;
use std::time::Duration;

use super::HORIZON;
use crate::attach::wall::runner::Runner;
use crate::segment::{now_ns, Guard, LockError, Segment};
use crate::sim::event::Event;
use crate::sim::programs::actor_set::ActorSet;
use crate::sim::programs::actors::State;
use crate::sim::programs::streams::Wait;
use crate::sim::state::FOREVER;

impl<S: Borrow<Segment>> Runner<S> {
    /// The thread is about to wait in the kernel, until [`unblock`](Self::unblock).
    pub fn block(&self, waits: &[Wait], deadline: u64) {
        let me = self.me();
        let Ok(guard) = self.locked() else { return };
        let those = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            if sim.stream_ready(waits) {
                return ActorSet::default();
            }
            let a = &mut sim.actors.all[me as usize];
            let n = waits.len().min(a.waits.len());
            a.waits[..n].copy_from_slice(&waits[..n]);
            a.wait_count = n as u32;
            a.state = State::Blocked;
            a.interrupt = 0;
            a.serial += 1;
            let (serial, at) = (a.serial, deadline.min(a.alarm).max(a.now()));
            if at != FOREVER {
                let at = at.max(sim.now);
                sim.act(me, at, Event::Wake { actor: me, serial });
            }
            sim.idle.waits += 1;
            sim.notify(me)
        });
        guard.wakes(those);
        self.if_all_wait(&guard);
    }

    /// If every program waits: executes what happens meanwhile, and leaves the rest to the keeper.
    pub(super) fn if_all_wait(&self, guard: &Guard<'_>) {
        let next = self.engine(guard, |e| match e.env.sim.all_wait() {
            true => e.idle(now_ns()),
            false => None,
        });
        if let Some(at) = next {
            self.segment().arm_deadline(at);
        }
    }

    /// For the keeper: the same; returns the machine's time (ns) at which to look again.
    pub(crate) fn keep_going(&self, patience: Duration) -> Result<Option<u64>, LockError> {
        let guard = self.locked_within(patience)?;
        Ok(self.engine(&guard, |e| e.idle(now_ns())))
    }

    /// The wait in the kernel has ended.
    pub fn unblock(&self) -> u64 {
        self.resume();
        HORIZON.set(0);
        self.spend(0)
    }

    /// The kernel let the thread go on: if nobody within the simulation did, it goes on from now.
    fn resume(&self) {
        let me = self.me();
        let Ok(guard) = self.locked() else { return };
        self.engine(&guard, |e| e.env.sim.resume(me));
        drop(guard);
        HORIZON.set(0);
    }

    /// The thread is about to write bytes of a stream.
    pub fn sent(&self, key: crate::sim::programs::streams::Key, end: u64) {
        let at = self.clock();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.stream_sent(key, end, at));
        }
        HORIZON.set(0);
    }

    /// The thread has closed the writing end of a stream.
    pub fn closed(&self, key: crate::sim::programs::streams::Key) {
        let at = self.clock();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.stream_closed(key, at));
        }
        HORIZON.set(0);
    }

    /// The thread has read bytes of a stream.
    pub fn received(&self, key: crate::sim::programs::streams::Key, end: u64) {
        let Ok(guard) = self.locked() else { return };
        let at = self.engine(&guard, |e| e.env.sim.stream_received(key, end));
        drop(guard);
        self.sleep_until(at);
    }

    /// The program wants SIGALRM at this time.
    pub fn alarm(&self, at: u64) {
        let me = self.me();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.actors.all[me as usize].alarm = at);
            HORIZON.set(0);
        }
    }
}
