//! The one lock of a segment: a robust mutex shared by processes.
//!
//! The kernel releases it when its holder dies; the next one to take it is told
//! so and the cards are repaired before anything else happens to them.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::extents::Extents;
use super::layout::Control;
use super::Segment;

extern "C" {
    // glibc 2.30; the libc crate does not declare it everywhere.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        abstime: *const libc::timespec,
    ) -> libc::c_int;
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else kept it too long.
    #[error("the card's lock was held for {waited:?} by process {pid} (thread {tid}); is it stopped or in a debugger?")]
    TimedOut {
        /// Process of the holder (0: it has just gone).
        pid: u32,
        /// Thread of the holder.
        tid: u32,
        /// How long this call waited.
        waited: Duration,
    },
    /// This thread holds it already.
    #[error("this thread holds the card's lock already")]
    Recursive,
    /// This process is a forked child.
    #[error("this process was forked from one that had the card open; open the device again after fork")]
    Detached,
    /// The mutex itself is damaged.
    #[error("the card's lock is damaged: {0}")]
    Broken(io::Error),
}

/// Makes the mutex usable; the keeper does it once before anybody attaches.
///
/// # Safety
/// `control` is in a fresh segment that no other process has mapped yet.
pub(super) unsafe fn initialise(control: &Control) -> io::Result<()> {
    let check = |code: libc::c_int| match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    };
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: `attributes` is initialised before use and the mutex is not in
    // use, by the contract of this function.
    unsafe {
        check(libc::pthread_mutexattr_init(attributes))?;
        check(libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED))?;
        check(libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST))?;
        // A second lock by the same thread is an error and no hang.
        check(libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK))?;
        check(libc::pthread_mutex_init(control.mutex.get(), attributes))?;
        check(libc::pthread_mutexattr_destroy(attributes))
    }
}

impl Segment {
    /// The lock will soon be taken: fetches its line while the caller does something else.
    #[inline]
    pub fn expect_lock(&self) {
        driver::prefetch_for_write(self.control().mutex.get().cast());
    }

    /// Takes the lock if it is free. Never waits; `None` also in a forked child.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        if self.is_detached() {
            return None;
        }
        // SAFETY: the mutex was initialised by the keeper and lives as long as
        // the mapping, which `self` owns.
        match unsafe { libc::pthread_mutex_trylock(self.control().mutex.get()) } {
            0 => Some(Guard::new(self)),
            libc::EOWNERDEAD => Some(self.take_over()),
            _ => None,
        }
    }

    /// Whether somebody holds the lock just now: a look that takes nothing from the holder.
    #[inline]
    pub fn seems_locked(&self) -> bool {
        self.lock_holder() != 0
    }

    /// Takes the lock, waiting for at most `timeout`.
    pub fn lock(&self, timeout: Duration) -> Result<Guard<'_>, LockError> {
        if self.is_detached() {
            return Err(LockError::Detached);
        }
        let until = super::now_ns().saturating_add(timeout.as_nanos().try_into().unwrap_or(u64::MAX));
        let until = until.min(i64::MAX as u64);
        let until = libc::timespec {
            tv_sec: (until / 1_000_000_000) as libc::time_t,
            tv_nsec: (until % 1_000_000_000) as libc::c_long,
        };
        let mutex = self.control().mutex.get();
        // SAFETY: as in `try_lock`; `until` is a valid time.
        match unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, &until) } {
            0 => Ok(Guard::new(self)),
            libc::EOWNERDEAD => Ok(self.take_over()),
            libc::ETIMEDOUT => {
                let tid = self.lock_holder();
                Err(LockError::TimedOut { pid: process_of(tid), tid, waited: timeout })
            }
            libc::EDEADLK => Err(LockError::Recursive),
            code => Err(LockError::Broken(io::Error::from_raw_os_error(code))),
        }
    }

    /// The previous holder died: the lock is ours, the tables of the segment
    /// are repaired here, the cards by whoever asks `Guard::recovered`.
    #[cold]
    fn take_over(&self) -> Guard<'_> {
        let steady = &self.tables().header.steady;
        steady.needs_recovery.store(1, Ordering::Release);
        // SAFETY: this thread has just got the mutex with EOWNERDEAD.
        unsafe { libc::pthread_mutex_consistent(self.control().mutex.get()) };
        let guard = Guard::new(self);
        Extents::new(&guard).repair();
        guard.settle_bounces();
        guard
    }

    /// Thread id of the holder, 0 if the lock is free.
    fn lock_holder(&self) -> u32 {
        let word = self.control().mutex.get().cast::<u32>();
        // SAFETY: the first word of glibc's mutex is the futex; an atomic read
        // of it is what the kernel does too.
        let word = unsafe { std::sync::atomic::AtomicU32::from_ptr(word) };
        // FUTEX_TID_MASK.
        word.load(Ordering::Relaxed) & 0x3fff_ffff
    }
}

/// The process that a thread belongs to; 0 if there is none.
fn process_of(tid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|id| id.trim().parse().ok()).unwrap_or(0)
}

/// The lock, held by this thread. Dropping it unlocks.
///
/// Everything that reads or changes the cards, the extents or the DMA maps asks
/// for a guard.
pub struct Guard<'a> {
    segment: &'a Segment,
    // A pthread mutex is unlocked by the thread that locked it.
    not_send: PhantomData<*mut ()>,
}

impl<'a> Guard<'a> {
    #[inline]
    fn new(segment: &'a Segment) -> Guard<'a> {
        Guard { segment, not_send: PhantomData }
    }

    /// The segment that is locked.
    #[inline]
    pub fn segment(&self) -> &'a Segment {
        self.segment
    }

    /// True when a holder of the lock has died since the last
    /// [`recovery_done`](Guard::recovery_done): the cards may be in the middle
    /// of something. It stays true, for other processes too, until then, so
    /// that a death during the recovery starts it anew.
    #[inline]
    pub fn recovered(&self) -> bool {
        let steady = &self.segment.tables().header.steady;
        steady.needs_recovery.load(Ordering::Relaxed) != 0
    }

    /// The cards are in order again.
    pub fn recovery_done(&self) {
        let steady = &self.segment.tables().header.steady;
        steady.needs_recovery.store(0, Ordering::Release);
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.segment.is_detached() {
            // SAFETY: this thread holds the mutex: a guard does not leave its
            // thread, and a forked child, which has no mutex, is detached.
            unsafe { libc::pthread_mutex_unlock(self.segment.control().mutex.get()) };
        }
    }
}
