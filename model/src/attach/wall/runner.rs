//! Runs the cards: an island or, where that is not enough, all of them, until no work is left.
//!
//! A thread runs only queue pairs of which its process has one end. One that finds another thread in its way tries for
//! a while, and leaves its queue pair to the threads of its own process then: see [`Runner::run_pending`].
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fpga_regs::CqArm;

use super::env::WallEnv;
use super::pending::Pending;
use super::routes::Routes;
use super::scratch::{Again, Scratch};
use crate::device::tables::{Cq, MAX_CQS};
use crate::env::Env;
use crate::express::Express;
use crate::journal;
use crate::net::{Membership, Net};
use crate::repair::{repair, repair_islands};
use crate::segment::{now_ns, Entry, Guard, Island, LockError, Reach, Segment, ISLANDS};
use crate::world::World;

/// How long control operations wait for the lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long arming a CQ waits for the island, or all the cards: nobody would tell the program that it failed.
const ARMING: Duration = Duration::from_secs(60);
/// Tries before a queue pair is left pending. Most of them yield the core, which the thread in the way may need.
const TRIES: u32 = 256;
/// The first wait for a thread in the way, in pauses of the processor: longer than a short message takes.
const MOMENT: u32 = 16;
/// The second one (ns), and how often it is doubled before the waits yield. Queue pairs of one island that all post
/// without end so take turns of some hundred messages; in turns of a few, most messages would wait for the cache lines
/// that the other core has just written.
const TURN: u64 = 10_000;
const DOUBLED: u32 = 3;

/// Waits for a thread in the way, the `tries`th time.
#[cold]
pub(super) fn make_way(tries: u32) {
    match tries {
        0 => (0..MOMENT).for_each(|_| std::hint::spin_loop()),
        1..=DOUBLED => {
            let turn = TURN << (tries - 1);
            let until = now_ns() + turn;
            // A pause takes 10 ns on some processors and 40 ns on others.
            let moments = turn / (10 * u64::from(MOMENT));
            (0..moments).take_while(|_| now_ns() < until).for_each(|_| make_way(0));
        }
        _ => std::thread::yield_now(),
    }
}

/// Tidies up after a run that ends by a panic.
struct Tidy(*mut Scratch);

impl Drop for Tidy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // SAFETY: made by the run, which has the lock and does not use the scratch after this.
            unsafe { (*self.0).forget() };
        }
    }
}

/// What one process needs to run the cards of a segment.
pub(crate) struct Runner<S: Borrow<Segment> = Segment> {
    membership: Membership<S>,
    pub(super) routes: Routes,
    /// By island; the holder of its lock alone uses it.
    scratch: [OnceLock<Box<UnsafeCell<Scratch>>>; ISLANDS],
    /// Queue pairs of this process that could not be run when they had to be.
    pending: Pending,
    /// Queue pairs of this process with messages that wait for others to leave with.
    gathering: Pending,
}

// SAFETY: `scratch` and the contents of `routes` are used with the lock of their island only; without it only their
// addresses and atomics are.
unsafe impl<S: Borrow<Segment> + Send> Send for Runner<S> {}
// SAFETY: as above.
unsafe impl<S: Borrow<Segment> + Sync> Sync for Runner<S> {}

impl<S: Borrow<Segment>> Runner<S> {
    pub fn new(membership: Membership<S>) -> Self {
        Runner {
            membership,
            routes: Routes::default(),
            scratch: [const { OnceLock::new() }; ISLANDS],
            pending: Pending::default(),
            gathering: Pending::default(),
        }
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &Segment {
        self.membership.segment()
    }

    /// The cards' area.
    #[inline]
    pub fn net(&self) -> &Net {
        self.membership.net()
    }

    /// Where the runs of an island keep what they need.
    #[inline(always)]
    pub(super) fn scratch(&self, island: u16) -> *mut Scratch {
        self.scratch[usize::from(island) % ISLANDS].get_or_init(Box::default).get()
    }

    /// Runs a QP. False: others were in the way all the time, and it is pending.
    pub fn run_qp(&self, card: u16, qp: u16) -> bool {
        self.run_or_leave(Again { card, qp, all: false })
    }

    fn run_or_leave(&self, next: Again) -> bool {
        self.insist(next).is_some_and(|more| self.run_again(more))
    }

    /// Runs QPs, and what that leads to. False: one of them is pending.
    pub(super) fn run_again(&self, mut again: Vec<Again>) -> bool {
        let mut done = true;
        while let Some(next) = again.pop() {
            match self.insist(next) {
                Some(more) => again.extend(more),
                None => done = false,
            }
        }
        done
    }

    /// `None`: another thread was in the way all the time, and the QP is pending.
    fn insist(&self, next: Again) -> Option<Vec<Again>> {
        for tries in 0..TRIES {
            if let Some(more) = self.try_run(next) {
                return Some(more);
            }
            if tries == 1 && self.segment().islands_are_old() {
                self.find_islands_anew();
            }
            make_way(tries);
        }
        self.pending.push(next);
        None
    }

    /// Makes all labels void, unless others are in the way: what still hangs together joins again.
    #[cold]
    fn find_islands_anew(&self) {
        if let Some(guard) = self.segment().try_lock() {
            self.run_all(guard, |world, _| world.void_islands());
        }
    }

    /// `None`: another thread is in the way.
    fn try_run(&self, next: Again) -> Option<Vec<Again>> {
        match self.enter(next) {
            Entry::Entered(island) => Some(self.run_island(island, next.card, next.qp, false)),
            Entry::Busy => None,
            Entry::Closed => self.segment().try_lock().map(|guard| self.run_with_all(guard, next)),
        }
    }

    /// Enters the island of a QP, unless that needs all the cards.
    pub(super) fn enter(&self, Again { card, qp, all }: Again) -> Entry<'_> {
        let bells = self.bells(card, qp);
        let label = bells.label();
        match if all { Entry::Closed } else { self.segment().enter(label) } {
            // It has become another island's meanwhile.
            Entry::Entered(_) if bells.label() != label => Entry::Busy,
            entry => entry,
        }
    }

    /// Runs a QP of an island, unless all that it had to send is `sent`, and then all other work. Gives the QPs to be
    /// run again.
    #[inline(never)]
    fn run_island(&self, island: Island<'_>, card: u16, qp: u16, sent: bool) -> Vec<Again> {
        self.run(&island, |world, env| {
            if !sent {
                env.note(journal::one(card, qp.into()));
                env.run_send(world, card, qp);
            }
            env.finish(world)
        })
    }

    /// As [`run_island`](Self::run_island), for a doorbell. False: a QP is pending.
    #[inline(never)]
    pub(super) fn finish_island(&self, island: Island<'_>, card: u16, qp: u16, sent: bool) -> bool {
        if !sent && self.run(&island, |world, env| world.cards[usize::from(card)].gathers(qp.into(), env)) {
            drop(island);
            self.gathering.push(Again { card, qp, all: false });
            return true;
        }
        self.run_again(self.run_island(island, card, qp, sent))
    }

    /// Sends what waits for more messages to leave with: this process has none for now.
    #[inline]
    pub fn send_gathered(&self) {
        for _ in 0..self.gathering.len() {
            if let Some(next) = self.gathering.pop() {
                self.run_or_leave(next);
            }
        }
    }

    /// Runs a QP with all the cards, and, if it needs them, what was left of the CQs that were overrun.
    fn run_with_all(&self, guard: Guard<'_>, Again { card, qp, all }: Again) -> Vec<Again> {
        self.run_all(guard, |world, env| {
            if all {
                world.cards[card as usize].end_cqs_of(qp.into(), env);
            }
            env.note(journal::one(card, qp.into()));
            env.run_send(world, card, qp);
        });
        // With all the cards nothing is left.
        Vec::new()
    }

    /// Does something with all the cards, and then all other work.
    pub(super) fn run_all<R>(
        &self,
        guard: Guard<'_>,
        first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R,
    ) -> R {
        self.run(&guard, |world, env| {
            if guard.has_dead_islands() || guard.recovered() {
                env.forget_routes();
                self.net().atomics.reset();
                repair_islands(&guard, world, env);
                if guard.recovered() {
                    repair(&guard, world, env);
                    env.wake_outside(world);
                }
            }
            let result = first(world, env);
            self.follow_links(world, env);
            env.finish(world);
            self.follow_links(world, env);
            if world.islands_are_void() {
                guard.void_islands();
                world.find_islands_anew();
            }
            result
        })
    }

    /// If links have changed, those at the other ends of cables follow, and packets travel as that asks for.
    fn follow_links(&self, world: &mut World, env: &mut WallEnv<'_>) {
        if world.take_links_changed() {
            env.forget_routes();
            world.follow_peers(env);
            self.net().link.follow(world);
            env.give_roles(world);
            env.mode = self.net().link.mode();
        }
    }

    /// Arms a CQ of function `f`, which changes nothing that routes go by.
    #[cold]
    pub fn arm(&self, card: u16, f: u16, arm: CqArm) -> Result<(), LockError> {
        let work = |world: &mut World, env: &mut WallEnv<'_>| {
            let device = &mut world.cards[card as usize];
            device.arm_cq(f, arm.cqn(), arm.solicited_only(), arm.index(), env);
            env.finish(world);
        };
        let label = || {
            // SAFETY: the label is read as it may change at any time, and checked again once its island is entered.
            let cq = unsafe { &raw const (*self.net().world.get()).cards[card as usize].cqs };
            let place = cq.cast::<Cq>().wrapping_add(arm.cqn() as usize % MAX_CQS);
            // SAFETY: as above; within the table.
            unsafe { (&raw const (*place).island).read_volatile() }
        };
        let until = Instant::now() + ARMING;
        for tries in 0.. {
            let before = label();
            match self.segment().enter(before) {
                Entry::Entered(island) if label() == before => {
                    self.run(&island, work);
                    return Ok(());
                }
                Entry::Entered(_) => {}
                Entry::Busy if tries < TRIES => make_way(tries),
                Entry::Busy if Instant::now() < until => self.segment().wait_outside(before, PATIENCE),
                Entry::Busy | Entry::Closed => break,
            }
        }
        let guard = self.segment().lock(ARMING)?;
        self.run_all(guard, work);
        Ok(())
    }

    /// A control operation: waits for the cards.
    pub fn control<R>(&self, first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R) -> Result<R, LockError> {
        self.control_within(PATIENCE, first)
    }

    /// The same, but waits for at most `patience`.
    pub fn control_within<R>(
        &self,
        patience: Duration,
        first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R,
    ) -> Result<R, LockError> {
        let guard = self.segment().lock(patience)?;
        Ok(self.run_all(guard, |world, env| {
            env.forget_routes();
            first(world, env)
        }))
    }

    /// With a lock, and its part of the cards.
    #[inline]
    pub(super) fn run<R>(
        &self,
        reach: &Reach<'_>,
        work: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R,
    ) -> R {
        let net = self.net();
        let scratch = self.scratch(reach.island());
        let _tidy = Tidy(scratch);
        // SAFETY: the lock is held: no other thread or process uses this part of the cards, or our scratch.
        let (world, scratch) = unsafe { (&mut *net.world.get(), &mut *scratch) };
        scratch.begin();
        let mut env = WallEnv::new(reach, net, scratch, &self.routes);
        let result = work(world, &mut env);
        reach.control().close_journal();
        result
    }

    /// Whether queue pairs of this process are pending.
    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Runs what is pending, as far as nobody is in the way.
    #[cold]
    pub fn run_pending(&self) {
        for _ in 0..self.pending.len() {
            if let Some(next) = self.pending.pop() {
                self.run_or_leave(next);
            }
        }
    }

    /// The same, but waits for those in the way, for at most `patience` in all: who waited in vain is the last one next time.
    #[cold]
    pub fn run_pending_within(&self, patience: Duration) {
        let until = Instant::now() + patience;
        for _ in 0..self.pending.len() {
            let Some(next) = self.pending.pop() else { return };
            match self.run_within(next, until) {
                Some(more) => drop(self.run_again(more)),
                None => {
                    self.pending.push(next);
                    // It looks whether the holder exists.
                    self.segment().wake_keeper();
                }
            }
        }
    }

    /// `None`: others were in the way `until` then. Who waits for an island does not stop the others.
    fn run_within(&self, next: Again, until: Instant) -> Option<Vec<Again>> {
        loop {
            let entry = self.enter(next);
            let left = until.saturating_duration_since(Instant::now());
            match entry {
                Entry::Entered(island) => return Some(self.run_island(island, next.card, next.qp, false)),
                Entry::Busy if left.is_zero() => return None,
                Entry::Busy => self.segment().wait_outside(self.bells(next.card, next.qp).label(), left),
                Entry::Closed => {
                    let guard = self.segment().lock(left).ok()?;
                    return Some(self.run_with_all(guard, next));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
