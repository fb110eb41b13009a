//! How a thread waits for another one: it spins for about as long as a hand-over through the kernel takes, and
//! then sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use crate::segment::futex_wait;
use crate::sim::Undisturbed;

/// How long a thread sleeps before it looks again, in case it is the last one.
const NAP: Duration = Duration::from_millis(20);
/// Looks while spinning, of some 25 to 50 ns each. They become fewer where spinning is of no use, because
/// others want the core or the wait is long, and more where it is.
const LOOKS: (u32, u32) = (400, 1600);

/// Looks of this process's next wait.
static NEXT: AtomicU32 = AtomicU32::new(LOOKS.1);

/// Whether whoever is waited for can run meanwhile.
pub(super) fn other_core() -> bool {
    static OTHER: OnceLock<bool> = OnceLock::new();
    *OTHER.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1))
}

/// Waits until the word changes, at most for a nap. True if it has not.
pub(super) fn wait(word: &AtomicU32, seen: u32, asleep: &AtomicU32) -> bool {
    if other_core() {
        let looks = NEXT.load(Ordering::Relaxed);
        for _ in 0..looks {
            if word.load(Ordering::Acquire) != seen {
                NEXT.store((looks * 2).min(LOOKS.1), Ordering::Relaxed);
                return false;
            }
            std::hint::spin_loop();
        }
        NEXT.store((looks / 2).max(LOOKS.0), Ordering::Relaxed);
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
