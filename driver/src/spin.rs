//! A spin lock of one word that lives in the same cache line as what it guards.
//!
//! While the process has a single thread (as glibc says) taking it is a plain store.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Spins before the processor is given to another thread, which may be the holder.
const SPINS: u32 = 100;

/// A value behind a spin lock.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Spin<T> {
    value: UnsafeCell<T>,
    locked: AtomicBool,
}

// SAFETY: the value is reached only through a guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

/// The right to use the value; gives the lock back when dropped.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Spin<T>,
}

impl<T> Spin<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Spin { value: UnsafeCell::new(value), locked: AtomicBool::new(false) }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if single_threaded() && !self.locked.load(Ordering::Relaxed) {
            self.locked.store(true, Ordering::Relaxed);
        } else if self.locked.swap(true, Ordering::Acquire) {
            self.contended();
        }
        Guard { lock: self }
    }

    /// Takes the lock if nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        if self.locked.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Guard { lock: self })
    }

    #[cold]
    #[inline(never)]
    fn contended(&self) {
        let mut spins = 0;
        loop {
            while self.locked.load(Ordering::Relaxed) {
                spins += 1;
                if spins % SPINS == 0 {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
            }
            if !self.locked.swap(true, Ordering::Acquire) {
                return;
            }
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
        self.lock.locked.store(false, Ordering::Release);
    }
}

/// Whether no other thread exists; it may be started only outside of a lock.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[inline]
fn single_threaded() -> bool {
    use std::sync::atomic::AtomicU8;
    extern "C" {
        static __libc_single_threaded: AtomicU8;
    }
    // SAFETY: glibc (2.32 and newer) defines this byte and only writes it by plain stores of a byte.
    unsafe { __libc_single_threaded.load(Ordering::Relaxed) != 0 }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
#[inline]
fn single_threaded() -> bool {
    false
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
    fn try_lock_fails_while_held() {
        let lock = Spin::new(());
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
