//! Ctrl-C and its relatives: kept for later, so that both sides can be ended in order.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{anyhow, Result};

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: libc::c_int) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Notes the first SIGINT, SIGTERM and SIGHUP from now on instead of dying of it. Who sends a second one means it: the process
/// dies of that, whatever it waits for.
pub fn watch() {
    for signal in SIGNALS {
        // SAFETY: zero is an action; the handler only stores to an atomic, and the call reads the action only.
        unsafe {
            let mut action = std::mem::zeroed::<libc::sigaction>();
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Fails if one came: for waits that are over then.
pub fn check() -> Result<()> {
    received().map_or(Ok(()), |signal| Err(anyhow!("ended by signal {signal}")))
}

/// The signal that came, if any.
pub fn received() -> Option<i32> {
    match RECEIVED.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(signal),
    }
}
