//! A spin lock that its first user takes without an atomic read-modify-write.
//!
//! Most queues are used by one thread. The first thread to take a lock becomes its owner: for it, taking
//! the lock is a store and a load. A second thread revokes that once and for all, by a barrier that the
//! kernel runs on all threads of the process (membarrier(2)), and from then on it is a plain spin lock.
//! Where membarrier is not to be had, it is one from the beginning.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;

/// Spins before the processor is given to another thread, which may be the holder.
const SPINS: u32 = 100;
/// Nobody has taken the lock yet.
const NOBODY: u32 = 0;
/// A second thread is taking the owner's privilege away.
const REVOKING: u32 = 1;
/// A plain spin lock.
const SHARED: u32 = 2;

/// A value behind the lock.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Spin<T> {
    value: UnsafeCell<T>,
    /// The owning thread, or one of the constants above.
    owner: AtomicU32,
    /// The owner holds the lock.
    busy: AtomicBool,
    /// Somebody holds the shared lock.
    locked: AtomicBool,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

/// The right to use the value; gives the lock back when dropped.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Spin<T>,
    /// What says that the lock is held: `busy` or `locked`.
    held: &'a AtomicBool,
}

impl<T> Spin<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Spin {
            value: UnsafeCell::new(value),
            owner: AtomicU32::new(NOBODY),
            busy: AtomicBool::new(false),
            locked: AtomicBool::new(false),
        }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let me = thread::current();
        match self.lock_as_owner(me) {
            Some(guard) => guard,
            None => self.lock_slowly(me),
        }
    }

    /// Takes the lock if the calling thread owns it.
    #[inline(always)]
    fn lock_as_owner(&self, me: u32) -> Option<Guard<'_, T>> {
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

    /// Shows the value to a thread that has it to itself: for hints, which cost others more than they are worth. Never
    /// waits, whatever other locks are held.
    #[inline]
    pub fn glance(&self, look: impl FnOnce(&T)) {
        if !self.busy.load(Ordering::Relaxed) {
            if let Some(guard) = self.lock_as_owner(thread::current()) {
                look(&guard);
            }
        }
    }

    #[inline(never)]
    fn lock_slowly(&self, me: u32) -> Guard<'_, T> {
        if self.owner.load(Ordering::Relaxed) == NOBODY && thread::barriers_work() {
            // Only now the range of numbers is certain.
            let me = if me == thread::OUTSIDE { thread::current() } else { me };
            let claimed = me != thread::OUTSIDE
                && self.owner.compare_exchange(NOBODY, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if claimed {
                return self.lock();
            }
        }
        self.share();
        let mut spins = 0;
        while self.locked.swap(true, Ordering::Acquire) {
            wait_while(&mut spins, || self.locked.load(Ordering::Relaxed));
        }
        Guard { lock: self, held: &self.locked }
    }

    /// Makes it a plain spin lock. Afterwards no owner holds it, or will.
    #[inline]
    fn share(&self) {
        if self.owner.load(Ordering::Acquire) != SHARED {
            self.revoke();
        }
    }

    #[cold]
    fn revoke(&self) {
        let mut spins = 0;
        loop {
            let owner = self.owner.load(Ordering::Acquire);
            match owner {
                SHARED => return,
                REVOKING => wait_while(&mut spins, || self.owner.load(Ordering::Relaxed) == REVOKING),
                _ => {
                    if self
                        .owner
                        .compare_exchange(owner, REVOKING, Ordering::SeqCst, Ordering::Relaxed)
                        .is_err()
                    {
                        continue;
                    }
                    if owner != NOBODY {
                        // Now the owner either has `busy` set for all to see, or will find itself revoked.
                        thread::barrier();
                        wait_while(&mut spins, || self.busy.load(Ordering::Acquire));
                    }
                    self.owner.store(SHARED, Ordering::Release);
                    return;
                }
            }
        }
    }
}

/// To be called by a thread that spins for long: who holds the lock may be waiting for this one elsewhere.
static LONG_WAIT: OnceLock<fn()> = OnceLock::new();
/// Spins after which a wait is a long one.
const LONG: u32 = 16 * SPINS;

/// Sets what a thread does once when it has to wait for long for a lock of this crate. The first one counts.
pub fn on_long_wait(call: fn()) {
    let _ = LONG_WAIT.set(call);
}

fn wait_while(spins: &mut u32, condition: impl Fn() -> bool) {
    while condition() {
        *spins += 1;
        if *spins == LONG {
            if let Some(call) = LONG_WAIT.get() {
                call();
            }
        }
        if *spins % SPINS == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one, so nobody has a mutable reference.
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

/// Threads and barriers across them.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod thread {
    use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};

    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;

    /// Bits 44 and up of the thread pointers that can be told apart by their bits 12..44.
    static HIGH: AtomicU32 = AtomicU32::new(u32::MAX);
    /// A thread outside of that range: never an owner.
    pub const OUTSIDE: u32 = 3;

    /// A number that no other living thread has, or `OUTSIDE`: the page of the thread's control block,
    /// which is in a page of its own stack mapping (or, for the first thread, of its own).
    #[inline(always)]
    pub fn current() -> u32 {
        let pointer: usize;
        // SAFETY: the psABI has the thread pointer's own value at %fs:0; the read has no effects.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags))
        };
        if (pointer >> 44) as u32 == HIGH.load(Ordering::Relaxed) {
            (pointer >> 12) as u32
        } else {
            OUTSIDE
        }
    }

    /// Sets the range by the calling thread, the first time.
    fn choose_range() {
        let pointer: usize;
        // SAFETY: as in `current`.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags))
        };
        let _ = HIGH.compare_exchange(u32::MAX, (pointer >> 44) as u32, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Whether [`barrier`] may be called. Asked again in a forked child, which inherits the registration.
    pub fn barriers_work() -> bool {
        static KNOWN: AtomicU8 = AtomicU8::new(0);
        match KNOWN.load(Ordering::Relaxed) {
            0 => {
                choose_range();
                let works = membarrier(REGISTER_PRIVATE_EXPEDITED);
                KNOWN.store(1 + u8::from(works), Ordering::Relaxed);
                works
            }
            known => known == 2,
        }
    }

    /// A full barrier on every running thread of the process.
    pub fn barrier() {
        let done = membarrier(PRIVATE_EXPEDITED);
        assert!(done, "membarrier worked when it was registered");
    }
}

/// Elsewhere every lock is a plain spin lock.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod thread {
    pub const OUTSIDE: u32 = 3;
    pub fn current() -> u32 {
        OUTSIDE
    }
    pub fn barriers_work() -> bool {
        false
    }
    pub fn barrier() {}
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
    fn only_an_owner_who_does_not_hold_it_glances() {
        let seen = |lock: &Spin<u32>| {
            let mut seen = None;
            lock.glance(|value| seen = Some(*value));
            seen
        };
        let lock = Spin::new(7);
        assert_eq!(seen(&lock), None, "nobody owns it yet");
        drop(lock.lock());
        assert_eq!(seen(&lock), thread::barriers_work().then_some(7));
        let held = lock.lock();
        assert_eq!(seen(&lock), None, "it is in use");
        drop(held);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(seen(&lock), None, "another thread's");
                drop(lock.lock());
                assert_eq!(seen(&lock), None, "several threads'");
            });
        });
        assert_eq!(seen(&lock), None, "several threads'");
    }
}
