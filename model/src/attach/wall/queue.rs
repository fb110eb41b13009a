//! The work queue of a run: first in, first out, in place.
//!
//! Packets are over a hundred bytes: they are written once into a slot and processed there. Only when
//! a run has more in flight than the ring holds, items take the detour through a growing queue.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::mem::MaybeUninit;

use crate::packet::Packet;

/// Work of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A packet or train arrives.
    Packet(Packet),
    /// A send queue may have something to do.
    Send {
        /// Card.
        card: u16,
        /// QP index.
        qp: u16,
    },
}

/// Slots of the ring.
const SLOTS: u32 = 256;

/// See the module.
pub(in crate::attach) struct WorkQueue {
    slots: Box<[UnsafeCell<MaybeUninit<Work>>]>,
    head: u32,
    tail: u32,
    /// The slot at `head` is being processed.
    busy: bool,
    overflow: VecDeque<Work>,
}

impl Default for WorkQueue {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        WorkQueue { slots, head: 0, tail: 0, busy: false, overflow: VecDeque::new() }
    }
}

impl WorkQueue {
    /// Adds work at the end.
    #[inline(always)]
    pub fn push(&mut self, work: Work) {
        if self.tail.wrapping_sub(self.head) < SLOTS && self.overflow.is_empty() {
            self.write(work);
        } else {
            self.overflow.push_back(work);
        }
    }

    /// Adds a blank packet at the end, to be filled in its place.
    #[inline(always)]
    pub fn send(&mut self) -> &mut Packet {
        let work = if self.tail.wrapping_sub(self.head) < SLOTS && self.overflow.is_empty() {
            self.write(Work::Packet(Packet::BLANK))
        } else {
            self.overflow.push_back(Work::Packet(Packet::BLANK));
            self.overflow.back_mut().expect("just pushed")
        };
        match work {
            Work::Packet(packet) => packet,
            Work::Send { .. } => unreachable!("a packet was written"),
        }
    }

    #[inline(always)]
    fn write(&mut self, work: Work) -> &mut Work {
        let slot = &self.slots[(self.tail % SLOTS) as usize];
        // SAFETY: the slot at `tail` is neither queued nor being worked on.
        let place = unsafe { (*slot.get()).write(work) };
        self.tail = self.tail.wrapping_add(1);
        place
    }

    /// Whether nothing waits and nothing is being processed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail && self.overflow.is_empty()
    }

    /// The next work. It stays in its place, untouched by `push`, until the next call.
    #[inline]
    pub fn next(&mut self) -> Option<*const Work> {
        if std::mem::take(&mut self.busy) {
            self.head = self.head.wrapping_add(1);
        }
        if self.head == self.tail {
            self.refill()?;
        }
        self.busy = true;
        Some(self.slots[(self.head % SLOTS) as usize].get().cast_const().cast())
    }

    #[inline]
    fn refill(&mut self) -> Option<()> {
        if self.overflow.is_empty() {
            return None;
        }
        for _ in 0..SLOTS {
            let Some(work) = self.overflow.pop_front() else { break };
            self.write(work);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(work: *const Work) -> u16 {
        // SAFETY: as `next` returned it.
        match unsafe { *work } {
            Work::Send { qp, .. } => qp,
            Work::Packet(_) => unreachable!("only sends were pushed"),
        }
    }

    #[test]
    fn order_is_kept_through_overflow() {
        let mut queue = WorkQueue::default();
        let (mut pushed, mut popped) = (0u16, 0u16);
        for round in 0..2000u16 {
            for _ in 0..round % 5 {
                queue.push(Work::Send { card: 0, qp: pushed });
                pushed += 1;
            }
            if round % 3 != 0 {
                if let Some(work) = queue.next() {
                    queue.push(Work::Send { card: 0, qp: pushed });
                    pushed += 1;
                    assert_eq!(number(work), popped);
                    popped += 1;
                }
            }
        }
        while let Some(work) = queue.next() {
            assert_eq!(number(work), popped);
            popped += 1;
        }
        assert_eq!(pushed, popped);
        assert!(pushed > SLOTS as u16 * 4);
    }
}
