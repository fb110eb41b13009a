//! What this library exports: a timeline attaches, and other libraries are exempted.
//!
//! A panic in one of these functions ends the process: none of them unwinds into its caller.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use contract::clock as abi;

use crate::{
    alarm, cpuinfo, exempt, io, lock, poll, process, read_clock, seed, signals, sigwait, sleep, threads,
    timeline, timerfd,
};

/// The names of all functions that this library replaces.
const REPLACED: &[&[&str]] = &[
    alarm::REPLACED,
    cpuinfo::REPLACED,
    io::REPLACED,
    lock::REPLACED,
    poll::REPLACED,
    process::REPLACED,
    read_clock::REPLACED,
    seed::REPLACED,
    signals::REPLACED,
    sigwait::REPLACED,
    sleep::REPLACED,
    threads::REPLACED,
    timerfd::REPLACED,
];

fn names() -> impl Iterator<Item = &'static str> {
    REPLACED.iter().flat_map(|names| names.iter().copied())
}

/// See [`abi::Attach`].
///
/// # Safety
/// As [`abi::Attach`]: `table` is valid, its functions stay loaded, `data` fits them.
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn verbena_clock_attach(table: *const abi::Timeline, data: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let table = unsafe { *table };
    if table.version != abi::VERSION {
        return -1;
    }
    exempt::exempt(table.now as usize, names());
    timeline::attach(table, data);
    alarm::tell();
    process::tell_end();
    threads::arm_all();
    0
}

/// See [`abi::LocalNow`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_local_now() -> u64 {
    timeline::now()
}

/// See [`abi::DeliverAlarm`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_deliver_alarm() {
    timeline::deliver_alarm();
}

/// See [`abi::Exempt`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_exempt(inside: *const c_void) -> c_int {
    exempt::exempt(inside as usize, names()).map_or(-1, |patched| patched as c_int)
}
