//! Waiting for interrupts, and the threads that do nothing else.

use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::places::{Me, LEAVER, ME};
use super::{tid, Threads};
use crate::segment::Segment;
use crate::sim::programs::actor::State;
use crate::sim::programs::stall::{self, Look, Standstill};

thread_local! {
    /// What a thread that waits for interrupts has seen of time.
    static STILL: Cell<Standstill> = const { Cell::new(Standstill::NEW) };
}

impl<S: Borrow<Segment>> Threads<S> {
    /// The thread is about to wait for an interrupt of a function; false if there was one meanwhile.
    pub fn block_for_interrupt(&self, card: u16, function: u16, word: &AtomicU32, seen: u32) -> bool {
        let me = self.me();
        let Ok(mut held) = self.locked() else { return false };
        if word.load(Ordering::Acquire) != seen {
            return false;
        }
        let waited = interrupt(card, function);
        let a = held.actor(me);
        // One that waits already has only looked around.
        let waits = a.state == State::Blocked && a.interrupt == waited;
        if a.state != State::Dismissed && !waits {
            a.state = State::Blocked;
            a.interrupt = waited;
            a.wait_count = 0;
            held.sim().idle.waits += 1;
            held.notify(me);
        }
        held.run_if_all_wait();
        true
    }

    /// For a thread that waits for interrupts, to be called every half second: says once if nothing has happened for
    /// long and a thread of the process waits in vain for one of the pipes (inodes) that only this thread writes to.
    pub fn look_for_standstill(&self, pipes: impl FnOnce() -> Vec<u64>) {
        let Ok(mut held) = self.locked() else { return };
        let sim = held.sim();
        let happened = sim.is_over().then(|| sim.executed.wrapping_add(sim.idle.waits));
        drop(held);
        let Some(happened) = happened else { return STILL.set(Standstill::NEW) };
        let mut still = STILL.replace(Standstill::NEW);
        let look = still.look(happened);
        STILL.set(still);
        if look != Look::Say {
            return;
        }
        // Not with the lock: a thread that uses the pipes may wait for it.
        let pipes = pipes();
        let member = self.segment().member();
        let Ok(mut held) = self.locked() else { return };
        let sim = held.sim();
        let text = (sim.is_over() && sim.waits_for(member, &pipes)).then(|| sim.describe());
        drop(held);
        if let Some(text) = text {
            stall::say(
                "and nothing will: every thread waits in the kernel, one for an event of a card",
                &text,
            );
        }
    }

    /// The thread has taken an interrupt: its clock is no earlier than that. If something else woke it, it still waits
    /// as far as simulated time is concerned.
    pub fn took_interrupt(&self, card: u16, function: u16) {
        let me = self.me();
        let Ok(mut held) = self.locked() else { return };
        let runs = held.actor(me).state == State::Running;
        let at = held.sim().cards[card as usize].interrupt_at[function as usize];
        drop(held);
        if runs {
            self.sleep_until(at);
        }
    }

    /// Makes the place of a thread about to be started that waits for the interrupts of a function. It takes part from
    /// now on, however long the machine takes to start it.
    pub(super) fn adopt(&self, card: u16, function: u16) -> Option<u16> {
        let now = self.clock();
        let mut held = self.locked().ok()?;
        let place = held.sim().join(self.segment().member(), std::process::id(), 0)?;
        let a = held.actor(place);
        a.clock.store(now, Ordering::Release);
        a.state = State::Blocked;
        a.interrupt = interrupt(card, function);
        Some(place)
    }

    /// This thread is the one for which `place` was made.
    pub(super) fn take_place(&self, place: u16) {
        if let Ok(mut held) = self.locked() {
            held.actor(place).tid = tid();
        }
        ME.set(Me { process: self.number, place });
        let _ = LEAVER.try_with(|_| ());
    }

    /// The thread at this place takes part no more; nothing that it still does waits for simulated time.
    pub(super) fn dismiss(&self, place: u16) {
        if let Ok(mut held) = self.locked() {
            let a = held.actor(place);
            a.state = State::Dismissed;
            a.serial += 1;
            a.interrupt = 0;
            let mut waiting = held.sim().notify(place);
            waiting.add(place);
            held.wakes(waiting);
        }
    }
}

/// How an actor names the interrupts that it waits for.
fn interrupt(card: u16, function: u16) -> u32 {
    (u32::from(card) << 16 | u32::from(function)) + 1
}
