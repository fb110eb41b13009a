//! Ctrl-C and its relatives: kept for later, so that both sides can be ended in order.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use anyhow::Result;
use model::segment::now_ns;
use thiserror::Error;

const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// When it came (ms of the machine's clock).
static SINCE: AtomicU64 = AtomicU64::new(0);
/// One Ctrl-C may arrive several times in so many ms: from the terminal, and from the command that started this one.
const SAME: u64 = 500;

/// Async-signal-safe, as signal-safety(7) has it.
extern "C" fn note(signal: libc::c_int) {
    let now = now_ns() / 1_000_000;
    if RECEIVED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        SINCE.store(now, Ordering::Relaxed);
    } else if now.saturating_sub(SINCE.load(Ordering::Relaxed)) > SAME {
        // SAFETY: numbers only. It ends the process when this handler has ended.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

/// Notes the first SIGINT, SIGTERM or SIGHUP from now on instead of dying of it. Who sends a second one means it: the process
/// dies of that, whatever it waits for.
pub fn watch() {
    for signal in SIGNALS {
        // SAFETY: the handler only reads the clock and uses atomics, or ends the process.
        unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
    }
}

/// Does nothing.
extern "C" fn ignore(_: libc::c_int) {}

/// From now on a file that may grow no more (`ulimit -f`) is an error of the write and not the end of the process. A program that it
/// starts is not told: a handler does not outlive `exec`.
pub fn survive_file_limits() {
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, ignore as *const () as libc::sighandler_t) };
}

/// Why a command has ended that such a signal came to.
#[derive(Debug, Error)]
#[error("ended by signal {0}")]
pub struct Ended(pub i32);

/// Fails with [`Ended`] if one came: for waits that are over then.
pub fn check() -> Result<()> {
    received().map_or(Ok(()), |signal| Err(Ended(signal).into()))
}

pub fn received() -> Option<i32> {
    match RECEIVED.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(signal),
    }
}

/// The exit code of a command that such a signal has ended, as shells have it.
pub fn exit_code(signal: i32) -> u8 {
    128 + signal as u8
}
