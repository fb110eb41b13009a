//! Waiting for interrupts, and the threads that do nothing else.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU32, Ordering};

use super::places::{Me, LEAVER, ME};
use super::{tid, Threads};
use crate::segment::Segment;
use crate::sim::programs::actors::State;

impl<S: Borrow<Segment>> Threads<S> {
    /// The thread is about to wait for an interrupt of a function; false if there was one meanwhile.
    pub fn block_for_interrupt(&self, card: u8, function: u16, word: &AtomicU32, seen: u32) -> bool {
        let me = self.me();
        let Ok(mut held) = self.locked() else { return false };
        if word.load(Ordering::Acquire) != seen {
            return false;
        }
        let a = held.actor(me);
        if a.state != State::Dismissed {
            a.state = State::Blocked;
            a.interrupt = interrupt(card, function);
            a.wait_count = 0;
            held.sim().idle.waits += 1;
            held.notify(me);
        }
        held.run_if_all_wait();
        true
    }

    /// The thread has taken an interrupt: its clock is no earlier than that. If something else woke it, it still waits
    /// as far as simulated time is concerned.
    pub fn took_interrupt(&self, card: u8, function: u16) {
        let me = self.me();
        let Ok(mut held) = self.locked() else { return };
        let runs = held.actor(me).state == State::Running;
        let at = held.sim().interrupt_at[card as usize][function as usize];
        drop(held);
        if runs {
            self.sleep_until(at);
        }
    }

    /// Makes the place of a thread about to be started that waits for the interrupts of a function. It takes part from
    /// now on, however long the machine takes to start it.
    pub(super) fn adopt(&self, card: u8, function: u16) -> Option<u16> {
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
fn interrupt(card: u8, function: u16) -> u32 {
    (u32::from(card) << 16 | u32::from(function)) + 1
}
