//! Queue pairs that could not be run when they had to be.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::SegQueue;

use super::scratch::Again;
use crate::device::tables::MAX_QPS;
use crate::world::MAX_CARDS;

/// Words of a set of queue pairs.
const WORDS: usize = MAX_CARDS * MAX_QPS / 64;

/// First in, first out; each queue pair is in it once, and once more if it needs all the cards.
pub(super) struct Pending {
    queue: SegQueue<Again>,
    /// What is in the queue.
    noted: Box<[[AtomicU64; WORDS]; 2]>,
}

impl Default for Pending {
    fn default() -> Self {
        Pending {
            queue: SegQueue::new(),
            noted: Box::new([const { [const { AtomicU64::new(0) }; WORDS] }; 2]),
        }
    }
}

impl Pending {
    fn bit(&self, Again { card, qp, all }: Again) -> (&AtomicU64, u64) {
        let at = usize::from(card) * MAX_QPS + usize::from(qp);
        (&self.noted[usize::from(all)][at / 64 % WORDS], 1 << (at % 64))
    }

    /// Adds a queue pair, unless it is there.
    pub fn push(&self, again: Again) {
        let (word, bit) = self.bit(again);
        if word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.queue.push(again);
        }
    }

    /// Takes the oldest one. What comes to be done for it from now on makes it pending again.
    pub fn pop(&self) -> Option<Again> {
        let again = self.queue.pop()?;
        let (word, bit) = self.bit(again);
        word.fetch_and(!bit, Ordering::AcqRel);
        Some(again)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_pair_is_pending_once() {
        let pending = Pending::default();
        let (one, other) = (Again { card: 1, qp: 70, all: false }, Again { card: 1, qp: 70, all: true });
        for _ in 0..3 {
            pending.push(one);
            pending.push(other);
        }
        assert_eq!((pending.pop(), pending.pop(), pending.pop()), (Some(one), Some(other), None));
        pending.push(one);
        assert_eq!((pending.len(), pending.pop(), pending.is_empty()), (1, Some(one), true));
    }
}
