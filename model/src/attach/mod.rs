//! The backend through which a driver uses a modelled card in its own process, in wall-clock mode.
//!
//! The cards of a net lie in a shared [segment](crate::segment). Whoever has work runs them: a doorbell is a store
//! to the segment and then, under a try-lock, a call of the card. Where the lock is busy the work is
//! left to its holder, who looks for it after unlocking ([`runner`]).

mod bells;
mod card;
mod clocked;
mod doorbell;
mod follower;
mod handoff;
mod keeper;
mod limits;
mod net;
#[cfg(test)]
mod panic_tests;
mod queue;
mod routes;
mod runner;
mod served;
pub(crate) mod standstill;
mod traced;
mod wall;
#[cfg(test)]
mod wall_tests;

/// What [`handoff`] is made of; its model check puts others in their place.
mod atomic {
    use std::sync::atomic::{compiler_fence, fence};
    pub use std::sync::atomic::{AtomicU64, Ordering};

    /// Long enough for another to post and take the lock: some 2 us.
    #[cold]
    pub fn a_moment() {
        (0..64).for_each(|_| std::hint::spin_loop());
    }

    /// Between a note and the second try of the lock.
    pub fn after_note() {
        fence(Ordering::SeqCst);
    }

    /// Between an unlock and the look at the notes. On x86 the mutex is unlocked by a locked exchange,
    /// which orders as a fence does.
    #[inline]
    pub fn after_unlock() {
        if cfg!(target_arch = "x86_64") {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

pub(crate) use bells::{owner, Bells};
pub(crate) use net::Interrupts;

pub use crate::sim::actors::Watched;
pub use crate::sim::Wait;
pub use card::{OpenError, SegmentCard};
pub use clocked::{forked, on_alarm, simulated_time, Clocked, Starting};
pub use follower::Follower;
pub use keeper::{default_socket, run_keeper, run_keeper_of, NetOptions};
pub use limits::{limits, mbps};
pub use net::capture_lost;
pub use served::{ServedCard, VECTORS};
pub use standstill::{read_patience, PATIENCE_VARIABLE};
