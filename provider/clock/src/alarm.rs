//! SIGALRM by the virtual clock: `alarm`, `setitimer(ITIMER_REAL)`.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::next::replace;
use crate::read_clock::{from_timeval, timeval, S, US};
use crate::{sys, timeline};
use contract::clock::NEVER;

static AT: AtomicU64 = AtomicU64::new(NEVER);
static INTERVAL: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How often it was raised in this thread.
    static RUNG: Cell<u32> = const { Cell::new(0) };
}

/// A counter that changes when SIGALRM was raised in the calling thread.
pub fn rung() -> u32 {
    RUNG.get()
}

/// When SIGALRM is due ([`NEVER`]: it is not).
pub fn at() -> u64 {
    AT.load(Ordering::Relaxed)
}

/// Raises SIGALRM in the calling thread if it is due by `now`; true if it was.
pub fn deliver(now: u64) -> bool {
    let at = AT.load(Ordering::Relaxed);
    if now < at {
        return false;
    }
    let interval = INTERVAL.load(Ordering::Relaxed);
    // Expirations that have been missed are not made up for, as with the kernel's timer.
    let missed = (now - at).checked_div(interval);
    let next = missed.map_or(NEVER, |missed| timeline::later(at, (missed + 1).saturating_mul(interval)));
    if AT.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return false; // another thread has
    }
    timeline::alarm(next);
    RUNG.set(RUNG.get().wrapping_add(1));
    sys::raise(libc::SIGALRM);
    true
}

/// Tells a timeline that has just attached.
pub fn tell() {
    timeline::alarm(at());
}

/// A forked child has no alarm.
pub fn forked() {
    AT.store(NEVER, Ordering::Relaxed);
}

/// Sets the alarm; returns what was left of the last one (0: there was none) and its interval.
fn set(after: u64, interval: u64) -> (u64, u64) {
    timeline::acted();
    let now = timeline::now();
    let at = if after == 0 { NEVER } else { timeline::after(after) };
    let old_interval = INTERVAL.swap(interval, Ordering::Relaxed);
    let old = AT.swap(at, Ordering::Relaxed);
    timeline::alarm(at);
    (left(old, now), old_interval)
}

fn left(at: u64, now: u64) -> u64 {
    if at == NEVER {
        0
    } else {
        at.saturating_sub(now).max(1)
    }
}

fn to_timeval(ps: u64) -> libc::timeval {
    timeval(0, ps.div_ceil(US))
}

replace! {
    /// alarm(2)
    fn alarm(seconds: c_uint) -> c_uint {
        set(u64::from(seconds).saturating_mul(S), 0).0.div_ceil(S) as c_uint
    }

    /// ualarm(3)
    fn ualarm(us: libc::useconds_t, interval: libc::useconds_t) -> libc::useconds_t {
        set(u64::from(us) * US, u64::from(interval) * US).0.div_ceil(US) as _
    }

    /// setitimer(2); the two timers that count processor time are the machine's.
    fn setitimer(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int {
        if which != libc::ITIMER_REAL {
            return next(which, new, old);
        }
        let valid = |time: &libc::timeval| from_timeval(time).filter(|_| time.tv_usec < 1_000_000);
        let wanted = new.as_ref().map(|new| (valid(&new.it_value), valid(&new.it_interval)));
        let was = match wanted {
            Some((Some(value), Some(interval))) => set(value, interval),
            None => set(0, 0),
            _ => return sys::fail(libc::EINVAL),
        };
        if let Some(old) = old.as_mut() {
            *old = libc::itimerval { it_value: to_timeval(was.0), it_interval: to_timeval(was.1) };
        }
        0
    }

    /// getitimer(2)
    fn getitimer(which: c_int, value: *mut libc::itimerval) -> c_int {
        if which != libc::ITIMER_REAL {
            return next(which, value);
        }
        *value = libc::itimerval {
            it_value: to_timeval(left(at(), timeline::now())),
            it_interval: to_timeval(INTERVAL.load(Ordering::Relaxed)),
        };
        0
    }
}
