//! A spin lock that its first user takes without an atomic read-modify-write; `docs/decisions/owned-lock.md` says why.
//!
//! Most queues are used by one thread. The first thread to take a lock becomes its owner: for it, taking
//! the lock is a store and a load. A second thread revokes that for good, by a barrier that the
//! kernel runs on all threads of the process (membarrier(2)). From then on it is a plain spin lock.
//! Without membarrier, or on another processor than x86-64, it is one from the start.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;

/// No thread has taken the lock yet.
const UNOWNED: u32 = 0;
/// A second thread is revoking the owner's privilege.
const REVOKING: u32 = 1;
/// A plain spin lock.
const SHARED: u32 = 2;

/// A value in a lock.
#[repr(C, align(64))]
pub struct Spin<T> {
    value: UnsafeCell<T>,
    /// The owning thread, or one of the constants above.
    owner: AtomicU32,
    /// The owner holds the lock.
    busy: AtomicBool,
    /// A thread holds the shared lock.
    locked: AtomicBool,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

/// The right to use the value; unlocks when dropped.
pub struct Guard<'a, T> {
    lock: &'a Spin<T>,
    /// The flag to clear: `busy` or `locked`.
    held: &'a AtomicBool,
}

impl<T> Spin<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Spin {
            value: UnsafeCell::new(value),
            owner: AtomicU32::new(UNOWNED),
            busy: AtomicBool::new(false),
            locked: AtomicBool::new(false),
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        match self.lock_as_owner() {
            Some(guard) => guard,
            None => self.lock_slowly(),
        }
    }

    /// Takes the lock if the calling thread owns it.
    #[inline(always)]
    fn lock_as_owner(&self) -> Option<Guard<'_, T>> {
        let me = thread::current();
        if self.owner.load(Ordering::Relaxed) == me {
            self.busy.store(true, Ordering::Relaxed);
            // The processor may let the load overtake the store; the revoker's membarrier rules that out
            // for the one time when it matters.
            compiler_fence(Ordering::SeqCst);
            if self.owner.load(Ordering::Relaxed) == me {
                return Some(Guard { lock: self, held: &self.busy });
            }
            self.busy.store(false, Ordering::Release);
        }
        None
    }

    /// Shows the value to the owner if it does not hold the lock: for hints, which cost other threads more than they
    /// gain. Never waits, whatever other locks are held.
    #[inline]
    pub fn glance(&self, look: impl FnOnce(&T)) {
        if !self.busy.load(Ordering::Relaxed) {
            if let Some(guard) = self.lock_as_owner() {
                look(&guard);
            }
        }
    }

    #[inline(never)]
    fn lock_slowly(&self) -> Guard<'_, T> {
        let claim =
            || self.owner.compare_exchange(UNOWNED, thread::current(), Ordering::Acquire, Ordering::Relaxed);
        let owner = self.owner.load(Ordering::Acquire);
        if owner == UNOWNED && thread::may_own() && claim().is_ok() {
            return self.lock();
        }
        if owner != SHARED {
            self.revoke();
        }
        let mut spins = 0;
        while self.locked.swap(true, Ordering::Acquire) {
            while self.locked.load(Ordering::Relaxed) {
                pause(&mut spins);
            }
        }
        Guard { lock: self, held: &self.locked }
    }

    /// Makes it a plain spin lock. Afterwards no owner holds it, or will.
    #[cold]
    fn revoke(&self) {
        let mut spins = 0;
        loop {
            match self.owner.load(Ordering::Acquire) {
                SHARED => return,
                REVOKING => pause(&mut spins),
                owner => {
                    let swap =
                        self.owner.compare_exchange(owner, REVOKING, Ordering::SeqCst, Ordering::Relaxed);
                    if swap.is_err() {
                        continue;
                    }
                    if owner != UNOWNED {
                        // After this the owner's `busy` is visible, or the owner will find itself revoked.
                        thread::barrier();
                        while self.busy.load(Ordering::Acquire) {
                            pause(&mut spins);
                        }
                    }
                    self.owner.store(SHARED, Ordering::Release);
                    return;
                }
            }
        }
    }
}

/// Spins before the processor is given to another thread, which may be the holder.
const SPINS: u32 = 100;
/// Spins after which a wait is a long one.
const LONG: u32 = 16 * SPINS;
/// Called once in each long wait: the holder of the lock may be waiting for this thread elsewhere.
static LONG_WAIT: OnceLock<fn()> = OnceLock::new();

/// Sets what a thread does once when it waits long for a lock of this crate. The first call counts.
pub fn on_long_wait(call: fn()) {
    let _ = LONG_WAIT.set(call);
}

/// One turn of a wait.
fn pause(spins: &mut u32) {
    *spins += 1;
    if *spins == LONG {
        if let Some(call) = LONG_WAIT.get() {
            call();
        }
    }
    match *spins % SPINS {
        0 => std::thread::yield_now(),
        _ => std::hint::spin_loop(),
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one, so there is no mutable reference.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.held.store(false, Ordering::Release);
    }
}

/// Threads, and a barrier on all of them.
mod thread {
    use std::sync::atomic::{AtomicU32, Ordering};

    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

    /// Bits 44 and up of the thread pointers that can be told apart by their bits 12 to 43; or one of these.
    static RANGE: AtomicU32 = AtomicU32::new(UNKNOWN);
    const UNKNOWN: u32 = u32::MAX;
    const NONE: u32 = u32::MAX - 1;
    /// A thread outside of that range: never an owner.
    const OUTSIDE: u32 = 3;

    /// The address of the thread's control block.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn pointer() -> usize {
        let pointer: usize;
        // SAFETY: the psABI has the thread pointer's own value at %fs:0; the read has no effects.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags))
        };
        pointer
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn pointer() -> usize {
        0
    }

    /// A number that no other living thread has, or `OUTSIDE`: the page of the thread's control block,
    /// which is in its own stack mapping (or, for the first thread, in one of its own).
    #[inline(always)]
    pub fn current() -> u32 {
        let pointer = pointer();
        match (pointer >> 44) as u32 == RANGE.load(Ordering::Relaxed) {
            true => (pointer >> 12) as u32,
            false => OUTSIDE,
        }
    }

    /// Whether the calling thread can own a lock, and [`barrier`] works. A forked child inherits the registration.
    pub fn may_own() -> bool {
        if RANGE.load(Ordering::Relaxed) == UNKNOWN {
            let works = cfg!(target_arch = "x86_64") && membarrier(REGISTER_PRIVATE_EXPEDITED);
            let range = if works { (pointer() >> 44) as u32 } else { NONE };
            let _ = RANGE.compare_exchange(UNKNOWN, range, Ordering::Relaxed, Ordering::Relaxed);
        }
        current() != OUTSIDE
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call accesses no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// A full barrier on every running thread of the process.
    pub fn barrier() {
        assert!(membarrier(PRIVATE_EXPEDITED), "membarrier worked when it was registered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_exclude_each_other() {
        let lock = Spin::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *lock.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 40_000);
    }

    #[test]
    fn an_owner_and_a_late_second_thread_exclude_each_other() {
        for round in 0..200u64 {
            let lock = Spin::new(0u64);
            let started = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for n in 0..2_000 {
                        *lock.lock() += 1;
                        if n == round * 5 {
                            started.store(true, Ordering::Relaxed);
                        }
                    }
                });
                while !started.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                for _ in 0..500 {
                    *lock.lock() += 1;
                }
            });
            assert_eq!(*lock.lock(), 2_500);
        }
    }

    #[test]
    fn only_an_owner_that_does_not_hold_it_glances() {
        let seen = |lock: &Spin<u32>| {
            let mut seen = None;
            lock.glance(|value| seen = Some(*value));
            seen
        };
        let lock = Spin::new(7);
        assert_eq!(seen(&lock), None, "it has no owner yet");
        drop(lock.lock());
        assert_eq!(seen(&lock), thread::may_own().then_some(7));
        let held = lock.lock();
        assert_eq!(seen(&lock), None, "it is held");
        drop(held);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(seen(&lock), None, "another thread owns it");
                drop(lock.lock());
                assert_eq!(seen(&lock), None, "it is shared");
            });
        });
        assert_eq!(seen(&lock), None, "it is shared");
    }
}
