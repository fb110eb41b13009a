//! The clock of a thread moves to a time, or to an event.

use std::borrow::Borrow;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use super::lock::Held;
use super::places::LEFT;
use super::wait::{core, other_core, wait};
use super::{called, polls, Threads, Until, HORIZON};
use crate::segment::Segment;
use crate::sim::engine::Outcome;
use crate::sim::programs::actor::State;
use crate::sim::programs::signal::pending as signal_pending;
use crate::sim::programs::stall::{self, Look, Sleeper, Standstill, DELIVERY, LOOK};
use crate::sim::programs::watched::Watched;
use crate::sim::state::FOREVER;

/// Called when a wait has passed the program's alarm.
static ON_ALARM: OnceLock<fn()> = OnceLock::new();

/// What to call when a wait has passed the program's alarm.
pub fn on_alarm(ring: fn()) {
    let _ = ON_ALARM.set(ring);
}

impl<S: Borrow<Segment>> Threads<S> {
    /// This thread's actor; it joins with its first call.
    #[inline]
    pub(super) fn me(&self) -> u16 {
        let me = self.place().unwrap_or_else(|| self.join());
        if self.actor(me).aside.load(Ordering::Relaxed) != 0 {
            self.come_back(me);
        }
        me
    }

    /// The thread was assumed to be waiting, and its wait has ended.
    #[cold]
    fn come_back(&self, me: u16) {
        let mut held = self.must_lock();
        held.actor(me).aside.store(0, Ordering::Relaxed);
        held.sim().resume(me);
        drop(held);
        HORIZON.set(0);
    }

    /// The thread spins for another one of its process, which may be waiting for time to pass.
    pub fn set_aside(&self) {
        let me = self.me();
        let mut held = self.must_lock();
        if held.actor(me).state == State::Running {
            held.actor(me).set_aside();
            held.notify(me);
        }
    }

    /// This thread's clock.
    pub(super) fn clock(&self) -> u64 {
        match (self.place(), LEFT.get()) {
            (None, left) if left != 0 => left - 1,
            _ => self.actor(self.me()).now(),
        }
    }

    /// The program has used `ps`; returns the clock.
    #[inline]
    pub fn spend(&self, ps: u64) -> u64 {
        let me = self.me();
        let actor = self.actor(me);
        let clock = actor.clock.load(Ordering::Relaxed) + ps;
        if clock < HORIZON.get() {
            actor.clock.store(clock, Ordering::Release);
            return clock;
        }
        self.advance(me, clock, Until::Time)
    }

    /// Like [`spend`](Self::spend), with the lock held before and after.
    pub(super) fn spend_held<'a>(&'a self, me: u16, ps: u64, held: Held<'a>) -> (u64, Held<'a>) {
        let actor = self.actor(me);
        let clock = actor.clock.load(Ordering::Relaxed) + ps;
        if clock < HORIZON.get() {
            actor.clock.store(clock, Ordering::Release);
            return (clock, held);
        }
        self.advance_held(me, clock, Until::Time, held)
    }

    /// The program waits for time to pass, or for memory, and checks now and then: for `ps`, or less if its memory is
    /// written.
    pub fn idle(&self, ps: u64) -> u64 {
        let me = self.me();
        self.advance(me, self.actor(me).now() + ps, Until::Write(0, Watched::default()))
    }

    /// The program sleeps.
    pub fn sleep_until(&self, at: u64) -> u64 {
        let me = self.me();
        self.advance(me, at.max(self.actor(me).now()), Until::Time)
    }

    /// A poll found completions.
    pub fn polled(&self, completions: usize) {
        called();
        let host = &self.profile().host;
        let clock = self.spend(host.poll_ps + completions as u64 * host.poll_cqe_ps);
        polls::found(clock);
        self.trace_polled();
    }

    /// The program spins on these places of its memory.
    pub fn memory_wait(&self, watched: Watched) -> u64 {
        let seen = self.profile().host.memory_poll_ps;
        self.advance(self.me(), FOREVER, Until::Write(seen, watched))
    }

    fn advance(&self, me: u16, target: u64, until: Until) -> u64 {
        self.advance_held(me, target, until, self.must_lock()).0
    }

    pub(super) fn advance_held<'a>(
        &'a self,
        me: u16,
        target: u64,
        until: Until,
        mut held: Held<'a>,
    ) -> (u64, Held<'a>) {
        self.actor(me).core.store(core(), Ordering::Relaxed);
        loop {
            let a = held.actor(me);
            if a.state != State::Dismissed {
                a.state = State::Waiting;
                a.target = target.min(a.alarm.max(a.now()));
                a.due = false.into();
                a.watched.clear();
                (a.step, a.after, a.entries) = match until {
                    Until::Time => (0, 0, false.into()),
                    Until::Entry(step) => (step, 0, true.into()),
                    Until::Write(seen, watched) => {
                        a.watched = watched;
                        (1, seen, false.into())
                    }
                };
            }
            let clock;
            (clock, held) = self.finish(me, held);
            if held.actor(me).alarm > clock {
                return (clock, held);
            }
            drop(held);
            if let Some(ring) = ON_ALARM.get() {
                ring();
            }
            held = self.must_lock();
            // A wait for time continues after the alarm.
            if clock >= target || !matches!(until, Until::Time) {
                return (clock, held);
            }
        }
    }

    /// Executes events, and waits for other threads, until the wait of actor `me` ends.
    pub(super) fn finish<'a>(&'a self, me: u16, mut held: Held<'a>) -> (u64, Held<'a>) {
        let mut still = Standstill::NEW;
        let mut sleeper = Sleeper::default();
        loop {
            let outcome = held.engine(|e| e.run(me));
            held.notify(me);
            if let Outcome::Done { clock, horizon } = outcome {
                HORIZON.set(horizon);
                return (clock, held);
            }
            let sim = held.sim();
            let done = sim.done();
            let a = &sim.actors.all[me as usize];
            // No other process has joined yet that could do something.
            let alone = outcome == Outcome::Idle && !sim.has_others(a.member);
            let for_time = a.target != FOREVER;
            let for_memory = !for_time && a.step != 0 && !a.entries.get();
            let actor = self.actor(me);
            let seen = actor.word.load(Ordering::Acquire);
            drop(held);
            let beside = match outcome {
                Outcome::Blocked(other) => self.actor(other).core.load(Ordering::Relaxed) != core(),
                _ => true,
            };
            let in_vain = wait(actor, seen, beside && other_core(), for_time);
            actor.core.store(core(), Ordering::Relaxed);
            if in_vain && self.has_gone_to_sleep(outcome, &mut sleeper) {
                held = self.must_lock();
                continue;
            }
            if in_vain {
                self.stands_still(still.look(done), alone);
            }
            held = self.must_lock();
            if in_vain && for_memory && signal_pending() {
                // The program spins on its memory again, if the handler of that signal returns.
                let a = held.actor(me);
                a.target = a.now();
                let clock = a.arrive();
                HORIZON.set(0);
                return (clock, held);
            }
        }
    }

    /// Whether the thread that must move first sleeps in the kernel for something that the simulation does not know: a
    /// mutex, say, that its program holds in a thread that waits for time to pass. It is assumed to be waiting.
    #[cold]
    fn has_gone_to_sleep(&self, outcome: Outcome, sleeper: &mut Sleeper) -> bool {
        let Outcome::Blocked(other) = outcome else { return false };
        let mut held = self.must_lock();
        let a = held.actor(other);
        let (pid, tid, now, promised) = (a.pid, a.tid, a.now(), a.promised.get());
        if a.state != State::Running || a.held_up.load(Ordering::Relaxed) != 0 {
            return false;
        }
        drop(held);
        if !sleeper.sleeps_on(pid, tid, if promised { DELIVERY } else { LOOK }) {
            return false;
        }
        let mut held = self.must_lock();
        let a = held.actor(other);
        let same = (a.pid, a.tid, a.now(), a.state) == (pid, tid, now, State::Running);
        if same {
            a.set_aside();
            held.notify(other);
        }
        same
    }

    /// If nothing has happened for long: says which thread waits for what, and later ends the program, unless it is
    /// `alone`: then another may still come.
    pub(super) fn stands_still(&self, look: Look, alone: bool) {
        if look == Look::Moves || look == Look::TooLong && alone {
            return;
        }
        let text = self.must_lock().sim().describe();
        stall::tell(look, alone, &text);
    }
}
