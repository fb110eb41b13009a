//! Running the cards of a segment: under the lock, to completion, by whoever has work.
//!
//! Who finds the lock busy leaves its QP to the holder: see [`super::handoff`].
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::sync::atomic::{compiler_fence, AtomicU32, Ordering};
use std::time::Duration;

use super::env::{Left, Scratch, Wall};
use super::handoff::{self, Notes, Shared};
use super::routes::Routes;
use crate::env::{Env, Work};
use crate::express::Express;
use crate::journal;
use crate::net::Net;
use crate::packet::{Payload, Transport};
use crate::segment::{Guard, Kept, LockError, Segment};
use crate::sim::env::Step;
use crate::world::World;

/// How long control operations wait for the lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// Turns of send queues (32 messages each, or a megabyte) that a holder of the lock runs. As long as others post, there
/// is something left each time, and a process that only looked in would run all the cards from then on, with every line
/// of them on its way between two cores.
const TURNS: u32 = 256;
/// QPs that a pending bit stands for: bit n is QP n, n + 4096, ... of every card.
const PENDING_BITS: usize = crate::segment::layout::PENDING_WORDS * 64;

/// Tidies up behind a run that ends by a panic.
struct Tidy(*mut Scratch);

impl Drop for Tidy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // SAFETY: made by the run, which has the lock and does not use the scratch after this.
            unsafe { (*self.0).forget() };
        }
    }
}

/// The pending bit of a QP.
#[inline]
fn pending_bit(qp: u16) -> usize {
    usize::from(qp) % PENDING_BITS
}

/// One process's attachment to a segment.
pub(crate) struct Runner<S: Borrow<Segment>> {
    segment: S,
    /// Its own in this process, and not 0: threads have a place in the simulated time of one of them.
    pub(crate) number: u32,
    pub(super) routes: Routes,
    /// Only with the lock, which one thread of a process has at most.
    pub(crate) scratch: UnsafeCell<Scratch>,
    /// The same, for simulated time.
    step: UnsafeCell<Step>,
}

// SAFETY: `scratch` and `step` are used under the segment's lock only, and so are the contents of `routes`; without it only
// their addresses and atomics are.
unsafe impl<S: Borrow<Segment> + Send> Send for Runner<S> {}
// SAFETY: as above.
unsafe impl<S: Borrow<Segment> + Sync> Sync for Runner<S> {}

impl<S: Borrow<Segment>> Runner<S> {
    pub fn new(segment: S) -> Self {
        assert!(
            segment.borrow().world_bytes() as usize >= size_of::<Net>(),
            "the segment was made by another version"
        );
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        Runner {
            segment,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            routes: Routes::default(),
            scratch: UnsafeCell::default(),
            step: UnsafeCell::default(),
        }
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &Segment {
        self.segment.borrow()
    }

    /// The cards' area.
    #[inline]
    pub fn net(&self) -> &Net {
        net(self.segment())
    }

    /// Runs a QP now, or leaves it to whoever runs the cards.
    pub fn kick(&self, card: u8, qp: u16) {
        match self.segment().try_lock() {
            Some(guard) => self.run_queue(guard.keep(), card, qp, false),
            None => self.leave_pending(qp),
        }
    }

    /// Runs a QP, if not all that it had to send is `sent`, and whatever else there is to do.
    #[inline(never)]
    pub(crate) fn run_queue(&self, lock: Kept, card: u8, qp: u16, sent: bool) {
        self.run(Guard::of(self.segment(), lock), |world, env| {
            if !sent {
                note(self.segment(), journal::one(card, qp.into()));
                env.run_send(world, card, qp);
            }
        });
    }

    #[cold]
    pub(crate) fn leave_pending(&self, qp: u16) {
        handoff::leave(self, pending_bit(qp));
    }

    /// Runs what others have left pending, if nobody does.
    pub fn help(&self) {
        handoff::help(self);
    }

    /// Wakes all who wait for an interrupt, as the cards raise none any more: they see for themselves.
    #[cold]
    pub fn tell_all(&self) {
        for word in self.net().interrupts.as_flattened().as_flattened() {
            word.fetch_add(1, Ordering::Release);
            crate::segment::futex_wake(word, u32::MAX >> 1);
        }
    }

    /// After the segment's lock was held for something else than running the cards.
    pub fn look(&self) {
        handoff::look(self);
    }

    /// Runs the cards after `first`, then whatever is pending, and unlocks.
    #[inline]
    fn run<R>(&self, guard: Guard<'_>, first: impl FnOnce(&mut World, &mut Wall<'_>) -> R) -> R {
        let result = self.run_locked(&guard, first);
        handoff::unlock(self, guard);
        result
    }

    /// What a step of the simulation leaves.
    ///
    /// # Safety
    /// With the segment's lock, and once at a time.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn step(&self) -> &mut Step {
        // SAFETY: as the caller promises.
        unsafe { &mut *self.step.get() }
    }

    /// A control operation: waits for the lock.
    pub fn control<R>(&self, first: impl FnOnce(&mut World, &mut Wall<'_>) -> R) -> Result<R, LockError> {
        self.control_within(PATIENCE, first)
    }

    /// The same with another patience.
    pub fn control_within<R>(
        &self,
        patience: Duration,
        first: impl FnOnce(&mut World, &mut Wall<'_>) -> R,
    ) -> Result<R, LockError> {
        let guard = self.segment().lock(patience)?;
        Ok(self.run(guard, |world, env| {
            env.forget_routes();
            first(world, env)
        }))
    }

    #[inline]
    pub(crate) fn run_locked<R>(
        &self,
        guard: &Guard<'_>,
        first: impl FnOnce(&mut World, &mut Wall<'_>) -> R,
    ) -> R {
        let net = self.net();
        let _tidy = Tidy(self.scratch.get());
        // SAFETY: the lock is held: no other thread or process uses the cards or our scratch.
        let (world, scratch) = unsafe { (&mut *net.world.get(), &mut *self.scratch.get()) };
        scratch.begin();
        let mut env = Wall::new(guard, net, scratch, &self.routes);
        if guard.recovered() {
            recover(guard, world, &mut env);
        }
        let result = first(world, &mut env);
        if self.simulated() {
            let left = env.into_work();
            self.absorb(guard, left);
            self.segment().journal().store(0, Ordering::Relaxed);
            return result;
        }
        let mut turns = TURNS;
        loop {
            if env.has_work() {
                self.drain(world, &mut env, &mut turns);
            }
            // What is still pending after so long is looked at after unlocking.
            if self.segment().pending().load(Ordering::Relaxed) == 0 || turns == 0 {
                break;
            }
            turns -= 1;
            self.take_pending(world, &mut env);
        }
        if env.has_watched() {
            world.end_run(&mut env);
        }
        if env.linked() {
            env.end_link();
        }
        env.end();
        self.segment().journal().store(0, Ordering::Relaxed);
        result
    }

    /// What a control operation left to do becomes part of the simulation.
    #[cold]
    fn absorb(&self, guard: &Guard<'_>, (work, watched): Left) {
        self.engine(guard, |engine| {
            for work in work {
                Env::push(&mut engine.env, work);
            }
            engine.env.step.watched.extend(watched);
            engine.settle();
        });
    }

    /// A process died while it ran the simulation: the cards are made whole, what was under way is lost.
    #[cold]
    pub(crate) fn recover_simulated(&self, guard: &Guard<'_>) {
        self.engine(guard, |engine| engine.env.sim.reset());
        self.run_locked(guard, |_, _| ());
    }

    /// Does the work that there is; when the turns are over, send queues become notes.
    #[inline(never)]
    fn drain(&self, world: &mut World, env: &mut Wall<'_>, turns: &mut u32) {
        loop {
            while let Some(work) = env.next() {
                // SAFETY: the queue leaves the item alone until the next call of `next`.
                let work = unsafe { &*work };
                // What is being worked on, for whoever finds us dead.
                match work {
                    Work::Packet(p) => {
                        note(self.segment(), journal::pair(p.dst.card, p.dest_qpn));
                        env.forget_routes();
                        if env.linked() {
                            env.carry(world, p);
                        } else {
                            world.deliver(p, true, env);
                        }
                        if p.transport != Transport::Rc {
                            note(self.segment(), journal::one(p.src.card, p.src_qpn));
                            world.left(p, env);
                        }
                        if let Payload::Stash(stash, _) = p.payload {
                            env.unstash(stash);
                        }
                    }
                    Work::Send { card, qp } => {
                        let device = &world.cards[*card as usize];
                        // Not in the middle of a message: what is sent of it may not be acknowledged yet, and its time
                        // runs.
                        let between = device.qps[*qp as usize].req.cur_offset == 0;
                        if *turns == 0 && between && device.has_work((*qp).into(), env) {
                            self.notes().leave(pending_bit(*qp));
                            continue;
                        }
                        *turns = turns.saturating_sub(1);
                        note(self.segment(), journal::one(*card, (*qp).into()));
                        env.run_send(world, *card, *qp);
                    }
                }
            }
            if !env.linked() || !env.release(world) {
                break;
            }
        }
    }

    /// Turns the pending bits into work.
    #[cold]
    fn take_pending(&self, world: &mut World, env: &mut Wall<'_>) {
        self.notes().take(|first| {
            for card in 0..world.count() {
                let device = &world.cards[card as usize];
                for qp in device.qps_from(first).step_by(PENDING_BITS) {
                    if device.has_work(qp, env) {
                        env.push(Work::Send { card, qp: qp as u16 });
                    }
                }
            }
        });
    }
}

impl<S: Borrow<Segment>> Shared for Runner<S> {
    type Guard<'a>
        = Guard<'a>
    where
        S: 'a;

    #[inline]
    fn try_lock(&self) -> Option<Guard<'_>> {
        self.segment().try_lock()
    }

    #[inline]
    fn notes(&self) -> Notes<'_> {
        Notes { summary: self.segment().pending(), words: self.segment().pending_words() }
    }

    fn work(&self, guard: &Guard<'_>) {
        self.run_locked(guard, |_, _| ());
    }
}

/// Something is about to be changed.
#[inline(always)]
pub(crate) fn note(segment: &Segment, word: u64) {
    segment.journal().store(word, Ordering::Relaxed);
    // What is changed after this is changed after this, for whoever finds us dead.
    compiler_fence(Ordering::SeqCst);
}

/// The cards' area of a segment.
pub(crate) fn net(segment: &Segment) -> &Net {
    // SAFETY: the area has the size of `Net` (checked by `Runner::new`), is page aligned, and lives as long as the segment.
    // Whatever others have written there, also beside the lock, are values of it (see `is_plain` in `net.rs`; not so of the
    // simulation's events and packets). What is changed without the lock is atomic.
    unsafe { &*segment.world_ptr().cast::<Net>() }
}

/// A process died while it ran the cards: queues and derived lists are made whole, the QP under work
/// goes to error.
#[cold]
fn recover(guard: &Guard<'_>, world: &mut World, env: &mut Wall<'_>) {
    guard.recovery_begins();
    env.forget_routes();
    // First, as what follows relies on the lists and the queues.
    for card in 0..world.count() as usize {
        world.cards[card].rebuild_timers(env);
        world.cards[card].recover_queues(env);
    }
    let entry = guard.segment().journal().load(Ordering::Relaxed);
    if let Some((card, qpn, pair)) = journal::read(entry).filter(|(card, ..)| *card < world.count()) {
        let peer = world.cards[card as usize].recover_qp((qpn & 0xffff) as usize, env);
        // A packet may have been acknowledged within the same step.
        if let Some((port, qpn)) = peer.filter(|(port, _)| pair && port.card < world.count()) {
            let card = &mut world.cards[port.card as usize];
            if let Some(q) = card.find_qp(qpn) {
                card.recover_qp(q, env);
            }
        }
    }
    for card in 0..world.count() as usize {
        world.cards[card].recover_sends(env);
    }
    guard.segment().journal().store(0, Ordering::Relaxed);
    guard.recovery_done();
}
