//! The lock of all the cards of a segment: a robust lock shared by processes.
//!
//! Its holder stops the [islands](super::island) first. The kernel releases it when its holder dies; the next one to
//! take it is told so and the cards are repaired before anything else happens to them.
#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::extents::Extents;
use super::reach::Reach;
use super::robust::{Held, Refused, Taken};
use super::{now_ns, Segment};
use crate::here::Here;

/// In place of the number of an island: all the cards.
pub const ALL: u16 = 0;
/// How long a thread that does not want to wait does so for those within islands (ns): longer than they take for
/// a message.
const A_MOMENT: u64 = 200_000;
/// How long a thread that waits for those within islands keeps the gate closed (ns), and how many times as long it is open then: others
/// go on in their islands while a thread is stopped in one. It is closed for twice as long each time, up to the longest: one
/// that enters its island again and again is not caught outside before that is longer than it stays.
const CLOSED: u64 = 10_000_000;
const LONGEST_CLOSED: u64 = 16 * CLOSED;
const OPEN_FACTOR: u64 = 4;

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another thread kept it too long.
    #[error("the card's lock was held for {waited:?} by process {pid} (thread {tid}); is it stopped or in a debugger?")]
    TimedOut {
        /// Process of the holder (0: it has just gone).
        pid: u32,
        /// Thread of the holder.
        tid: u32,
        /// How long this call waited.
        waited: Duration,
    },
    /// Repairing the cards failed.
    #[error(
        "the cards of this net are damaged beyond repair: some program of it has written over their memory; end all its programs and start them again"
    )]
    Condemned,
    /// This thread holds it already.
    #[error("this thread holds the card's lock already")]
    Recursive,
    /// This process is a forked child.
    #[error("this process was forked from one that had the card open; open the device again after fork")]
    Detached,
    /// This system cannot tell when the holder of a lock dies.
    #[error("the card's lock needs robust futexes: {0}")]
    Unsupported(io::Error),
}

impl Segment {
    /// Fetches the line of the lock, which will soon be taken, while the caller does something else.
    #[inline]
    pub fn expect_lock(&self, island: u16) {
        Here::new((&raw const self.control(island).lock).cast_mut().cast()).prefetch_for_write();
    }

    /// Takes the lock if it is free and no island is entered for longer than a moment. `None` also in a forked child.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        if self.is_detached() {
            return None;
        }
        let (held, died) = match self.control(ALL).lock.try_take() {
            Taken::Free(held) => (held, false),
            Taken::FromDead(held) => (held, true),
            Taken::Busy => return None,
        };
        self.stop(held, died, A_MOMENT).ok()
    }

    /// Whether the cards are damaged, so that no thread gets the lock any more.
    #[inline]
    pub fn is_condemned(&self) -> bool {
        self.control(ALL).lock.is_condemned()
    }

    /// Whether a thread holds the lock now. Only reads the word.
    #[inline]
    pub fn seems_locked(&self) -> bool {
        self.control(ALL).lock.holder() != 0
    }

    /// Takes the lock, waiting for at most `timeout`.
    pub fn lock(&self, timeout: Duration) -> Result<Guard<'_>, LockError> {
        if self.is_detached() {
            return Err(LockError::Detached);
        }
        let timed_out = |tid| LockError::TimedOut { pid: process_of(tid), tid, waited: timeout };
        match self.control(ALL).lock.take(timeout) {
            Ok((held, died)) => {
                let patience = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
                self.stop(held, died, patience).map_err(timed_out)
            }
            Err(Refused::TimedOut) => Err(timed_out(self.control(ALL).lock.holder())),
            Err(Refused::Condemned) => Err(LockError::Condemned),
            Err(Refused::Recursive) => Err(LockError::Recursive),
            Err(Refused::Unsupported(error)) => Err(LockError::Unsupported(error)),
        }
    }

    /// The lock is taken: closes the gate, and waits until no island is entered. The thread that stays in one for
    /// longer than `patience` (ns) is the error. Without islands nobody asks for the gate.
    #[inline]
    fn stop(&self, held: Held, died: bool, patience: u64) -> Result<Guard<'_>, u32> {
        let mut dead = false;
        // The clock is read by those who wait only: it may be a virtual one.
        let (mut until, mut closed) = (None, CLOSED);
        let islands = self.islands();
        if !islands.is_empty() {
            let gate = &self.tables().header.steady.gate;
            gate.close();
            let mut left = islands.clone();
            while let Some(island) = left.next() {
                let mut until = || *until.get_or_insert_with(|| now_ns().saturating_add(patience));
                let idle = self.control(island).lock.idle();
                let wait = || self.wait_for(island, until(), died, &mut closed);
                match idle.map_or_else(wait, |died| Ok(Some(died))) {
                    Ok(Some(holder_died)) => dead |= holder_died,
                    // Others may have entered any of them.
                    Ok(None) => left = islands.clone(),
                    Err(tid) => {
                        // What a dead thread left is not repaired: nobody else is let in.
                        if !died {
                            gate.open();
                        }
                        self.control(ALL).lock.leave(&held, died);
                        return Err(tid);
                    }
                }
            }
        }
        let guard = Guard::new(self, held, dead);
        if died {
            self.take_over(&guard);
        }
        Ok(guard)
    }

    /// The gate is closed: waits until an island is left, as `RobustLock::wait_idle`. `None`: the gate was open
    /// meanwhile, which it must not be when a thread `died` with all the cards.
    #[cold]
    fn wait_for(&self, island: u16, until: u64, died: bool, closed: &mut u64) -> Result<Option<bool>, u32> {
        let (lock, gate) = (&self.control(island).lock, &self.tables().header.steady.gate);
        let opens = if died { until } else { until.min(now_ns().saturating_add(*closed)) };
        match lock.wait_idle(opens) {
            Ok(holder_died) => Ok(Some(holder_died)),
            Err(tid) if opens == until => Err(tid),
            Err(_) => {
                gate.open();
                let _ = lock.wait_idle(until.min(now_ns().saturating_add(OPEN_FACTOR * *closed)));
                gate.close();
                *closed = (2 * *closed).min(LONGEST_CLOSED);
                Ok(None)
            }
        }
    }

    /// The previous holder died: the lock is ours, the tables of the segment
    /// are repaired here, the cards by the caller of `Guard::recovered`.
    #[cold]
    fn take_over(&self, guard: &Guard<'_>) {
        let steady = &self.tables().header.steady;
        steady.needs_recovery.store(1, Ordering::Release);
        // Earlier findings about the cards are invalid until the repair.
        self.new_generation();
        Extents::new(guard).repair();
        guard.settle_requests();
    }
}

/// The process that a thread belongs to; 0 if there is none.
fn process_of(tid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|id| id.trim().parse().ok()).unwrap_or(0)
}

/// The lock, held by this thread. Dropping it unlocks. Dropped by a panic it counts as that of a dead holder: what was
/// being changed under it is half done, and the next thread to take it repairs that first.
///
/// Everything that reads or changes the cards, the extents or the DMA maps asks
/// for a guard.
pub struct Guard<'a> {
    reach: Reach<'a>,
    held: Held,
    /// A thread died within an island, which is not repaired yet.
    dead: bool,
}

impl<'a> Guard<'a> {
    #[inline]
    fn new(segment: &'a Segment, held: Held, dead: bool) -> Guard<'a> {
        // SAFETY: the lock is held, and a thread has one guard at a time.
        Guard { reach: unsafe { Reach::new(segment, ALL) }, held, dead }
    }

    /// Whether a thread has died within an island.
    pub fn has_dead_islands(&self) -> bool {
        self.dead
    }

    /// The islands in which a thread has died, and which nobody enters until they are [`repaired`](Self::repaired).
    pub fn dead_islands(&self) -> impl Iterator<Item = u16> + '_ {
        let all = self.dead.then(|| self.segment().islands());
        all.into_iter().flatten().filter(|&island| self.segment().control(island).lock.holder_died())
    }

    /// An island is in order again.
    pub fn repaired(&self, island: u16) {
        let control = self.segment().control(island);
        control.close_journal();
        control.new_generation();
        control.lock.forget_dead();
    }

    /// Makes all labels void. Dead islands are repaired before.
    pub fn void_islands(&self) {
        let steady = &self.segment().tables().header.steady;
        // In this order: a thread that dies in between leaves no label that is valid and not waited for.
        steady.gate.void_labels();
        steady.islands.store(0, Ordering::Release);
        steady.islands_found.store(now_ns(), Ordering::Relaxed);
    }

    /// True when a holder of the lock has died since the last
    /// [`recovery_done`](Guard::recovery_done): the cards may be in the middle
    /// of something. It stays true, for other processes too, until then, so
    /// that a death during the recovery starts it again.
    #[inline]
    pub fn recovered(&self) -> bool {
        let steady = &self.segment().tables().header.steady;
        steady.needs_recovery.load(Ordering::Relaxed) != 0
    }

    /// The repair begins. If it panics, it is not tried again.
    pub fn recovery_begins(&self) {
        self.segment().local.repairing.store(true, Ordering::Relaxed);
    }

    /// As after the death of a process that had the lock.
    #[cfg(test)]
    pub fn doubt(&self) {
        self.segment().tables().header.steady.needs_recovery.store(1, Ordering::Release);
        self.segment().new_generation();
    }

    /// The cards are in order again.
    pub fn recovery_done(&self) {
        let steady = &self.segment().tables().header.steady;
        self.segment().local.repairing.store(false, Ordering::Relaxed);
        steady.needs_recovery.store(0, Ordering::Release);
    }
}

impl<'a> Deref for Guard<'a> {
    type Target = Reach<'a>;

    #[inline(always)]
    fn deref(&self) -> &Reach<'a> {
        &self.reach
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // A forked child, which has no lock, is detached.
        let segment = self.segment();
        if segment.is_detached() {
            return;
        }
        let lock = &segment.control(ALL).lock;
        if !std::thread::panicking() {
            // The gate stays closed until the cards are repaired.
            let unrepaired = self.recovered();
            if !unrepaired {
                segment.tables().header.steady.gate.open();
            }
            lock.leave(&self.held, unrepaired);
        } else if segment.local.repairing.swap(false, Ordering::Relaxed) {
            tell!("verbena: {}", LockError::Condemned);
            lock.condemn(&self.held);
            // The keeper tells all members.
            segment.wake_keeper();
        } else {
            // The gate stays closed until the repair.
            lock.abandon(&self.held);
        }
    }
}
