//! A process's threads in simulated time: their clocks move on through here.
//!
//! A thread's clock goes on by itself as far as nothing can happen (`horizon`); beyond that it takes the
//! segment's lock, executes events, and sleeps where another thread must move first.
#![allow(unsafe_code)]

mod cards;
mod follower;
mod held;
mod interrupts;
mod kernel;
mod places;
mod polls;
mod timeline;
mod traced;
mod wait;

use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use crate::attach::wall::runner::Runner;
use crate::net::Net;
use crate::segment::{now_ns, Guard, LockError, Segment};
use crate::sim::engine::{Engine, Outcome};
use crate::sim::env::{SimEnv, Step};
use crate::sim::programs::actors::{Actor, State};
use crate::sim::programs::signal::pending as signal_pending;
use crate::sim::programs::stall::{self, patience, Look, Sleeper, Standstill};
use crate::sim::programs::watched::Watched;
use crate::sim::state::{Sim, FOREVER};

pub use follower::Follower;
use held::Held;
pub(crate) use places::on_thread_end;
pub use places::{forked, Starting};
use places::{Me, LEFT, ME};
pub use timeline::{simulated_time, Clocked};
pub(crate) use wait::prepare;
use wait::{core, other_core, wait};

/// How long an operation waits for the lock.
const PATIENCE: Duration = Duration::from_secs(20);
/// Tries to get the lock before a thread sleeps for it, where there is another core.
const TRIES: u32 = 500;

thread_local! {
    /// The clock may be moved on to before this time without looking.
    static HORIZON: Cell<u64> = const { Cell::new(0) };
}

/// Calls into the library so far: has a program called since?
static CALLS: AtomicU64 = AtomicU64::new(0);
/// To be called when a wait passed the program's alarm.
static ON_ALARM: OnceLock<fn()> = OnceLock::new();

/// What ends a wait for memory.
#[derive(Clone, Copy)]
enum Until {
    /// The time alone.
    Time,
    /// A queue entry, seen by a poll every so often.
    Entry(u64),
    /// A write to these places, seen so much later.
    Write(u64, Watched),
}

/// What a step has left that ends by a panic is lost, as if the process had died: others start the simulation anew.
struct Tidy(*mut Step);

impl Drop for Tidy {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: made by who has the lock and does not use the step after this.
        unsafe { *self.0 = Step::default() };
    }
}

fn sim(net: &Net) -> *mut Sim {
    net.sim.get()
}

impl<S: Borrow<Segment>> Runner<S> {
    /// Whether the cards of this net run in simulated time.
    #[inline]
    pub fn simulated(&self) -> bool {
        // SAFETY: written once, before anybody could join.
        unsafe { (*sim(self.net())).on.get() }
    }

    /// Whether it is recorded what they do.
    #[inline]
    pub(crate) fn traced(&self) -> bool {
        // SAFETY: only an atomic of it is looked at.
        unsafe { (*sim(self.net())).trace.on() }
    }

    /// The simulation, with the lock.
    pub(crate) fn engine<R>(&self, guard: &Guard<'_>, work: impl FnOnce(&mut Engine<'_>) -> R) -> R {
        let net = self.net();
        // SAFETY: the lock is held: no other thread or process uses the cards, the simulation or our scratch.
        let (world, sim, step) = unsafe { (&mut *net.world.get(), &mut *net.sim.get(), self.step()) };
        let tidy = Tidy(step);
        // SAFETY: the same; after a panic `tidy` uses it when the engine is gone.
        let step = unsafe { &mut *tidy.0 };
        let env = SimEnv { sim, bells: &net.bells, guard, step };
        let mut engine = Engine { world, env, interrupts: &net.interrupts, link: &net.link };
        let result = work(&mut engine);
        engine.end_link();
        std::mem::forget(tidy);
        result
    }

    pub(crate) fn locked(&self) -> Result<Held<'_>, LockError> {
        // Waiting with a time-out reads the clock, which is a trap in a program whose clock is virtual.
        let guard = match self.segment().try_lock() {
            Some(guard) => guard,
            None => self.wait_for_lock()?,
        };
        Ok(self.held(guard))
    }

    /// As [`locked`](Self::locked), with another patience.
    fn locked_within(&self, patience: Duration) -> Result<Held<'_>, LockError> {
        Ok(self.held(self.segment().lock(patience)?))
    }

    fn held<'a>(&'a self, guard: Guard<'a>) -> Held<'a> {
        if guard.recovered() {
            self.recover_simulated(&guard);
        }
        Held::new(guard, self.actors())
    }

    #[cold]
    fn wait_for_lock(&self) -> Result<Guard<'_>, LockError> {
        for _ in 0..if other_core() { TRIES } else { 0 } {
            std::hint::spin_loop();
            // Trying takes the line from who needs it to unlock.
            if self.segment().seems_locked() {
                continue;
            }
            if let Some(guard) = self.segment().try_lock() {
                return Ok(guard);
            }
        }
        let waits = |on| {
            if let Some(me) = self.place() {
                self.actors()[me as usize].locking.store(on, Ordering::Relaxed);
            }
        };
        waits(true);
        let guard = self.segment().lock(patience().min(PATIENCE));
        waits(false);
        guard
    }

    fn actors(&self) -> &[Actor] {
        // SAFETY: only atomics of it are used without the lock.
        unsafe { &(*sim(self.net())).actors.all }
    }

    /// This thread's actor; it joins with its first call.
    #[inline]
    pub(crate) fn me(&self) -> u16 {
        let me = self.place().unwrap_or_else(|| self.join());
        if self.actors()[me as usize].aside.load(Ordering::Relaxed) {
            self.come_back(me);
        }
        me
    }

    /// The thread was taken to wait, and has ended its wait.
    #[cold]
    fn come_back(&self, me: u16) {
        let guard = self.must_lock();
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            sim.actors.all[me as usize].aside.store(false, Ordering::Relaxed);
            sim.resume(me);
        });
        drop(guard);
        HORIZON.set(0);
    }

    /// The thread spins for another one of its process, which may be waiting for time to pass.
    pub fn set_aside(&self) {
        let me = self.me();
        let guard = self.must_lock();
        let those = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let runs = sim.actors.all[me as usize].state == State::Running;
            runs.then(|| {
                sim.actors.all[me as usize].set_aside();
                sim.notify(me)
            })
        });
        guard.wakes(those.unwrap_or_default());
    }

    /// This thread's clock.
    pub(crate) fn clock(&self) -> u64 {
        match (self.place(), LEFT.get()) {
            (None, left) if left != 0 => left - 1,
            _ => self.actors()[self.me() as usize].now(),
        }
    }

    /// The program has used so much time.
    #[inline]
    pub fn spend(&self, ps: u64) -> u64 {
        let me = self.me();
        let actor = &self.actors()[me as usize];
        let clock = actor.clock.load(Ordering::Relaxed) + ps;
        if clock < HORIZON.get() {
            actor.clock.store(clock, Ordering::Release);
            return clock;
        }
        self.advance(me, clock, Until::Time)
    }

    /// The program waits for time to pass, or for memory, and looks every so often: so much time, or less if
    /// its memory is written.
    pub fn idle(&self, ps: u64) -> u64 {
        let me = self.me();
        let now = self.actors()[me as usize].now();
        self.advance(me, now + ps, Until::Write(0, Watched::default()))
    }

    /// The program sleeps.
    pub fn sleep_until(&self, at: u64) -> u64 {
        let me = self.me();
        let now = self.actors()[me as usize].now();
        self.advance(me, at.max(now), Until::Time)
    }

    /// A poll found completions.
    pub fn polled(&self, completions: usize) {
        called();
        polls::row_ends();
        let host = &self.profile().host;
        self.spend(host.poll_ps + completions as u64 * host.poll_cqe_ps);
        self.trace_polled();
    }

    /// The program spins on memory: on these places.
    pub fn memory_wait(&self, watched: Watched) -> u64 {
        let seen = self.profile().host.memory_poll_ps;
        self.advance(self.me(), FOREVER, Until::Write(seen, watched))
    }

    /// A counter that changes with each call.
    pub fn calls(&self) -> u64 {
        CALLS.load(Ordering::Relaxed)
    }

    /// The timing in use.
    #[inline]
    pub fn profile(&self) -> &crate::profile::Profile {
        // SAFETY: written once, before anybody could join.
        unsafe { &(*sim(self.net())).profile }
    }

    fn advance(&self, me: u16, target: u64, until: Until) -> u64 {
        self.advance_held(me, target, until, self.must_lock()).0
    }

    /// As [`spend`](Self::spend) of who has the lock, and has it afterwards.
    fn spend_held<'a>(&'a self, me: u16, ps: u64, guard: Held<'a>) -> (u64, Held<'a>) {
        let actor = &self.actors()[me as usize];
        let clock = actor.clock.load(Ordering::Relaxed) + ps;
        if clock < HORIZON.get() {
            actor.clock.store(clock, Ordering::Release);
            return (clock, guard);
        }
        self.advance_held(me, clock, Until::Time, guard)
    }

    fn advance_held<'a>(
        &'a self,
        me: u16,
        target: u64,
        until: Until,
        mut guard: Held<'a>,
    ) -> (u64, Held<'a>) {
        self.actors()[me as usize].core.store(core(), Ordering::Relaxed);
        loop {
            self.engine(&guard, |e| {
                let a = &mut e.env.sim.actors.all[me as usize];
                if a.state == State::Dismissed {
                    return;
                }
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
            });
            let (clock, held) = self.finish(me, guard);
            let alarm = self.engine(&held, |e| e.env.sim.actors.all[me as usize].alarm);
            if alarm > clock {
                return (clock, held);
            }
            drop(held);
            if let Some(ring) = ON_ALARM.get() {
                ring();
            }
            guard = self.must_lock();
            // Time goes on, alarm or not.
            if clock >= target || !matches!(until, Until::Time) {
                return (clock, guard);
            }
        }
    }

    /// Executes events, and waits for others, until the wait of actor `me` has come to its end.
    fn finish<'a>(&'a self, me: u16, mut guard: Held<'a>) -> (u64, Held<'a>) {
        let mut still = Standstill::NEW;
        let mut sleeper = Sleeper::default();
        loop {
            let (outcome, those) = self.engine(&guard, |e| (e.run(me), e.env.sim.notify(me)));
            guard.wakes(those);
            if let Outcome::Done { clock, horizon } = outcome {
                HORIZON.set(horizon);
                return (clock, guard);
            }
            let (executed, alone, for_time, for_memory) = self.engine(&guard, |e| {
                let sim = &*e.env.sim;
                let a = &sim.actors.all[me as usize];
                // Nobody has come yet who could do something.
                let alone = outcome == Outcome::Idle && !sim.has_others(a.member);
                let (for_time, spins) = (a.target != FOREVER, a.step != 0 && !a.entries.get());
                (sim.executed, alone, for_time, spins && !for_time)
            });
            let actor = &self.actors()[me as usize];
            let seen = actor.word.load(Ordering::Acquire);
            drop(guard);
            let beside = match outcome {
                Outcome::Blocked(other) => {
                    self.actors()[other as usize].core.load(Ordering::Relaxed) != core()
                }
                _ => true,
            };
            let in_vain = wait(actor, seen, beside && other_core(), for_time);
            actor.core.store(core(), Ordering::Relaxed);
            if in_vain && self.has_gone_to_sleep(outcome, &mut sleeper) {
                guard = self.must_lock();
                continue;
            }
            if in_vain {
                self.stands_still(still.look(executed), alone);
            }
            guard = self.must_lock();
            if in_vain && for_memory && signal_pending() {
                // What spins on memory is found again, if the handler of that signal lets it.
                let clock = self.engine(&guard, |e| {
                    let a = &mut e.env.sim.actors.all[me as usize];
                    a.target = a.now();
                    a.arrive()
                });
                HORIZON.set(0);
                return (clock, guard);
            }
        }
    }

    /// Whether the thread that must move first sleeps in the kernel, and nobody here knows for what: for a mutex,
    /// say, that its program holds in a thread that waits for time to pass. It is taken to wait.
    #[cold]
    fn has_gone_to_sleep(&self, outcome: Outcome, sleeper: &mut Sleeper) -> bool {
        let Outcome::Blocked(other) = outcome else { return false };
        let guard = self.must_lock();
        let running = self.engine(&guard, |e| {
            let a = &e.env.sim.actors.all[other as usize];
            let runs = a.state == State::Running && !a.locking.load(Ordering::Relaxed);
            runs.then_some((a.pid, a.tid, a.now()))
        });
        drop(guard);
        let Some((pid, tid, now)) = running.filter(|&(pid, tid, _)| sleeper.sleeps_on(pid, tid)) else {
            return false;
        };
        let guard = self.must_lock();
        let those = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let a = &mut sim.actors.all[other as usize];
            let same = (a.pid, a.tid, a.now(), a.state) == (pid, tid, now, State::Running);
            same.then(|| {
                sim.actors.all[other as usize].set_aside();
                sim.notify(other)
            })
        });
        guard.wakes(those.unwrap_or_default());
        those.is_some()
    }

    /// If nothing has happened for long: says who waits for what, and ends after longer, unless it is `alone`: then
    /// somebody may still come.
    fn stands_still(&self, look: Look, alone: bool) {
        if look == Look::Moves || look == Look::TooLong && alone {
            return;
        }
        let guard = self.must_lock();
        let text = self.engine(&guard, |e| e.env.sim.describe());
        drop(guard);
        stall::tell(look, alone, &text);
    }

    /// The lock, for what a program cannot go on without.
    fn must_lock(&self) -> Held<'_> {
        self.locked().unwrap_or_else(|error| {
            // Nothing at the program's end shall wait for it again.
            ME.set(Me::NOBODY);
            LEFT.set(1);
            stall::cannot_go_on(&error)
        })
    }

    /// Makes a new net one of simulated time.
    pub(crate) fn start_simulation(
        &self,
        profile: &crate::profile::Profile,
        trace: Option<&std::path::Path>,
    ) {
        // SAFETY: nobody else has the segment yet.
        let sim = unsafe { &mut *sim(self.net()) };
        sim.profile = *profile;
        if let Some(path) = trace {
            sim.trace.start(path);
        }
        sim.on = true.into();
    }

    /// A process is gone: its clock holds nobody back, nothing is written to its memory.
    pub(crate) fn member_gone(&self, member: u16, patience: Duration) -> Result<(), LockError> {
        let guard = self.locked_within(patience)?;
        let those = self.engine(&guard, |e| {
            e.env.sim.forget_domain(member);
            e.env.sim.trace.flush();
            e.env.sim.leave(|a| a.member == member)
        });
        guard.wakes(those);
        self.segment().arm_deadline(now_ns());
        Ok(())
    }
}

/// This thread's number.
fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The program has called the library.
fn called() {
    CALLS.store(CALLS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// What to call when a wait has passed the program's alarm.
pub fn on_alarm(ring: fn()) {
    let _ = ON_ALARM.set(ring);
}
