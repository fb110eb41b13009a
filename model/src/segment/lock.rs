//! The one lock of a segment: a robust lock shared by processes.
//!
//! The kernel releases it when its holder dies; the next one to take it is told
//! so and the cards are repaired before anything else happens to them.
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::extents::Extents;
use super::robust::{Held, Refused, Taken};
use super::Segment;
use crate::here::Here;

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
    pub fn expect_lock(&self) {
        Here::new((&raw const self.control().lock).cast_mut().cast()).prefetch_for_write();
    }

    /// Takes the lock if it is free. Never waits; `None` also in a forked child.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        if self.is_detached() {
            return None;
        }
        match self.control().lock.try_take() {
            Taken::Free(held) => Some(Guard::new(self, held)),
            Taken::FromDead(held) => Some(self.take_over(held)),
            Taken::Busy => None,
        }
    }

    /// Whether the cards are damaged, so that no thread gets the lock any more.
    #[inline]
    pub fn is_condemned(&self) -> bool {
        self.control().lock.is_condemned()
    }

    /// Whether a thread holds the lock now. Only reads the word.
    #[inline]
    pub fn seems_locked(&self) -> bool {
        self.control().lock.holder() != 0
    }

    /// Takes the lock, waiting for at most `timeout`.
    pub fn lock(&self, timeout: Duration) -> Result<Guard<'_>, LockError> {
        if self.is_detached() {
            return Err(LockError::Detached);
        }
        match self.control().lock.take(timeout) {
            Ok((held, false)) => Ok(Guard::new(self, held)),
            Ok((held, true)) => Ok(self.take_over(held)),
            Err(Refused::TimedOut) => {
                let tid = self.control().lock.holder();
                Err(LockError::TimedOut { pid: process_of(tid), tid, waited: timeout })
            }
            Err(Refused::Condemned) => Err(LockError::Condemned),
            Err(Refused::Recursive) => Err(LockError::Recursive),
            Err(Refused::Unsupported(error)) => Err(LockError::Unsupported(error)),
        }
    }

    /// A guard beside the one that the calling thread has; dropping it does nothing.
    ///
    /// # Safety
    /// The calling thread has the lock for as long as the result lives.
    #[inline]
    #[allow(unsafe_code)]
    pub unsafe fn locked(&self) -> ManuallyDrop<Guard<'_>> {
        ManuallyDrop::new(Guard::new(self, Held::NONE))
    }

    /// The previous holder died: the lock is ours, the tables of the segment
    /// are repaired here, the cards by the caller of `Guard::recovered`.
    #[cold]
    fn take_over(&self, held: Held) -> Guard<'_> {
        let steady = &self.tables().header.steady;
        steady.needs_recovery.store(1, Ordering::Release);
        // Earlier findings about the cards are invalid until the repair.
        self.new_generation();
        let guard = Guard::new(self, held);
        Extents::new(&guard).repair();
        guard.settle_requests();
        guard
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
    segment: &'a Segment,
    held: Held,
    // The lock is given back by the thread that took it.
    not_send: PhantomData<*mut ()>,
}

/// A lock without its guard: see [`Guard::keep`].
pub struct Kept(Held);

impl<'a> Guard<'a> {
    #[inline]
    fn new(segment: &'a Segment, held: Held) -> Guard<'a> {
        Guard { segment, held, not_send: PhantomData }
    }

    /// The segment that is locked.
    #[inline]
    pub fn segment(&self) -> &'a Segment {
        self.segment
    }

    /// Keeps the lock without a guard; [`Guard::of`] makes one again. A guard that is handed over has to be in
    /// memory; this is passed in registers.
    #[inline(always)]
    pub fn keep(self) -> Kept {
        Kept(ManuallyDrop::new(self).held)
    }

    /// The guard again, of the same segment.
    #[inline(always)]
    pub fn of(segment: &'a Segment, kept: Kept) -> Guard<'a> {
        Guard::new(segment, kept.0)
    }

    /// True when a holder of the lock has died since the last
    /// [`recovery_done`](Guard::recovery_done): the cards may be in the middle
    /// of something. It stays true, for other processes too, until then, so
    /// that a death during the recovery starts it again.
    #[inline]
    pub fn recovered(&self) -> bool {
        let steady = &self.segment.tables().header.steady;
        steady.needs_recovery.load(Ordering::Relaxed) != 0
    }

    /// The repair begins. If it panics, it is not tried again.
    pub fn recovery_begins(&self) {
        self.segment.local().repairing.store(true, Ordering::Relaxed);
    }

    /// The cards may be half changed although no process has died: the next lock holder repairs them.
    #[cold]
    pub fn doubt(&self) {
        let steady = &self.segment.tables().header.steady;
        steady.needs_recovery.store(1, Ordering::Release);
        self.segment.new_generation();
    }

    /// The cards are in order again.
    pub fn recovery_done(&self) {
        let steady = &self.segment.tables().header.steady;
        self.segment.local().repairing.store(false, Ordering::Relaxed);
        steady.needs_recovery.store(0, Ordering::Release);
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // A forked child, which has no lock, is detached.
        if self.segment.is_detached() {
            return;
        }
        let lock = &self.segment.control().lock;
        if !std::thread::panicking() {
            lock.give(&self.held);
        } else if self.segment.local().repairing.swap(false, Ordering::Relaxed) {
            // A keeper may have no stderr that is read.
            let _ = writeln!(io::stderr(), "verbena: {}", LockError::Condemned);
            lock.condemn(&self.held);
            // The keeper tells all members.
            self.segment.wake_keeper();
        } else {
            lock.abandon(&self.held);
        }
    }
}
