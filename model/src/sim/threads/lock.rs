//! The segment's lock in simulated time, and the threads to wake after the unlock.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::places::{Me, LEFT, ME};
use super::wait::other_core;
use super::Threads;
use crate::net::Net;
use crate::repair::repair;
use crate::segment::{now_ns, Guard, LockError, Segment};
use crate::sim::control::ControlEnv;
use crate::sim::engine::Engine;
use crate::sim::env::{SimEnv, Step};
use crate::sim::programs::actor::Actor;
use crate::sim::programs::actor_set::ActorSet;
use crate::sim::programs::stall::{self, patience};
use crate::sim::state::Sim;
use crate::world::World;

/// Longest time that an operation waits for the lock.
const PATIENCE: Duration = Duration::from_secs(20);
/// Tries to get the lock before a thread sleeps for it, where there is another core.
const TRIES: u32 = 500;

/// Ends the program, which cannot go on without the simulation.
pub fn give_up(why: &dyn std::fmt::Display) -> ! {
    // Nothing at the program's end shall wait for it again.
    ME.set(Me::NOBODY);
    LEFT.set(1);
    stall::cannot_continue(why)
}

/// The lock, and with it the simulation.
pub(crate) struct Held<'a> {
    // Dropped before `waking`.
    guard: Guard<'a>,
    waking: Waking<'a>,
    step: &'a UnsafeCell<Step>,
}

/// Threads that should check again. They are woken after the unlock: earlier, they would find the lock taken, and on
/// one core displace its holder.
struct Waking<'a> {
    actors: ActorSet,
    net: &'a Net,
}

/// Drops what a step has left that ends by a panic, as if the process had died: others repair the simulation.
struct Tidy(*mut Step);

impl Drop for Tidy {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: made by the lock holder, which does not use the step after this.
        unsafe { *self.0 = Step::default() };
    }
}

impl Held<'_> {
    /// Works with the whole simulation.
    pub fn engine<R>(&mut self, work: impl FnOnce(&mut Engine<'_>) -> R) -> R {
        let net = self.waking.net;
        // SAFETY: the lock is held, and `self` is borrowed: no other thread or process uses the cards or the simulation.
        let (world, sim) = unsafe { (&mut *net.world.get(), &mut *net.sim.get()) };
        let tidy = Tidy(self.step.get());
        // SAFETY: as above, for the step; after a panic `tidy` uses it when the engine is gone.
        let step = unsafe { &mut *tidy.0 };
        let env = SimEnv { sim, bells: &net.bells, guard: &self.guard, step };
        let mut engine = Engine { world, env, interrupts: &net.interrupts, link: &net.link };
        let result = work(&mut engine);
        engine.end_link();
        std::mem::forget(tidy);
        result
    }

    /// The simulation without the cards.
    #[inline]
    pub fn sim(&mut self) -> &mut Sim {
        // SAFETY: as in `engine`.
        unsafe { &mut *self.waking.net.sim.get() }
    }

    /// The cards without the simulation.
    pub fn world(&self) -> &World {
        // SAFETY: as in `engine`.
        unsafe { &*self.waking.net.world.get() }
    }

    /// An actor.
    #[inline]
    pub fn actor(&mut self, place: u16) -> &mut Actor {
        &mut self.sim().actors.all[place as usize]
    }

    /// A control operation, at the simulation's time.
    pub fn control<R>(&mut self, work: impl FnOnce(&mut World, &mut ControlEnv<'_, '_>) -> R) -> R {
        let result = self.engine(|e| e.control(work));
        self.guard.segment().journal().store(0, Ordering::Relaxed);
        result
    }

    /// Wakes these too.
    #[inline]
    pub fn wakes(&mut self, actors: ActorSet) {
        self.waking.actors = self.waking.actors.and(actors);
    }

    /// Actor `place` has moved, blocked or left: wakes those that waited for that.
    #[inline]
    pub fn notify(&mut self, place: u16) {
        let actors = self.sim().notify(place);
        self.wakes(actors);
    }

    /// If every program waits: executes what happens meanwhile, and leaves the rest to the keeper.
    pub fn run_if_all_wait(&mut self) {
        if !self.sim().all_wait() {
            return;
        }
        if let Some(at) = self.engine(|e| e.idle(now_ns())) {
            self.guard.segment().arm_deadline(at);
        }
    }
}

impl<'a> Deref for Held<'a> {
    type Target = Guard<'a>;

    #[inline]
    fn deref(&self) -> &Guard<'a> {
        &self.guard
    }
}

impl Drop for Waking<'_> {
    #[inline]
    fn drop(&mut self) {
        for actor in self.actors.each() {
            // SAFETY: only atomics of it are used without the lock.
            unsafe { (*self.net.sim.get()).actors.all[actor as usize].bump() };
        }
    }
}

impl<S: Borrow<Segment>> Threads<S> {
    pub(super) fn locked(&self) -> Result<Held<'_>, LockError> {
        // Waiting with a time-out reads the clock, which is a trap in a program whose clock is virtual.
        let guard = match self.segment().try_lock() {
            Some(guard) => guard,
            None => self.wait_for_lock()?,
        };
        Ok(self.held(guard))
    }

    /// The same, but waits for the lock for at most `patience`.
    pub(super) fn locked_within(&self, patience: Duration) -> Result<Held<'_>, LockError> {
        Ok(self.held(self.segment().lock(patience)?))
    }

    /// The lock, for what a program cannot continue without.
    pub(super) fn must_lock(&self) -> Held<'_> {
        self.locked().unwrap_or_else(|error| give_up(&error))
    }

    fn held<'a>(&'a self, guard: Guard<'a>) -> Held<'a> {
        let waking = Waking { actors: ActorSet::default(), net: self.net() };
        let mut held = Held { guard, waking, step: &self.step };
        if held.recovered() {
            held.repair();
        }
        held
    }

    #[cold]
    fn wait_for_lock(&self) -> Result<Guard<'_>, LockError> {
        for _ in 0..if other_core() { TRIES } else { 0 } {
            std::hint::spin_loop();
            // Trying takes the line from the holder, which needs it to unlock.
            if self.segment().seems_locked() {
                continue;
            }
            if let Some(guard) = self.segment().try_lock() {
                return Ok(guard);
            }
        }
        self.held_up(|| self.segment().lock(patience().min(PATIENCE)))
    }

    /// Lets this thread sleep for something of this library's own, which comes whatever simulated time is: however long
    /// the machine takes, it is not assumed to be waiting.
    pub(super) fn held_up<R>(&self, sleeps: impl FnOnce() -> R) -> R {
        let tell = |on| {
            if let Some(me) = self.place() {
                self.actor(me).held_up.store(on, Ordering::Relaxed);
            }
        };
        tell(1);
        let result = sleeps();
        tell(0);
        result
    }
}

impl Held<'_> {
    /// A process died while it ran the simulation: the cards are repaired, and packets in flight are lost. What the cards
    /// have written is not: a completion queue without one of its entries would end there.
    #[cold]
    fn repair(&mut self) {
        // A second failure from here on condemns the cards.
        self.recovery_begins();
        self.engine(|e| e.env.apply_all());
        self.sim().reset();
        self.engine(|e| e.control(|world, env| repair(env.env.guard, world, env)));
    }
}
