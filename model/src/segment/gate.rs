//! The gate of the islands: open, so that threads enter islands, or closed by a thread that wants all the cards.
//!
//! A thread that enters takes the island's lock and then looks at the gate. A thread that closes the gate does so and then
//! looks at the locks. Both write one word and read the other's, so at least one of them sees the other: no thread is
//! within an island when another has all the cards. `tests/tests/islands.rs` runs this file through every interleaving
//! (loom).

use super::atomic::{after_lock, fence, AtomicU32, Ordering};

/// Bit of the gate: closed.
const CLOSED: u32 = 1;
/// What an epoch adds to the gate.
const EPOCH: u32 = 2;

/// Bit 0: closed. Above it, the epoch of the labels: see [`void_labels`](Gate::void_labels).
#[repr(transparent)]
pub struct Gate(pub AtomicU32);

/// Why a thread may not stay in an island.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// Another thread has all the cards, or waits for them.
    Closed,
    /// The label is of another epoch.
    Void,
}

impl Gate {
    /// Whether the calling thread, which has just taken an island's lock, may stay in the island of a label that is of
    /// this `epoch`. If not, it gives the lock back at once.
    #[inline(always)]
    pub fn admits(&self, epoch: u32) -> Result<(), Barred> {
        after_lock();
        // Whatever the last thread with all the cards changed is seen.
        match self.0.load(Ordering::Acquire) {
            gate if gate == epoch => Ok(()),
            gate if gate & CLOSED != 0 => Err(Barred::Closed),
            _ => Err(Barred::Void),
        }
    }

    /// Closes it. Once the lock of each island has been free, the caller, who has the lock of all the cards, has them.
    #[inline]
    pub fn close(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) | CLOSED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Opens it, if it is closed. With the lock of all the cards.
    #[inline]
    pub fn open(&self) {
        let gate = self.0.load(Ordering::Relaxed);
        if gate & CLOSED != 0 {
            self.0.store(gate & !CLOSED, Ordering::Release);
        }
    }

    /// Whether it is closed.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// The epoch of labels that are valid.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & !CLOSED
    }

    /// Begins another epoch. With all the cards.
    pub fn void_labels(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(EPOCH), Ordering::Relaxed);
    }
}
