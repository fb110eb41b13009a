//! Who reads what has come to a port. One at a time does, so that packets stay in order: a program that polls in vain, which
//! saves it the wait for another thread (as busy polling of Linux' NAPI does), or else the keeper.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::plain::Plain;

/// For so long after a program has read (ns), the keeper leaves that to programs.
pub const FRESH: u64 = 250_000;
/// Whoever reads for longer (ns) was stopped or has died: others do not wait for it. Longer than cards are waited for.
const LONGEST: u64 = 200_000_000;

/// Zero is a port that nobody reads.
#[derive(Plain)]
#[repr(C)]
pub struct Reading {
    /// When who reads now has begun (ns); 0: nobody does.
    since: AtomicU64,
    /// When a program has read last (ns).
    polled: AtomicU64,
    /// Only the keeper reads.
    kept: AtomicU32,
}

impl Reading {
    /// Reads, from `now` (ns) until what this gives is dropped. `None`: somebody else does.
    pub fn begin(&self, now: u64) -> Option<Turn<'_>> {
        let before = self.since.load(Relaxed);
        let begun =
            !is_reading(before, now) && self.since.compare_exchange(before, now, Acquire, Relaxed).is_ok();
        // Made only then: to drop one ends a turn.
        begun.then(|| Turn { reading: self, since: now })
    }

    /// As [`begin`](Self::begin), in a program that polls.
    pub fn begin_polling(&self, now: u64) -> Option<Turn<'_>> {
        if self.kept.load(Relaxed) != 0 {
            return None;
        }
        let turn = self.begin(now)?;
        self.polled.store(now, Relaxed);
        Some(turn)
    }

    /// Whether only the keeper reads from now on.
    pub fn keep(&self, kept: bool) {
        self.kept.store(kept.into(), Relaxed);
    }

    /// A program is about to sleep.
    pub fn end_polling(&self) {
        self.polled.store(0, Relaxed);
    }

    /// Whether a program reads at `now` (ns), or has just before.
    pub fn is_left_to_programs(&self, now: u64) -> bool {
        now.saturating_sub(self.polled.load(Relaxed)) < FRESH || is_reading(self.since.load(Relaxed), now)
    }
}

/// Whether who began to read then (ns) still does.
fn is_reading(since: u64, now: u64) -> bool {
    since != 0 && now.saturating_sub(since) <= LONGEST
}

/// The right to read.
pub struct Turn<'a> {
    reading: &'a Reading,
    since: u64,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Unless another has taken it meanwhile.
        let _ = self.reading.since.compare_exchange(self.since, 0, Release, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any time but zero.
    const NOW: u64 = 5_000_000_000;

    fn unread() -> Reading {
        Reading { since: AtomicU64::new(0), polled: AtomicU64::new(0), kept: AtomicU32::new(0) }
    }

    #[test]
    fn one_reads_at_a_time() {
        let reading = unread();
        let turn = reading.begin(NOW).expect("nobody reads");
        assert!(reading.begin(NOW + 1).is_none() && reading.begin_polling(NOW + 1).is_none());
        drop(turn);
        assert!(reading.begin_polling(NOW + 2).is_some());
    }

    #[test]
    fn the_keeper_reads_again_soon_after_the_last_poll() {
        let reading = unread();
        assert!(!reading.is_left_to_programs(NOW));
        drop(reading.begin_polling(NOW));
        assert!(reading.is_left_to_programs(NOW) && reading.is_left_to_programs(NOW + FRESH - 1));
        assert!(!reading.is_left_to_programs(NOW + FRESH));
        drop(reading.begin_polling(NOW));
        reading.end_polling();
        assert!(!reading.is_left_to_programs(NOW));
    }

    #[test]
    fn the_keeper_alone_reads_if_it_says_so() {
        let reading = unread();
        reading.keep(true);
        assert!(reading.begin_polling(NOW).is_none() && reading.begin(NOW).is_some());
        reading.keep(false);
        assert!(reading.begin_polling(NOW).is_some());
    }

    #[test]
    fn who_was_stopped_or_has_died_is_not_waited_for() {
        let reading = unread();
        let stopped = reading.begin_polling(NOW).expect("nobody reads");
        assert!(reading.begin(NOW + LONGEST).is_none() && reading.is_left_to_programs(NOW + LONGEST));
        let other = reading.begin(NOW + LONGEST + 1).expect("the first one takes too long");
        // It goes on, and does not end the other's turn.
        drop(stopped);
        assert!(reading.begin(NOW + LONGEST + 2).is_none());
        drop(other);
        assert!(reading.begin(NOW + LONGEST + 3).is_some());
    }
}
