//! What a reading of the clock costs in virtual time.
//!
//! A program that only waits for its clock to reach some value reads one clock again and again. It is
//! given larger and larger steps, so that it need not read a million times. Anything else that it does
//! ends that, and so does a reading of another clock: a calibration of one clock by another must find
//! the same small step at both ends of each measurement.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

/// The largest cost of a reading, in picoseconds.
const LARGEST_PS: u64 = 500_000_000;

/// What a program reads the time from.
#[derive(Clone, Copy, PartialEq)]
pub enum Source {
    /// The time stamp counter.
    Tsc = 1,
    /// A clock of the C library.
    Clock,
    /// One that shows microseconds.
    Microseconds,
}

impl Source {
    /// The smallest step in picoseconds that a waiting program can see, and after how many such steps in a row the
    /// steps double. A program waits too long by at most one in that number.
    fn steps(self, cost: u64) -> (u64, u64) {
        match self {
            Source::Tsc | Source::Clock => (cost, 128),
            Source::Microseconds => (1_000_000, 4),
        }
    }
}

/// The readings of a process, as far as their price depends on them.
pub struct Price {
    /// Readings in a row.
    readings: AtomicU64,
    /// The [`Source`] of the last one.
    source: AtomicU8,
    /// Calls into the attached library at the last one.
    calls: AtomicU64,
}

impl Price {
    /// No reading yet.
    pub const fn new() -> Price {
        Price { readings: AtomicU64::new(0), source: AtomicU8::new(0), calls: AtomicU64::new(0) }
    }

    /// The program did something other than reading a clock.
    pub fn reset(&self) {
        self.readings.store(0, Ordering::Relaxed);
    }

    /// The cost of a reading of `source` in picoseconds, where a single one costs `cost` and the program has made
    /// `calls` calls into the attached library so far.
    pub fn next(&self, source: Source, cost: u64, calls: u64) -> u64 {
        let other_calls = self.calls.swap(calls, Ordering::Relaxed) != calls;
        if self.source.swap(source as u8, Ordering::Relaxed) != source as u8 || other_calls {
            self.reset();
        }
        let (step, patience) = source.steps(cost);
        match self.readings.fetch_add(1, Ordering::Relaxed) / patience {
            0 => cost,
            times => (step << times.min(16)).min(LARGEST_PS.max(cost)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: u64 = 20_000;

    fn costs(price: &Price, source: Source, count: usize) -> Vec<u64> {
        (0..count).map(|_| price.next(source, COST, 0)).collect()
    }

    #[test]
    fn steps_grow_while_one_clock_is_read() {
        let price = Price::new();
        let costs = costs(&price, Source::Clock, 4000);
        assert!(costs[..128].iter().all(|&cost| cost == COST));
        assert_eq!((costs[128], costs[256]), (2 * COST, 4 * COST));
        assert_eq!(costs[3999], LARGEST_PS);
        assert_eq!(
            price.next(Source::Clock, 2 * LARGEST_PS, 0),
            2 * LARGEST_PS,
            "never below a single reading"
        );
    }

    #[test]
    fn whatever_else_the_program_does_ends_the_growth() {
        let price = Price::new();
        let grown = || assert!(costs(&price, Source::Tsc, 300)[299] > COST);
        grown();
        price.reset();
        assert_eq!(price.next(Source::Tsc, COST, 0), COST);
        grown();
        assert_eq!(price.next(Source::Tsc, COST, 1), COST, "a call into the library");
        price.next(Source::Tsc, COST, 0);
        grown();
        assert_eq!(price.next(Source::Clock, COST, 0), COST, "another clock");
    }

    #[test]
    fn a_clock_of_microseconds_steps_by_them() {
        let price = Price::new();
        assert_eq!(costs(&price, Source::Microseconds, 5), [COST, COST, COST, COST, 2_000_000]);
    }
}
