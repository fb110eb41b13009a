//! Runs the cards of a segment, under its lock, until no work is left.
//!
//! A thread that finds the lock taken leaves its QP to the lock holder: see [`super::handoff`].
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::env::WallEnv;
use super::handoff::{self, Pending, Shared};
use super::queue::Work;
use super::routes::Routes;
use super::scratch::Scratch;
use crate::env::Env;
use crate::express::Express;
use crate::journal;
use crate::net::{Membership, Net};
use crate::packet::Payload;
use crate::repair::repair;
use crate::segment::{Guard, Kept, LockError, Segment};
use crate::wire::Transport;
use crate::world::World;

/// How long control operations wait for the lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// Turns of send queues (32 messages each, or a megabyte) that a lock holder runs. Without a limit, a process that
/// checked once would run all the cards for as long as others post, and every line of them would move between two cores.
const TURNS: u32 = 256;
/// QPs that a pending bit represents: bit n is QP n, n + 4096, ... of every card.
const PENDING_BITS: usize = crate::segment::layout::PENDING_WORDS * 64;

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

/// The pending bit of a QP.
#[inline]
fn pending_bit(qp: u16) -> usize {
    usize::from(qp) % PENDING_BITS
}

/// What one process needs to run the cards of a segment.
pub(crate) struct Runner<S: Borrow<Segment> = Segment> {
    membership: Membership<S>,
    pub(super) routes: Routes,
    /// Only with the lock, which at most one thread of a process has.
    pub(super) scratch: UnsafeCell<Scratch>,
}

// SAFETY: `scratch` is used under the segment's lock only, and so are the contents of `routes`; without it only their
// addresses and atomics are.
unsafe impl<S: Borrow<Segment> + Send> Send for Runner<S> {}
// SAFETY: as above.
unsafe impl<S: Borrow<Segment> + Sync> Sync for Runner<S> {}

impl<S: Borrow<Segment>> Runner<S> {
    pub fn new(membership: Membership<S>) -> Self {
        Runner { membership, routes: Routes::default(), scratch: UnsafeCell::default() }
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

    /// Runs a QP now, or leaves it to the lock holder.
    pub fn run_qp(&self, card: u8, qp: u16) {
        match self.segment().try_lock() {
            Some(guard) => self.run_queue(guard.keep(), card, qp, false),
            None => self.leave_pending(qp),
        }
    }

    /// Runs a QP, unless all that it had to send is `sent`, and then all other work.
    #[inline(never)]
    pub(super) fn run_queue(&self, lock: Kept, card: u8, qp: u16, sent: bool) {
        self.run(Guard::of(self.segment(), lock), |world, env| {
            if !sent {
                self.segment().write_journal(journal::one(card, qp.into()));
                env.run_send(world, card, qp);
            }
        });
    }

    #[cold]
    pub(super) fn leave_pending(&self, qp: u16) {
        handoff::leave_pending(self, pending_bit(qp));
    }

    /// Runs what others have left pending, if the lock is free.
    pub fn run_pending(&self) {
        handoff::run_pending(self);
    }

    /// After the segment's lock was held for something other than running the cards.
    pub fn check_pending(&self) {
        handoff::check_pending(self);
    }

    /// Runs the cards after `first`, then whatever is pending, and unlocks.
    #[inline]
    fn run<R>(&self, guard: Guard<'_>, first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R) -> R {
        let result = self.run_locked(&guard, first);
        handoff::unlock(self, guard);
        result
    }

    /// A control operation: waits for the lock.
    pub fn control<R>(&self, first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R) -> Result<R, LockError> {
        self.control_within(PATIENCE, first)
    }

    /// The same, but waits for the lock for at most `patience`.
    pub fn control_within<R>(
        &self,
        patience: Duration,
        first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R,
    ) -> Result<R, LockError> {
        let guard = self.segment().lock(patience)?;
        Ok(self.run(guard, |world, env| {
            env.forget_routes();
            first(world, env)
        }))
    }

    #[inline]
    fn run_locked<R>(&self, guard: &Guard<'_>, first: impl FnOnce(&mut World, &mut WallEnv<'_>) -> R) -> R {
        let net = self.net();
        let _tidy = Tidy(self.scratch.get());
        // SAFETY: the lock is held: no other thread or process uses the cards or our scratch.
        let (world, scratch) = unsafe { (&mut *net.world.get(), &mut *self.scratch.get()) };
        scratch.begin();
        let mut env = WallEnv::new(guard, net, scratch, &self.routes);
        if guard.recovered() {
            env.forget_routes();
            repair(guard, world, &mut env);
        }
        let result = first(world, &mut env);
        let mut turns = TURNS;
        loop {
            if env.has_work() {
                self.drain(world, &mut env, &mut turns);
            }
            // What is still pending then is checked after the unlock.
            if self.segment().pending().load(Ordering::Relaxed) == 0 || turns == 0 {
                break;
            }
            turns -= 1;
            self.take_pending(world, &mut env);
        }
        while let Some((card, qp)) = env.watched() {
            world.cards[card as usize].arm_if_waiting(qp as usize, &mut env);
        }
        env.end();
        self.segment().journal().store(0, Ordering::Relaxed);
        result
    }

    /// Does the work in the queue; once the turns are used up, send queues become pending.
    #[inline(never)]
    fn drain(&self, world: &mut World, env: &mut WallEnv<'_>, turns: &mut u32) {
        loop {
            while let Some(work) = env.next() {
                // SAFETY: the queue leaves the item alone until the next call of `next`.
                let work = unsafe { &*work };
                // What is being worked on, for crash recovery.
                match work {
                    Work::Packet(p) => {
                        self.segment().write_journal(journal::pair(p.dst.card, p.dest_qpn));
                        env.forget_routes();
                        env.carry(world, p);
                        if p.transport != Transport::RC {
                            self.segment().write_journal(journal::one(p.src.card, p.src_qpn));
                            world.left(p, env);
                        }
                        if let Payload::Stash(stash, _) = p.payload {
                            env.unstash(stash);
                        }
                    }
                    Work::Send { card, qp } => {
                        let device = &world.cards[*card as usize];
                        // Not in the middle of a message: its packets may be unacknowledged, and their timer runs.
                        let between = device.qps[*qp as usize].req.cur_offset == 0;
                        if *turns == 0 && between && device.has_work((*qp).into(), env) {
                            self.pending().leave(pending_bit(*qp));
                            continue;
                        }
                        *turns = turns.saturating_sub(1);
                        self.segment().write_journal(journal::one(*card, (*qp).into()));
                        env.run_send(world, *card, *qp);
                    }
                }
            }
            if !env.release(world) {
                break;
            }
        }
    }

    /// Turns the pending bits into work.
    #[cold]
    fn take_pending(&self, world: &mut World, env: &mut WallEnv<'_>) {
        self.pending().take(|first| {
            for card in 0..world.count() {
                let device = &world.cards[card as usize];
                for qp in device.qps_from(first).step_by(PENDING_BITS) {
                    if device.has_work(qp, env) {
                        env.send_later(card, qp as u16);
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
    fn pending(&self) -> Pending<'_> {
        Pending { summary: self.segment().pending(), words: self.segment().pending_words() }
    }

    fn work(&self, guard: &Guard<'_>) {
        self.run_locked(guard, |_, _| ());
    }
}
