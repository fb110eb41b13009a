//! A lock in shared memory that the kernel takes from a holder that dies.
//!
//! When a thread ends, the kernel walks the list of robust futexes that the thread has announced
//! (get_robust_list(2), Documentation/locking/robust-futex-ABI.rst): it marks each one that holds the thread's id
//! [`DIED`] and wakes one waiter. The C library announces such a list for every thread and threads its mutexes
//! into it. Beside the list there is one place for a lock that is *about to be* taken or released; of that the kernel
//! trusts only the id in the lock itself. Here the lock stays in that place for as long as it is held: two
//! stores instead of the four list operations of a mutex, a quarter of the instructions.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{compiler_fence, AtomicU32, Ordering};
use std::time::Duration;

use super::announced::{Head, Me};
use super::futex::{futex_wait, futex_wake, ALL_SLEEPERS};
use super::now_ns;

/// Bits of the lock that hold the thread id of the holder (FUTEX_TID_MASK).
const TID: u32 = 0x3fff_ffff;
/// The holder died (FUTEX_OWNER_DIED); set by the kernel.
const DIED: u32 = 0x4000_0000;
/// An id of no thread: the lock can no longer be taken.
const CONDEMNED: u32 = TID;
/// A thread sleeps until the lock is free (FUTEX_WAITERS).
const WAITERS: u32 = 0x8000_0000;

/// Looks at a lock that is held before the wait for it sleeps: a few microseconds, in which most messages end.
const IDLE_SPINS: u32 = 256;
/// How long a thread sleeps before it looks at a lock that it waits for.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// The lock. Zero bytes are a free one.
#[derive(crate::plain::Plain)]
#[repr(transparent)]
pub(super) struct RobustLock(AtomicU32);

/// What there is to undo when the lock is released. Bound to the thread that took it.
#[derive(Clone, Copy)]
pub(super) struct Held {
    head: *const Head,
    /// What was pending before: this lock was taken in the middle of another's.
    before: *mut u8,
}

/// How the lock was found.
pub(super) enum Taken {
    /// Free.
    Free(Held),
    /// Its holder has died.
    FromDead(Held),
    /// Another thread has it.
    Busy,
}

/// How the lock of an island was found.
pub(super) enum Live {
    /// Free, and is taken.
    Taken(Held),
    /// Its holder has died. It stays as it is until what it left is repaired.
    Dead,
    /// Another thread has it.
    Busy,
}

/// Why the lock was not taken.
pub(super) enum Refused {
    /// The time is over.
    TimedOut,
    /// The calling thread has it.
    Recursive,
    /// It can no longer be taken.
    Condemned,
    /// This system has no robust futexes.
    Unsupported(io::Error),
}

impl RobustLock {
    /// Announces that this lock is about to be taken, which must follow at once. [`Held::withdraw`] undoes the
    /// announcement.
    #[inline(always)]
    fn announce(&self, head: &Head) -> Held {
        let entry =
            (&raw const self.0).cast::<u8>().wrapping_offset(-(head.futex_offset as isize)).cast_mut();
        let before = head.pending.load(Ordering::Relaxed);
        head.pending.store(entry, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Held { head, before }
    }

    /// One attempt, with the bits that the lock gets beside the id.
    #[inline(always)]
    fn attempt(&self, tid: u32, bits: u32) -> Result<bool, u32> {
        match self.0.compare_exchange(0, tid | bits, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(false),
            Err(found) if found & TID == 0 => {
                // Other threads may sleep.
                let mine = tid | bits | found & WAITERS;
                let taken = self.0.compare_exchange(found, mine, Ordering::Acquire, Ordering::Relaxed);
                taken.map(|_| found & DIED != 0)
            }
            Err(found) => Err(found),
        }
    }

    /// Takes the lock if it is free or its holder has died.
    #[inline(always)]
    pub fn try_take(&self) -> Taken {
        let me = Me::of_thread();
        if me.introduced().is_err() {
            return Taken::Busy;
        }
        let (tid, head) = me.known();
        let held = self.announce(head);
        match self.attempt(tid, 0) {
            Ok(false) => Taken::Free(held),
            Ok(true) => Taken::FromDead(held),
            Err(_) => {
                held.withdraw();
                Taken::Busy
            }
        }
    }

    /// Takes the lock; waits for at most `timeout`. Also returns whether its holder has died.
    pub fn take(&self, timeout: Duration) -> Result<(Held, bool), Refused> {
        let me = Me::of_thread();
        me.introduced().map_err(Refused::Unsupported)?;
        let (tid, head) = me.known();
        let held = self.announce(head);
        if held.before == head.pending.load(Ordering::Relaxed) && self.holder() == tid {
            held.withdraw();
            return Err(Refused::Recursive);
        }
        match self.wait(tid, timeout) {
            Some(died) => Ok((held, died)),
            None => {
                held.withdraw();
                Err(if self.is_condemned() { Refused::Condemned } else { Refused::TimedOut })
            }
        }
    }

    /// Waits for the lock and takes it; `None` if the time is over or it can no longer be taken. True if its
    /// holder has died.
    fn wait(&self, tid: u32, timeout: Duration) -> Option<bool> {
        let mut bits = 0;
        let mut until = None;
        loop {
            let found = match self.attempt(tid, bits) {
                Ok(died) => return Some(died),
                Err(found) if found & TID == CONDEMNED => return None,
                Err(found) => found,
            };
            if found & TID == 0 {
                continue;
            }
            // Without a wait the clock is not read: it may be a virtual one.
            let now = now_ns();
            let until = *until
                .get_or_insert(now.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)));
            if now >= until {
                return None;
            }
            let sleeping = found | WAITERS;
            let announced = found == sleeping
                || self.0.compare_exchange(found, sleeping, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            // Free by now, where the exchange failed.
            if found & TID != 0 && announced {
                // Who was woken may die or give up after another thread has taken the lock, which then wakes nobody.
                futex_wait(&self.0, sleeping, Some(LONGEST_SLEEP.min(Duration::from_nanos(until - now))));
                // A thread that slept does not know whether others still do.
                bits = WAITERS;
            }
        }
    }

    /// Takes the lock if it is free, and its last holder lives.
    #[inline(always)]
    pub fn try_take_live(&self) -> Live {
        let me = Me::of_thread();
        if me.introduced().is_err() {
            return Live::Busy;
        }
        let (tid, head) = me.known();
        let held = self.announce(head);
        match self.0.compare_exchange(0, tid, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Live::Taken(held),
            Err(found) => {
                held.withdraw();
                if found & (TID | DIED) == DIED {
                    Live::Dead
                } else {
                    Live::Busy
                }
            }
        }
    }

    /// Whether no thread holds the lock: then, whether its last holder has died.
    #[inline]
    pub fn idle(&self) -> Option<bool> {
        // Ordered after the caller's fence.
        let found = self.0.load(Ordering::Acquire);
        (found & TID == 0).then_some(found & DIED != 0)
    }

    /// Waits until no thread holds the lock, which is not taken. True if its last holder has died; the holder is the
    /// error when it still has it at `until` (CLOCK_MONOTONIC, ns).
    #[cold]
    pub fn wait_idle(&self, until: u64) -> Result<bool, u32> {
        let mut tries = 0_u32;
        loop {
            let found = self.0.load(Ordering::Acquire);
            if found & TID == 0 {
                return Ok(found & DIED != 0);
            }
            tries += 1;
            if tries < IDLE_SPINS {
                std::hint::spin_loop();
                continue;
            }
            let now = now_ns();
            if now >= until {
                return Err(found & TID);
            }
            let sleeping = found | WAITERS;
            let announced = found == sleeping
                || self.0.compare_exchange(found, sleeping, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if announced {
                // The one that is woken may be another, so not for long.
                futex_wait(&self.0, sleeping, Some(Duration::from_nanos((until - now).min(1_000_000))));
            }
        }
    }

    /// Whether the last holder has died, and nobody took the lock since.
    pub fn holder_died(&self) -> bool {
        self.0.load(Ordering::Acquire) & (TID | DIED) == DIED
    }

    /// What the dead holder left is repaired.
    pub fn forget_dead(&self) {
        if self.holder_died() {
            self.0.store(0, Ordering::Release);
            futex_wake(&self.0, ALL_SLEEPERS);
        }
    }

    /// Releases the lock with the news of a death, or without.
    #[inline]
    pub fn leave(&self, held: &Held, died: bool) {
        match died {
            true => self.abandon(held),
            false => self.give(held),
        }
    }

    /// Releases the lock.
    #[inline(always)]
    pub fn give(&self, held: &Held) {
        if self.0.swap(0, Ordering::Release) & WAITERS != 0 {
            futex_wake(&self.0, 1);
        }
        held.withdraw();
    }

    /// Leaves the lock as the kernel leaves that of a thread that ends: the next holder learns of it.
    #[cold]
    pub fn abandon(&self, held: &Held) {
        if self.0.swap(DIED, Ordering::Release) & WAITERS != 0 {
            futex_wake(&self.0, 1);
        }
        held.withdraw();
    }

    /// Makes it unavailable for good, instead of releasing it.
    #[cold]
    pub fn condemn(&self, held: &Held) {
        self.0.store(CONDEMNED, Ordering::Release);
        futex_wake(&self.0, ALL_SLEEPERS);
        held.withdraw();
    }

    /// Whether it can no longer be taken.
    #[inline]
    pub fn is_condemned(&self) -> bool {
        self.holder() == CONDEMNED
    }

    /// What the kernel does when the holder ends, for a holder that does not exist (the word was overwritten).
    pub fn holder_is_gone(&self, tid: u32) {
        let found = self.0.load(Ordering::Relaxed);
        if found & TID == tid
            && self.0.compare_exchange(found, DIED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            futex_wake(&self.0, 1);
        }
    }

    /// Thread id of the holder; 0 when there is none.
    #[inline]
    pub fn holder(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & TID
    }
}

impl Held {
    /// Withdraws the announcement.
    #[inline(always)]
    fn withdraw(&self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the head lives as long as its thread, and this value does not leave that.
        unsafe { &*self.head }.pending.store(self.before, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "robust_tests.rs"]
mod tests;
