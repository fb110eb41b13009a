//! Waiting for interrupts, and the threads that do nothing else.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU32, Ordering};

use super::places::{Me, LEAVER, ME};
use super::tid;
use crate::attach::wall::runner::Runner;
use crate::segment::Segment;
use crate::sim::programs::actor_set::ActorSet;
use crate::sim::programs::actors::State;

impl<S: Borrow<Segment>> Runner<S> {
    /// The thread is about to wait for an interrupt of a function; false if there was one meanwhile.
    pub(crate) fn block_for_interrupt(&self, card: u8, function: u16, word: &AtomicU32, seen: u32) -> bool {
        let me = self.me();
        let Ok(guard) = self.locked() else { return false };
        let those = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            if word.load(Ordering::Acquire) != seen {
                return None;
            }
            let a = &mut sim.actors.all[me as usize];
            if a.state == State::Dismissed {
                return Some(ActorSet::default());
            }
            a.state = State::Blocked;
            a.interrupt = interrupt(card, function);
            a.wait_count = 0;
            sim.idle.waits += 1;
            Some(sim.notify(me))
        });
        if let Some(those) = those {
            guard.wakes(those);
            self.if_all_wait(&guard);
        }
        those.is_some()
    }

    /// The thread has taken an interrupt: it is no earlier than that. If it was woken by something else it
    /// still waits, as far as simulated time goes.
    pub(crate) fn took_interrupt(&self, card: u8, function: u16) {
        let me = self.me();
        let Ok(guard) = self.locked() else { return };
        let at = self.engine(&guard, |e| {
            let runs = e.env.sim.actors.all[me as usize].state == State::Running;
            runs.then(|| e.env.sim.interrupt_at[card as usize][function as usize])
        });
        drop(guard);
        if let Some(at) = at {
            self.sleep_until(at);
        }
    }

    /// A thread is about to be started that waits for the interrupts of a function: its place, which
    /// takes part from now on, however long the machine takes to start it.
    pub(crate) fn adopt(&self, card: u8, function: u16) -> Option<u16> {
        let now = self.clock();
        let guard = self.locked().ok()?;
        let member = self.segment().member();
        self.engine(&guard, |e| {
            let at = e.env.sim.join(member, std::process::id(), 0)?;
            let a = &mut e.env.sim.actors.all[at as usize];
            a.clock.store(now, Ordering::Release);
            a.state = State::Blocked;
            a.interrupt = interrupt(card, function);
            Some(at)
        })
    }

    /// This thread is the one for whom [`adopt`](Self::adopt) made a place.
    pub(crate) fn take_place(&self, place: u16) {
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.actors.all[place as usize].tid = tid());
        }
        ME.set(Me { runner: self.number, place });
        let _ = LEAVER.try_with(|_| ());
    }

    /// The thread at this place takes part no more; nothing that it still does waits for simulated time.
    pub(crate) fn dismiss(&self, place: u16) {
        if let Ok(guard) = self.locked() {
            let mut those = self.engine(&guard, |e| {
                let sim = &mut *e.env.sim;
                let a = &mut sim.actors.all[place as usize];
                a.state = State::Dismissed;
                a.serial += 1;
                a.interrupt = 0;
                sim.notify(place)
            });
            those.add(place);
            guard.wakes(those);
        }
    }
}

/// How an actor names the interrupts that it waits for.
fn interrupt(card: u8, function: u16) -> u32 {
    (u32::from(card) << 16 | u32::from(function)) + 1
}
