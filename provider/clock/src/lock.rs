//! Waiting for other threads: conditions, semaphores, locks, joins.
//!
//! The timeline is told that the thread waits. A time-out is virtual: the real wait continues in
//! slices until the clock of the process has reached it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::next::{next, replace};
use crate::read_clock::{from_timespec, origin, NS};
use crate::sys::{self, sys};
use crate::wait::wait_for;
use crate::{read_clock, threads, timeline};
use contract::clock as abi;

/// How long a slice of a real wait is, in nanoseconds: so late is a virtual time-out noticed.
const SLICE_NS: u64 = 2_000_000;

/// Waits by `attempt`, which gets the real CLOCK_MONOTONIC time at which it is to give up with
/// ETIMEDOUT, until the virtual `deadline`.
pub fn timed(deadline: u64, mut attempt: impl FnMut(libc::timespec) -> c_int) -> c_int {
    timeline::acted();
    match attempt(real_time(sys::real_ns())) {
        libc::ETIMEDOUT => in_slices(deadline, attempt),
        result => result,
    }
}

fn real_time(ns: u64) -> libc::timespec {
    read_clock::timespec(0, ns * NS)
}

/// The same, if it would have to wait.
fn in_slices(deadline: u64, mut attempt: impl FnMut(libc::timespec) -> c_int) -> c_int {
    let attached = timeline::is_attached();
    let patience = deadline.saturating_sub(timeline::now()) / NS;
    let last = sys::real_ns().saturating_add(if attached { u64::MAX } else { patience });
    let token = timeline::block(&[], deadline);
    threads::look(false);
    let result = loop {
        let result = attempt(real_time((sys::real_ns() + SLICE_NS).min(last)));
        if result != libc::ETIMEDOUT || timeline::now() >= deadline {
            break result;
        }
        if sys::real_ns() >= last {
            timeline::sleep_until(deadline);
            break result;
        }
    };
    threads::look(true);
    if attached {
        timeline::unblock(token);
    }
    result
}

/// The virtual time of a time-out on `clock`.
unsafe fn deadline_on(clock: libc::clockid_t, time: *const libc::timespec) -> Option<u64> {
    // SAFETY: the caller passes a valid time.
    from_timespec(origin(clock)?, unsafe { &*time })
}

/// The virtual time of a time-out on a clock that only the condition knows: a date after the start
/// of virtual time is one, a small number is a time since the machine was started.
unsafe fn deadline_by_size(time: *const libc::timespec) -> Option<u64> {
    // SAFETY: the caller passes a valid time.
    let is_date = unsafe { (*time).tv_sec } as u64 > read_clock::EPOCH_S / 2;
    // SAFETY: as above.
    unsafe { deadline_on(if is_date { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC }, time) }
}

/// A function that returns -1 and errno, as one that returns its error.
fn error_of(result: c_int) -> c_int {
    if result == 0 {
        0
    } else {
        sys::get_errno()
    }
}

fn with_errno(error: c_int) -> c_int {
    if error == 0 {
        0
    } else {
        sys::fail(error)
    }
}

type Cond = *mut libc::pthread_cond_t;
type Mutex = *mut libc::pthread_mutex_t;
type RwLock = *mut libc::pthread_rwlock_t;
type Time = *const libc::timespec;

const REAL: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// How often conditions were signalled, by a part of their address.
static SIGNALLED: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

fn signalled(cond: Cond) -> &'static AtomicU32 {
    &SIGNALLED[cond as usize / size_of::<libc::pthread_cond_t>() % SIGNALLED.len()]
}

unsafe fn cond_until(cond: Cond, mutex: Mutex, deadline: Option<u64>) -> c_int {
    let Some(deadline) = deadline else { return libc::EINVAL };
    timeline::acted();
    let before = signalled(cond).load(SeqCst);
    in_slices(deadline, |time| {
        let (clock, time) = (REAL, &raw const time);
        // SAFETY: the caller keeps the contract of pthread_cond_timedwait(3).
        let result = unsafe {
            next!(fn pthread_cond_clockwait(cond: Cond, mutex: Mutex, clock: libc::clockid_t, time: Time) -> c_int)
        };
        // A signal between two slices finds nobody who waits. The program looks at what it waits for again then, as it
        // does after any wake-up.
        let missed = result == libc::ETIMEDOUT && signalled(cond).load(SeqCst) != before;
        if missed {
            0
        } else {
            result
        }
    })
}

/// Waits until a time of `clock` by a function that gives up at a time of [`REAL`].
unsafe fn until(clock: libc::clockid_t, time: Time, wait: impl Fn(libc::clockid_t, Time) -> c_int) -> c_int {
    // SAFETY: the caller passes a valid time.
    match unsafe { deadline_on(clock, time) } {
        Some(deadline) => timed(deadline, |time| wait(REAL, &raw const time)),
        None => libc::EINVAL,
    }
}

replace! {
    /// pthread_cond_wait(3)
    fn pthread_cond_wait(cond: Cond, mutex: Mutex) -> c_int {
        wait_for(|| next(cond, mutex))
    }

    /// pthread_cond_timedwait(3)
    fn pthread_cond_timedwait(cond: Cond, mutex: Mutex, time: Time) -> c_int {
        cond_until(cond, mutex, deadline_by_size(time))
    }

    /// pthread_cond_clockwait(3)
    fn pthread_cond_clockwait(cond: Cond, mutex: Mutex, clock: libc::clockid_t, time: Time) -> c_int {
        cond_until(cond, mutex, deadline_on(clock, time))
    }

    /// pthread_cond_signal(3)
    fn pthread_cond_signal(cond: Cond) -> c_int {
        signalled(cond).fetch_add(1, SeqCst);
        next(cond)
    }

    /// pthread_cond_broadcast(3)
    fn pthread_cond_broadcast(cond: Cond) -> c_int {
        signalled(cond).fetch_add(1, SeqCst);
        next(cond)
    }

    /// pthread_mutex_timedlock(3)
    fn pthread_mutex_timedlock(mutex: Mutex, time: Time) -> c_int {
        pthread_mutex_clocklock(mutex, libc::CLOCK_REALTIME, time)
    }

    /// pthread_mutex_clocklock(3)
    fn pthread_mutex_clocklock(mutex: Mutex, clock: libc::clockid_t, time: Time) -> c_int {
        until(clock, time, |clock, time| next(mutex, clock, time))
    }

    /// pthread_rwlock_timedrdlock(3)
    fn pthread_rwlock_timedrdlock(lock: RwLock, time: Time) -> c_int {
        pthread_rwlock_clockrdlock(lock, libc::CLOCK_REALTIME, time)
    }

    /// pthread_rwlock_clockrdlock(3)
    fn pthread_rwlock_clockrdlock(lock: RwLock, clock: libc::clockid_t, time: Time) -> c_int {
        until(clock, time, |clock, time| next(lock, clock, time))
    }

    /// pthread_rwlock_timedwrlock(3)
    fn pthread_rwlock_timedwrlock(lock: RwLock, time: Time) -> c_int {
        pthread_rwlock_clockwrlock(lock, libc::CLOCK_REALTIME, time)
    }

    /// pthread_rwlock_clockwrlock(3)
    fn pthread_rwlock_clockwrlock(lock: RwLock, clock: libc::clockid_t, time: Time) -> c_int {
        until(clock, time, |clock, time| next(lock, clock, time))
    }

    /// sem_wait(3)
    fn sem_wait(semaphore: *mut c_void) -> c_int {
        wait_for(|| next(semaphore))
    }

    /// sem_timedwait(3)
    fn sem_timedwait(semaphore: *mut c_void, time: Time) -> c_int {
        sem_clockwait(semaphore, libc::CLOCK_REALTIME, time)
    }

    /// sem_clockwait(3)
    fn sem_clockwait(semaphore: *mut c_void, clock: libc::clockid_t, time: Time) -> c_int {
        with_errno(until(clock, time, |clock, time| error_of(next(semaphore, clock, time))))
    }

    /// pthread_join(3)
    fn pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int {
        wait_for(|| next(thread, result))
    }

    /// pthread_timedjoin_np(3)
    fn pthread_timedjoin_np(thread: libc::pthread_t, result: *mut *mut c_void, time: Time) -> c_int {
        pthread_clockjoin_np(thread, result, libc::CLOCK_REALTIME, time)
    }

    /// pthread_clockjoin_np(3)
    fn pthread_clockjoin_np(
        thread: libc::pthread_t, result: *mut *mut c_void, clock: libc::clockid_t, time: Time,
    ) -> c_int {
        until(clock, time, |clock, time| next(thread, result, clock, time))
    }

    /// pthread_barrier_wait(3)
    fn pthread_barrier_wait(barrier: *mut c_void) -> c_int {
        wait_for(|| next(barrier))
    }
}

/// futex(2), as the locks of other languages' libraries use it through syscall(2).
///
/// # Safety
/// The arguments must be those of the system call.
pub unsafe fn futex(args: [usize; 6]) -> sys::Sys {
    let [word, operation, value, time, _, bits] = args;
    let by_date = operation as c_int & libc::FUTEX_CLOCK_REALTIME != 0;
    let command = operation as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let bits = match command {
        libc::FUTEX_WAIT => u32::MAX as usize,
        libc::FUTEX_WAIT_BITSET => bits,
        // SAFETY: the caller's promise.
        _ => return unsafe { sys::call(libc::SYS_futex, args) },
    };
    // SAFETY: null or a valid time, as futex(2) asks.
    let deadline = match unsafe { (time as *const libc::timespec).as_ref() } {
        None => Some(abi::NEVER),
        Some(time) if command == libc::FUTEX_WAIT => {
            from_timespec(0, time).map(|ps| timeline::now().saturating_add(ps))
        }
        Some(time) => {
            let clock = if by_date { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
            // SAFETY: valid, as above.
            unsafe { deadline_on(clock, time) }
        }
    };
    let Some(deadline) = deadline else { return -(libc::EINVAL as isize) };
    let operation = libc::FUTEX_WAIT_BITSET | operation as c_int & libc::FUTEX_PRIVATE_FLAG;
    let attempt = |time: libc::timespec| {
        // SAFETY: the caller's arguments, with a time-out by CLOCK_MONOTONIC.
        unsafe { -sys!(libc::SYS_futex, word, operation, value, &raw const time, 0, bits) as c_int }
    };
    -(timed(deadline, attempt) as isize)
}
