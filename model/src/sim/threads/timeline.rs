//! What others hold: a process's part in the simulated time of its net.

use std::sync::Arc;

use super::{Starting, Threads};
use crate::packet::PortId;
use crate::profile::Profile;
use crate::sim::programs::streams::{Key, Wait};
use crate::sim::programs::watched::Watched;
use crate::sim::switch::Counts;

/// A process's part in the simulated time of a net; see the methods of the same names.
#[derive(Clone)]
pub struct Timeline(Arc<Threads>);

impl Timeline {
    pub(crate) fn new(threads: Arc<Threads>) -> Self {
        Timeline(threads)
    }

    /// The timing in use.
    pub fn profile(&self) -> &Profile {
        self.0.profile()
    }

    /// Events that were executed in this net so far.
    pub fn events(&self) -> u64 {
        self.0.must_lock().sim().executed
    }

    /// What happened so far at the switch's port to a card's port, the bytes that wait for it, and the time (ps) of that.
    /// `None`: there is no switch.
    pub fn switch_port(&self, port: PortId) -> Option<(Counts, u64, u64)> {
        let mut held = self.0.must_lock();
        let sim = held.sim();
        let (counts, waits) = sim.switch.counts(port, sim.now);
        sim.switch.is_on().then_some((counts, waits, sim.now))
    }

    /// This thread's clock (ps).
    #[inline]
    pub fn clock(&self) -> u64 {
        self.0.clock()
    }

    /// A counter that changes with each call of the program.
    #[inline]
    pub fn calls(&self) -> u64 {
        self.0.calls()
    }

    /// For a thread that waits for interrupts, to be called every half second: says once if a thread of the process
    /// waits for one of `pipes` (inodes), which only that thread writes to, and nothing can come any more.
    pub fn look_for_standstill(&self, pipes: impl FnOnce() -> Vec<u64>) {
        self.0.look_for_standstill(pipes);
    }

    /// Whether both are of the same net.
    pub fn same(&self, other: &Timeline) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

macro_rules! delegate {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl Timeline {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self $(, $arg: $type)*) $(-> $result)? {
                super::polls::looks();
                self.0.$name($($arg),*)
            })*
        }
    };
}

delegate! {
    /// The program has used `ps`; returns its clock.
    fn spend(&self, ps: u64) -> u64;
    /// The program waits for `ps`, or less if its memory is written; returns its clock.
    fn idle(&self, ps: u64) -> u64;
    /// The thread spins for another one of its process.
    fn set_aside(&self);
    /// The program sleeps until `at` (ps); returns its clock.
    fn sleep_until(&self, at: u64) -> u64;
    /// The thread is about to wait in the kernel for these streams, at most until `deadline`.
    fn block(&self, waits: &[Wait], deadline: u64);
    /// That wait has ended; returns the clock.
    fn unblock(&self) -> u64;
    /// The thread is about to write the bytes of a stream before position `end`.
    fn sent(&self, key: Key, end: u64);
    /// The thread has read the bytes of a stream before position `end`.
    fn received(&self, key: Key, end: u64);
    /// The thread closes the writing end of a stream.
    fn closed(&self, key: Key);
    /// The thread spins on these places of its memory: waits for the next write to them; returns the clock.
    fn memory_wait(&self, watched: Watched) -> u64;
    /// A thread is about to be started: its place; `None`: there is no room.
    fn thread_starts(&self) -> Option<Starting>;
    /// This thread is the one that was to be started.
    fn thread_runs(&self, place: Starting);
    /// It could not be started.
    fn thread_fails(&self, place: Starting);
    /// The program wants SIGALRM at this time (ps).
    fn alarm(&self, at: u64);
}
