//! What one process keeps between runs of the cards.

use super::queue::WorkQueue;
use crate::express::Flows;
use crate::link::WireEnd;

/// What one process keeps between runs: only capacity and what it has found out, no state. When it dies in the middle of
/// a run, the contents of the queue are lost like packets on a wire, and the senders' timers repeat them.
#[derive(Default)]
pub(in crate::attach) struct Scratch {
    pub queue: WorkQueue,
    pub stashes: Vec<Vec<u8>>,
    /// Stashes that no packet needs.
    pub free: Vec<u32>,
    /// None within a use of it.
    pub wire: Option<Box<WireEnd>>,
    /// QPs that sent something in this run.
    pub watched: Vec<(u16, u16)>,
    /// QPs to be run again: with all the cards, or after a thread that waits for all of them had them.
    pub again: Vec<Again>,
    /// Who gets frames of its island.
    pub flows: Flows,
}

/// A queue pair that a run could not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::attach) struct Again {
    pub card: u16,
    pub qp: u16,
    /// It needs all the cards.
    pub all: bool,
}

impl Scratch {
    /// A run begins: nothing is in flight.
    #[inline(always)]
    pub fn begin(&mut self) {
        if self.free.len() != self.stashes.len() {
            self.free_all();
        }
    }

    /// What was gathered last time was delivered, or lost with its packets.
    #[cold]
    fn free_all(&mut self) {
        self.stashes.truncate(KEPT);
        self.free = (0..self.stashes.len() as u32).collect();
    }

    /// Frees the memory of a run with much in flight.
    #[inline]
    pub fn end(&mut self) {
        if self.stashes.len() > KEPT {
            self.free_all();
        }
    }

    /// Drops what a panic has left of a run, as if the process had died.
    #[cold]
    pub fn forget(&mut self) {
        self.queue = WorkQueue::default();
        self.wire = None;
        self.watched.clear();
        self.again.clear();
    }
}

/// Gather buffers that may be in flight at a time, and that a process keeps between runs.
pub const KEPT: usize = 64;
