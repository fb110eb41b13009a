//! The functions that sleep: the clock advances, nothing waits.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_uint};

use crate::next::replace;
use crate::read_clock::{from_timespec, origin, timespec, NS, S, US};
use crate::sys::{self, fail, sys};
use crate::{alarm, timeline};

/// Sleeps until `at`, or until the alarm if that comes first and is not blocked or ignored; true
/// if nothing came in between.
fn sleep_until(at: u64) -> bool {
    let now = timeline::sleep_until(at.min(alarm::at()));
    let alarmed = alarm::deliver(now);
    if now >= at {
        return true;
    }
    if alarmed && !crate::signals::is_seen(libc::SIGALRM) {
        return sleep_until(at);
    }
    false
}

/// Sleeps for `ps`; returns what is left of it.
fn sleep_for(ps: u64) -> u64 {
    let at = timeline::after(ps);
    if sleep_until(at) {
        0
    } else {
        at.saturating_sub(timeline::now())
    }
}

/// A thread that yields again and again is late by no more than this part of its wait, or by the shortest step, and by
/// no more than the longest one.
const YIELD_PART: u64 = 128;
const SHORTEST_YIELD: u64 = US;
const LONGEST_YIELD: u64 = 500 * US;

thread_local! {
    /// The thread's clock at the first of the yields in a row, and after the last.
    static YIELDS: Cell<(u64, u64)> = const { Cell::new((0, u64::MAX)) };
}

/// The thread offers its core to others. If it has done nothing else that takes time since it did so last, it waits for
/// another one, which may be waiting for time to pass.
fn yields() -> c_int {
    if timeline::is_attached() {
        let now = timeline::now();
        let (since, last) = YIELDS.get();
        let next = if now == last {
            let step = ((now - since) / YIELD_PART).clamp(SHORTEST_YIELD, LONGEST_YIELD);
            (since, timeline::wait_a_while(step))
        } else {
            (now, now)
        };
        YIELDS.set(next);
    }
    // SAFETY: takes nothing.
    sys::errno(unsafe { sys!(libc::SYS_sched_yield) }) as c_int
}

replace! {
    /// sched_yield(2)
    fn sched_yield() -> c_int {
        yields()
    }

    /// thrd_yield(3) of C11
    fn thrd_yield() {
        yields();
    }

    /// nanosleep(2)
    fn nanosleep(request: *const libc::timespec, left: *mut libc::timespec) -> c_int {
        let Some(ps) = request.as_ref().filter(|r| r.tv_sec >= 0).and_then(|r| from_timespec(0, r)) else {
            return fail(if request.is_null() { libc::EFAULT } else { libc::EINVAL });
        };
        let rest = sleep_for(ps);
        if rest == 0 {
            return 0;
        }
        if let Some(left) = left.as_mut() {
            *left = timespec(0, rest.next_multiple_of(NS));
        }
        fail(libc::EINTR)
    }

    /// clock_nanosleep(2), which returns its error.
    fn clock_nanosleep(
        clock: libc::clockid_t,
        flags: c_int,
        request: *const libc::timespec,
        left: *mut libc::timespec,
    ) -> c_int {
        let (Some(origin), Some(request)) = (origin(clock), request.as_ref()) else { return libc::EINVAL };
        if flags & libc::TIMER_ABSTIME != 0 {
            let Some(at) = from_timespec(origin, request) else { return libc::EINVAL };
            return if sleep_until(at.max(timeline::now())) { 0 } else { libc::EINTR };
        }
        let before = sys::get_errno();
        let failed = nanosleep(request, left) != 0;
        let error = sys::get_errno();
        sys::set_errno(before);
        if failed { error } else { 0 }
    }

    /// usleep(3)
    fn usleep(us: libc::useconds_t) -> c_int {
        if sleep_for(u64::from(us) * US) == 0 { 0 } else { fail(libc::EINTR) }
    }

    /// sleep(3)
    fn sleep(seconds: c_uint) -> c_uint {
        sleep_for(u64::from(seconds).saturating_mul(S)).div_ceil(S) as c_uint
    }

    /// thrd_sleep(3) of C11: 0, or -1 if a signal came.
    fn thrd_sleep(request: *const libc::timespec, left: *mut libc::timespec) -> c_int {
        nanosleep(request, left)
    }
}
