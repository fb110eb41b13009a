//! Sets everything up before the program's main function.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{alarm, exempt, signals, spin, stream, threads, timeline, timerfd, tsc, wait};
use contract::clock::WAKE_SIGNAL;

#[cfg(not(test))]
#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

#[cfg_attr(test, allow(dead_code))]
extern "C" fn start() {
    exempt::start();
    tsc::handle(0);
    signals::handle(WAKE_SIGNAL, wait::on_wake, 0);
    spin::start();
    threads::started();
    // SAFETY: functions that are never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(after_fork)) };
    tsc::trap(true);
}

static FORKED_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn before_fork() {
    FORKED_AT.store(timeline::now(), Ordering::Relaxed);
    stream::forks();
}

/// In the child.
extern "C" fn after_fork() {
    timeline::forked(FORKED_AT.load(Ordering::Relaxed));
    alarm::forked();
    timerfd::forked();
    threads::forked();
}
