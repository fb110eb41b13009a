//! Waiting for signals: sigwait and its kind.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;

use crate::lock::timed;
use crate::next::replace;
use crate::read_clock::{from_timespec, timespec, NS};
use crate::signals::{self, bit};
use crate::wait::wait_for;
use crate::{alarm, sys, timeline};
use contract::clock::{TICK_SIGNAL, WAKE_SIGNAL};

type Set = *const libc::sigset_t;
type Info = *mut libc::siginfo_t;
type Time = *const libc::timespec;

/// Waits by `call`, which the signal that ends a wait of the timeline's interrupts when an alarm rings.
fn until_signal(mut call: impl FnMut() -> c_int) -> c_int {
    loop {
        let rung = alarm::rung();
        let signal = call();
        if signal != -1 || sys::get_errno() != libc::EINTR || alarm::rung() == rung {
            return signal;
        }
    }
}

replace! {
    /// sigwait(3)
    fn sigwait(set: Set, signal: *mut c_int) -> c_int {
        wait_for(|| next(set, signal))
    }

    /// sigwaitinfo(2)
    fn sigwaitinfo(set: Set, info: Info) -> c_int {
        until_signal(|| wait_for(|| next(set, info)))
    }

    /// sigtimedwait(2)
    fn sigtimedwait(set: Set, info: Info, time: Time) -> c_int {
        let Some(time) = time.as_ref() else { return sigwaitinfo(set, info) };
        let Some(after) = from_timespec(0, time) else {
            return sys::fail(libc::EINVAL);
        };
        let came = Cell::new(-1);
        let attempt = |until: libc::timespec| {
            let until_ns = until.tv_sec as u64 * 1_000_000_000 + until.tv_nsec as u64;
            let left = timespec(0, until_ns.saturating_sub(sys::real_ns()) * NS);
            let (time, before) = (&raw const left, signals::blocked());
            // Our own signals would end the call, and wait for the end of this slice.
            signals::set_blocked(before | bit(TICK_SIGNAL) | bit(WAKE_SIGNAL));
            // SAFETY: the caller's arguments, with a time that is valid for the call.
            came.set(unsafe { next(set, info, time) });
            let error = sys::get_errno();
            signals::set_blocked(before);
            match error {
                _ if came.get() != -1 => 0,
                libc::EAGAIN => libc::ETIMEDOUT,
                error => error,
            }
        };
        match timed(timeline::now().saturating_add(after), attempt) {
            0 => came.get(),
            libc::ETIMEDOUT => sys::fail(libc::EAGAIN),
            error => sys::fail(error),
        }
    }
}
