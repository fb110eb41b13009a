//! Waiting on a word of shared memory.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::thread::futex;
use rustix::time::Timespec;

/// Every sleeper, for [`futex_wake`].
pub const ALL_SLEEPERS: u32 = u32::MAX >> 1;

/// Sleeps while `word` holds `expected`, at most for `timeout` (for ever when
/// `None`). True when it was woken or the word had changed already, false when
/// the time was over. May also return true for no reason: look at the word.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> bool {
    let limit = timeout.map(|t| Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: t.subsec_nanos().into(),
    });
    // No PRIVATE flag: the other side may be another process.
    !matches!(
        futex::wait(word, futex::Flags::empty(), expected, limit.as_ref()),
        Err(rustix::io::Errno::TIMEDOUT)
    )
}

/// Counts an event in `word` and wakes everybody who sleeps until it changes.
pub fn futex_raise(word: &AtomicU32) {
    word.fetch_add(1, Ordering::Release);
    futex_wake(word, ALL_SLEEPERS);
}

/// Wakes at most `count` sleepers and returns how many there were.
pub fn futex_wake(word: &AtomicU32, count: u32) -> usize {
    futex::wake(word, futex::Flags::empty(), count).unwrap_or(0)
}
