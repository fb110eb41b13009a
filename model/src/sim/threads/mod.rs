//! A process's threads in simulated time: how their clocks advance.
//!
//! A thread advances its clock without the lock as long as nothing can happen (`HORIZON`); beyond that it takes the
//! segment's lock, executes events, and sleeps where another thread must move first.
//!
//! | module | one idea |
//! |---|---|
//! | [`advance`] | the clock of a thread moves to a time, or to an event |
//! | [`lock`] (`panic_tests`) | the segment's lock, and the threads to wake after the unlock |
//! | [`wait`] | how a thread waits for another one |
//! | [`polls`] | polls that find nothing |
//! | [`cards`] (`bell_tests`) | what a program does to its cards: control operations, doorbells |
//! | [`interrupts`], [`follower`] | waiting for interrupts, and the threads that do nothing else |
//! | [`kernel`] | waits in the kernel, streams, the alarm |
//! | [`places`] | threads start and end |
//! | [`timeline`] | what others hold: a process's part in the simulated time of its net |
//! | [`traced`] | posts and polls for the trace |
#![allow(unsafe_code)]

mod advance;
#[cfg(test)]
mod bell_tests;
mod cards;
mod follower;
mod interrupts;
mod kernel;
mod lock;
#[cfg(test)]
mod panic_tests;
mod places;
mod polls;
mod timeline;
mod traced;
mod wait;

use std::borrow::Borrow;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::net::{Membership, Net};
use crate::profile::Profile;
use crate::segment::Segment;
use crate::sim::env::Step;
use crate::sim::programs::actor::Actor;
use crate::sim::programs::watched::Watched;

pub use advance::on_alarm;
pub use follower::Follower;
pub use lock::give_up;
pub(crate) use places::on_thread_end;
pub use places::{forked, Starting};
pub use timeline::Timeline;
pub(crate) use wait::prepare;

thread_local! {
    /// Before this time the clock may advance without the lock.
    static HORIZON: Cell<u64> = const { Cell::new(0) };
}

/// Calls into the library so far, by all threads of this process.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The threads of one process in the simulated time of a net.
pub(crate) struct Threads<S: Borrow<Segment> = Segment> {
    membership: Membership<S>,
    /// Unique in this process, and not 0: a thread has a place in the simulated time of one net.
    number: u32,
    /// What a step of the simulation leaves. Only with the lock, which at most one thread of a process has.
    step: UnsafeCell<Step>,
}

// SAFETY: `step` is used under the segment's lock only.
unsafe impl<S: Borrow<Segment> + Send> Send for Threads<S> {}
// SAFETY: as above.
unsafe impl<S: Borrow<Segment> + Sync> Sync for Threads<S> {}

impl<S: Borrow<Segment>> Threads<S> {
    pub fn new(membership: Membership<S>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Threads { membership, number, step: UnsafeCell::default() }
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &Segment {
        self.membership.segment()
    }

    /// The cards' area.
    #[inline]
    pub fn net(&self) -> &Net {
        self.membership.net()
    }

    /// The timing in use.
    #[inline]
    pub fn profile(&self) -> &Profile {
        self.net().profile()
    }

    /// Counts the program's calls.
    pub fn calls(&self) -> u64 {
        CALLS.load(Ordering::Relaxed)
    }

    /// An actor, for its atomics.
    #[inline]
    fn actor(&self, place: u16) -> &Actor {
        // SAFETY: only atomics of it are used without the lock.
        unsafe { &(*self.net().sim.get()).actors.all[place as usize] }
    }
}

/// What ends a wait.
#[derive(Clone, Copy)]
enum Until {
    /// The time alone.
    Time,
    /// A queue entry, seen by polls with this period (ps).
    Entry(u64),
    /// A write to these places, seen that many picoseconds later.
    Write(u64, Watched),
}

/// This thread's number.
fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// The program has called the library.
fn called() {
    CALLS.store(CALLS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
