//! The functions that read a clock.
//!
//! REALTIME starts at a fixed date, the monotonic clocks at a fixed time after a start of the
//! machine that never was, so that output with dates is the same in every run. What a program
//! computes takes no virtual time: the clocks of processor time show the virtual time, too.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use crate::cost::Source;
use crate::next::replace;
use crate::sys;
use crate::timeline;

pub use contract::clock::EPOCH_S;

/// The monotonic clocks, and the time stamp counter, at the start of virtual time, in seconds.
pub const BOOTED_S: u64 = 1000;

/// Picoseconds a nanosecond.
pub const NS: u64 = 1000;

/// Picoseconds a microsecond.
pub const US: u64 = 1_000_000;

/// Picoseconds a second.
pub const S: u64 = 1_000_000 * US;

const NS_PER_S: u64 = 1_000_000_000;

/// What a clock shows at virtual time 0, in seconds; `None`: it is not a clock that is replaced.
pub fn origin(clock: libc::clockid_t) -> Option<u64> {
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM => Some(EPOCH_S),
        libc::CLOCK_TAI => Some(EPOCH_S + 37),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME
        | libc::CLOCK_BOOTTIME_ALARM => Some(BOOTED_S),
        libc::CLOCK_PROCESS_CPUTIME_ID | libc::CLOCK_THREAD_CPUTIME_ID => Some(0),
        _ => None,
    }
}

/// `ps` after `origin` seconds, as a timespec.
pub fn timespec(origin: u64, ps: u64) -> libc::timespec {
    let ns = ps / NS;
    libc::timespec { tv_sec: (origin + ns / NS_PER_S) as _, tv_nsec: (ns % NS_PER_S) as _ }
}

/// `us` microseconds after `origin` seconds, as a timeval.
pub fn timeval(origin: u64, us: u64) -> libc::timeval {
    libc::timeval { tv_sec: (origin + us / 1_000_000) as _, tv_usec: (us % 1_000_000) as _ }
}

/// How long a timeval is; `None` if it is less than nothing.
pub fn from_timeval(time: &libc::timeval) -> Option<u64> {
    let (seconds, us) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_usec).ok()?);
    Some(seconds.saturating_mul(S).saturating_add(us.saturating_mul(US)))
}

/// The virtual time at which a clock that started at `origin` seconds shows `time`; 0 if it was
/// before the start, `None` if `time` is not a time.
pub fn from_timespec(origin: u64, time: &libc::timespec) -> Option<u64> {
    if !(0..NS_PER_S as i64).contains(&time.tv_nsec) {
        return None;
    }
    let seconds = (time.tv_sec as i128) - i128::from(origin);
    let ps = (seconds * i128::from(NS_PER_S) + i128::from(time.tv_nsec)) * i128::from(NS);
    Some(ps.clamp(0, i128::from(u64::MAX - 1)) as u64)
}

/// The time stamp counter: one GHz exactly.
pub fn cycles(ps: u64) -> u64 {
    BOOTED_S * NS_PER_S + ps / NS
}

/// Reads the clock up to the start of a microsecond. What shows microseconds only would else show
/// the same one many times in a row, and calibrations against it would depend on where in it they began.
fn read_whole_us() -> u64 {
    let cost = timeline::impatient_cost(Source::Microseconds);
    let now = timeline::now();
    timeline::spend((now + cost).next_multiple_of(US) - now)
}

replace! {
    /// clock_gettime(2)
    fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
        match origin(clock) {
            Some(origin) if !time.is_null() => *time = timespec(origin, timeline::read(Source::Clock)),
            _ => return sys::errno(sys::sys!(libc::SYS_clock_gettime, clock, time)) as c_int,
        }
        0
    }

    /// clock_getres(2): one nanosecond, also of the coarse clocks.
    fn clock_getres(clock: libc::clockid_t, resolution: *mut libc::timespec) -> c_int {
        if origin(clock).is_none() {
            return sys::errno(sys::sys!(libc::SYS_clock_getres, clock, resolution)) as c_int;
        }
        if let Some(resolution) = resolution.as_mut() {
            *resolution = libc::timespec { tv_sec: 0, tv_nsec: 1 };
        }
        0
    }

    /// gettimeofday(2)
    fn gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
        if let Some(time) = time.as_mut() {
            *time = timeval(EPOCH_S, read_whole_us() / US);
        }
        if !zone.is_null() {
            zone.cast::<[c_int; 2]>().write([0, 0]);
        }
        0
    }

    /// time(2)
    fn time(time: *mut libc::time_t) -> libc::time_t {
        let now = (EPOCH_S + timeline::read(Source::Clock) / (NS * NS_PER_S)) as libc::time_t;
        if let Some(time) = time.as_mut() {
            *time = now;
        }
        now
    }

    /// timespec_get(3) of C11
    fn timespec_get(time: *mut libc::timespec, base: c_int) -> c_int {
        if base != 1 {
            return 0;
        }
        *time = timespec(EPOCH_S, timeline::read(Source::Clock));
        base
    }

    /// clock(3)
    fn clock() -> libc::clock_t {
        (timeline::read(Source::Clock) / US) as libc::clock_t
    }

    /// times(2): the ticks are virtual, the processor times are those of the machine.
    fn times(buffer: *mut libc::tms) -> libc::clock_t {
        next(buffer);
        (BOOTED_S * 100 + timeline::read(Source::Clock) / (10_000 * US)) as libc::clock_t
    }

    /// clock_settime(2): virtual time cannot be set.
    fn clock_settime(_clock: libc::clockid_t, _time: *const libc::timespec) -> c_int {
        sys::fail(libc::EPERM)
    }
}
