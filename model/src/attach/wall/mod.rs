//! Cards in wall-clock time: whichever thread has work runs them at once, with the segment's lock.
//!
//! | module | one idea |
//! |---|---|
//! | [`card`] | the driver's backend |
//! | [`runner`] (`panic_tests`) | runs the cards until nothing is left to do |
//! | [`doorbell`] | the doorbell of a send queue: the express lane, without the rest |
//! | [`handoff`] | a thread that finds the lock taken leaves its work to the lock holder |
//! | [`mod@env`] | what the cards ask of their surroundings, answered at once |
//! | [`lane`] | what the express lane asks of them |
//! | [`queue`], [`scratch`] | the work of one run, and what a process keeps between runs |
//! | [`routes`] | what this process knows of connections, for the express lane |

pub(super) mod card;
mod doorbell;
mod env;
#[cfg(test)]
mod env_tests;
mod handoff;
mod lane;
#[cfg(test)]
mod panic_tests;
mod queue;
mod routes;
pub(super) mod runner;
mod scratch;

/// What [`handoff`] is made of; its model check replaces it.
mod atomic {
    use std::sync::atomic::{compiler_fence, fence};
    pub use std::sync::atomic::{AtomicU64, Ordering};

    /// Long enough for another thread to post and take the lock: some 2 us.
    #[cold]
    pub fn a_moment() {
        (0..64).for_each(|_| std::hint::spin_loop());
    }

    /// Between the mark and the second try of the lock.
    pub fn after_mark() {
        fence(Ordering::SeqCst);
    }

    /// Between an unlock and the check for pending work. On x86 the mutex is unlocked by a locked exchange,
    /// which orders like a fence.
    #[inline]
    pub fn after_unlock() {
        if cfg!(target_arch = "x86_64") {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}
