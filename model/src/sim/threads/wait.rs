//! How a thread waits for another one: it spins for about as long as a hand-over through the kernel takes, and
//! then sleeps. It does not spin on the core that the other one needs.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use crate::segment::futex_wait;
use crate::sim::programs::actor::Actor;
use crate::sim::programs::signal::Undisturbed;
use crate::sim::programs::stall::patience;

/// How long a thread sleeps before it checks again, in case it is the last one.
const NAP: Duration = Duration::from_millis(20);
/// Checks while spinning, of some 15 to 50 ns each: at least and at most. The most takes many times as long as a wake on
/// a machine that wakes slowly: a thread that falls asleep makes the other one wait for that long, which then falls
/// asleep as well, and so on. They become fewer where spinning was of no use, and more where it was.
const LOOKS: (u32, u32) = (1000, 16000);
/// Least number of checks of a thread that waits for another one to reach some time: the wait is short.
const LEAST_FOR_TIME: u32 = 2000;

/// Checks of this process's next wait for something to happen, and for a time.
static NEXT: [AtomicU32; 2] = [const { AtomicU32::new(LOOKS.1) }; 2];

/// Whether the thread that is waited for can run meanwhile.
pub(super) fn other_core() -> bool {
    static OTHER: OnceLock<bool> = OnceLock::new();
    *OTHER.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1))
}

/// Finds out in advance what waits have to know. How often a thread waits depends on how busy the machine is; an
/// allocation there would move a program's next buffer, and its address is in frames.
pub(crate) fn prepare() {
    other_core();
    patience();
}

/// The core that this thread runs on.
#[inline]
pub(super) fn core() -> u32 {
    // SAFETY: has no arguments; what fails is -1.
    unsafe { libc::sched_getcpu() as u32 }
}

/// Waits until the actor's word changes, at most for a nap. True if it has not. `beside`: the thread that is waited for
/// can run meanwhile. `for_time`: only for others to reach some time.
pub(super) fn wait(me: &Actor, seen: u32, beside: bool, for_time: bool) -> bool {
    let (word, asleep) = (&me.word, &me.asleep);
    if beside {
        let next = &NEXT[usize::from(for_time)];
        let looks = next.load(Ordering::Relaxed);
        for _ in 0..looks {
            if word.load(Ordering::Acquire) != seen {
                next.store((looks * 2).min(LOOKS.1), Ordering::Relaxed);
                return false;
            }
            std::hint::spin_loop();
        }
        let least = if for_time { LEAST_FOR_TIME } else { LOOKS.0 };
        next.store((looks / 2).max(least), Ordering::Relaxed);
    }
    let undisturbed = Undisturbed::new();
    asleep.store(1, Ordering::SeqCst);
    if word.load(Ordering::SeqCst) == seen {
        futex_wait(word, seen, Some(NAP));
    }
    asleep.store(0, Ordering::SeqCst);
    drop(undisturbed);
    word.load(Ordering::Acquire) == seen
}
