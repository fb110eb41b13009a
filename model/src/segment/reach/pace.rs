//! Which of two ways to copy much is the faster one here, found out while copying.
//!
//! With the owner's thread two cores copy, but each byte crosses from one to the other; alone the kernel copies
//! on one. Which is faster depends on how fast cache lines travel between the two cores, and that differs by
//! a factor of ten between machines, and between two days on a virtual one. So both are timed, and the slower
//! one is tried again now and then.

use crate::plain::plain;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// How long help is tried at a time, in nanoseconds of such copies: long enough to forget the first
/// ones, in which pages are touched for the first time.
const TRIAL_NS: u64 = 1_000_000;
/// From one trial to the next.
const AGAIN_NS: u64 = 25_000_000;

/// What was measured; unknown when zero. Used with the lock held.
#[repr(C)]
pub(in crate::segment) struct Pace {
    /// Picoseconds a KiB, smoothed.
    kernel: AtomicU64,
    helped: AtomicU64,
    /// Begin of the last trial.
    began: AtomicU64,
    /// Spent in it.
    spent: AtomicU64,
}

impl Pace {
    /// The kernel has copied `len` bytes in `ns`.
    pub fn kernel(&self, len: usize, ns: u64) {
        smooth(&self.kernel, len, ns);
    }

    /// The owner's thread has helped to copy `len` bytes in `ns`; none when it did not come.
    pub fn helped(&self, len: usize, ns: u64) {
        self.spent.store(self.spent.load(Relaxed).saturating_add(ns), Relaxed);
        smooth(&self.helped, len, ns);
    }

    /// As before the first copy.
    #[cfg(test)]
    pub fn forget(&self) {
        [&self.kernel, &self.helped, &self.began, &self.spent].iter().for_each(|word| word.store(0, Relaxed));
    }

    /// Whether to ask for help at the time `now` (ns).
    pub fn help_pays(&self, now: u64) -> bool {
        if now.saturating_sub(self.began.load(Relaxed)) >= AGAIN_NS {
            self.began.store(now, Relaxed);
            self.spent.store(0, Relaxed);
        }
        let kernel = self.kernel.load(Relaxed);
        self.spent.load(Relaxed) < TRIAL_NS || kernel == 0 || self.helped.load(Relaxed) <= kernel
    }
}

fn smooth(mean: &AtomicU64, len: usize, ns: u64) {
    if len == 0 {
        return;
    }
    let sample = ns.saturating_mul(1_024_000) / len as u64;
    let old = mean.load(Relaxed);
    // One copy that something else interrupted decides nothing.
    mean.store(if old == 0 { sample } else { old - old / 8 + sample.min(2 * old) / 8 }, Relaxed);
}

plain! {
    Pace { kernel, helped, began, spent }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn pace() -> Pace {
        let zero = || AtomicU64::new(0);
        Pace { kernel: zero(), helped: zero(), began: zero(), spent: zero() }
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_tried_again() {
        let pace = pace();
        let mut now = 1_000_000_000;
        assert!(pace.help_pays(now), "nothing is known");
        pace.kernel(MIB, 100_000);
        let mut copies = 0;
        while pace.help_pays(now) {
            pace.helped(MIB, 200_000);
            now += 200_000;
            copies += 1;
        }
        assert_eq!(copies, 5, "a trial of 1 ms");
        assert!(!pace.help_pays(now + AGAIN_NS / 2), "it is slower");
        now += AGAIN_NS;
        // The machine has changed its mood.
        for _ in 0..50 {
            assert!(pace.help_pays(now));
            pace.helped(MIB, 50_000);
            now += 50_000;
        }
        assert!(pace.help_pays(now), "now it is faster, also after the trial");
    }

    #[test]
    fn an_interruption_decides_nothing() {
        let pace = pace();
        let now = 1_000_000_000;
        pace.kernel(MIB, 100_000);
        assert!(pace.help_pays(now));
        for _ in 0..20 {
            pace.helped(MIB, 50_000);
        }
        pace.helped(MIB, 5_000_000);
        assert!(pace.help_pays(now + 1));
    }

    #[test]
    fn help_that_never_comes_is_not_waited_for_forever() {
        let pace = pace();
        let now = 1_000_000_000;
        pace.kernel(MIB, 100_000);
        assert!(pace.help_pays(now));
        pace.helped(MIB, 200_000);
        for _ in 0..100 {
            pace.helped(0, 20_000);
        }
        assert!(!pace.help_pays(now + 1));
    }
}
