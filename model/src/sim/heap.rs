//! The event queue: a heap with four children a node, whose keys are one 128-bit number.

use crate::plain::{zeroed, Plain};

/// An event that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in picoseconds.
    pub time: u64,
    /// Decides between events of the same time. Events that differ in neither come out in an order that
    /// depends on the queue's history: each push gives its own.
    pub order: u64,
    /// What: an index of the owner's.
    pub item: u32,
}

/// The queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event queue is full")]
pub struct Full;

/// Up to `N - 3` events, earliest first. Zero bytes are an empty queue.
#[derive(Plain)]
#[repr(C, align(64))]
pub struct Queue<const N: usize> {
    /// The root is entry 3, so that the four children of a node share a cache line.
    keys: [u128; N],
    items: [u32; N],
    len: u32,
}

const ROOT: usize = 3;

fn parent(at: usize) -> usize {
    at / 4 + 2
}

fn first_child(at: usize) -> usize {
    4 * at - 8
}

fn event(key: u128, item: u32) -> Event {
    Event { time: (key >> 64) as u64, order: key as u64, item }
}

impl<const N: usize> Default for Queue<N> {
    fn default() -> Self {
        zeroed()
    }
}

impl<const N: usize> Queue<N> {
    /// Events in the queue.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// The time of the last event whose item is wanted, by looking at all of them.
    pub fn latest(&self, wanted: impl Fn(u32) -> bool) -> Option<u64> {
        let used = ROOT..ROOT + self.len as usize;
        used.filter(|&at| wanted(self.items[at])).map(|at| (self.keys[at] >> 64) as u64).max()
    }

    /// The times and items of all events, in no order. One that its process was moving when it died may come twice, and
    /// one that has been taken once more.
    pub fn each(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        // While `pop` moves entries, the last one is still behind the end.
        let used = (ROOT..=ROOT + self.len as usize).take_while(|&at| at < N);
        used.map(|at| ((self.keys[at] >> 64) as u64, self.items[at]))
    }

    /// The time of the first wanted event before `end`; reads none that is not before that.
    pub fn first(&self, end: u64, wanted: impl Fn(u32) -> bool) -> Option<u64> {
        let mut first = end;
        self.search(ROOT, &mut first, &wanted);
        (first < end).then_some(first)
    }

    fn search(&self, node: usize, first: &mut u64, wanted: &impl Fn(u32) -> bool) {
        let time = |at: usize| (self.keys[at] >> 64) as u64;
        let end = ROOT + self.len as usize;
        if node >= end || time(node) >= *first {
            return;
        }
        if wanted(self.items[node]) {
            *first = time(node);
            return;
        }
        for child in first_child(node)..first_child(node) + 4 {
            self.search(child, first, wanted);
        }
    }

    /// Nothing is due.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets everything, also what is behind the end: its time may be far in the future.
    pub fn clear(&mut self) {
        self.len = 0;
        self.keys.fill(0);
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<Event> {
        (self.len > 0).then(|| event(self.keys[ROOT], self.items[ROOT]))
    }

    /// Adds an event.
    #[inline]
    pub fn push(&mut self, time: u64, order: u64, item: u32) -> Result<(), Full> {
        let mut at = ROOT + self.len as usize;
        if at >= N {
            return Err(Full);
        }
        self.len += 1;
        let key = u128::from(time) << 64 | u128::from(order);
        while at > ROOT && key < self.keys[parent(at)] {
            self.fill(at, parent(at));
            at = parent(at);
        }
        self.keys[at] = key;
        self.items[at] = item;
        Ok(())
    }

    /// Takes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let earliest = self.peek()?;
        self.len -= 1;
        let end = ROOT + self.len as usize;
        let (key, item) = (self.keys[end], self.items[end]);
        let mut at = ROOT;
        loop {
            let child = first_child(at);
            let Some(next) = self.least(child, end) else { break };
            if key <= self.keys[next] {
                break;
            }
            self.fill(at, next);
            at = next;
        }
        self.keys[at] = key;
        self.items[at] = item;
        Some(earliest)
    }

    /// The earliest of the up to four nodes from `first` on, below `end`.
    #[inline]
    fn least(&self, first: usize, end: usize) -> Option<usize> {
        if first + 4 <= end {
            let keys = &self.keys[first..first + 4];
            let low = usize::from(keys[1] < keys[0]);
            let high = 2 + usize::from(keys[3] < keys[2]);
            return Some(first + if keys[high] < keys[low] { high } else { low });
        }
        (first..end).min_by_key(|&node| self.keys[node])
    }

    #[inline]
    fn fill(&mut self, at: usize, from: usize) {
        self.keys[at] = self.keys[from];
        self.items[at] = self.items[from];
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn full_and_empty() {
        let mut queue = zeroed::<Queue<7>>();
        assert_eq!(queue.pop(), None);
        for n in 0..4 {
            queue.push(10 - n, n, n as u32).unwrap();
        }
        assert_eq!(queue.push(0, 0, 0), Err(Full));
        assert_eq!(queue.peek(), Some(Event { time: 7, order: 3, item: 3 }));
        let times: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|event| event.time).collect();
        assert_eq!(times, [7, 8, 9, 10]);
        assert!(queue.is_empty());
    }

    #[test]
    fn nothing_of_before_a_clear_is_left() {
        let mut queue = zeroed::<Queue<16>>();
        for n in 0..5 {
            queue.push(1000, n, 7).unwrap();
        }
        queue.clear();
        for n in 0..3 {
            queue.push(n, n, n as u32).unwrap();
            assert!(queue.each().all(|(time, _)| time <= n), "{:?}", queue.each().collect::<Vec<_>>());
        }
    }

    #[test]
    fn time_counts_before_order_up_to_the_last_bit() {
        let mut queue = zeroed::<Queue<16>>();
        queue.push(u64::MAX, 0, 1).unwrap();
        queue.push(u64::MAX - 1, u64::MAX, 2).unwrap();
        queue.push(u64::MAX, u64::MAX, 3).unwrap();
        let items: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|event| event.item).collect();
        assert_eq!(items, [2, 1, 3]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64),
        Pop,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few different times, so that the order decides often.
        let push = (0..50u64).prop_map(Step::Push);
        proptest::collection::vec(prop_oneof![3 => push, 2 => Just(Step::Pop)], 0..600)
    }

    proptest! {
        #[test]
        fn the_same_as_the_standard_heap(steps in steps()) {
            let mut queue = zeroed::<Queue<259>>();
            let mut heap = BinaryHeap::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(time) => {
                        // Orders neither rise nor fall: a bijection that mixes.
                        let order = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        let pushed = queue.push(time, order, n as u32);
                        if heap.len() < 259 - ROOT {
                            prop_assert_eq!(pushed, Ok(()));
                            heap.push(Reverse((time, order, n as u32)));
                        } else {
                            prop_assert_eq!(pushed, Err(Full));
                        }
                    }
                    Step::Pop => {
                        let expected = heap.pop().map(|Reverse((time, order, item))| Event { time, order, item });
                        prop_assert_eq!(queue.pop(), expected);
                    }
                }
                let odd = |item: &u32| item % 2 == 1;
                let first = heap.iter().filter(|Reverse(e)| odd(&e.2)).map(|Reverse(e)| e.0).min();
                prop_assert_eq!(queue.first(30, |item| odd(&item)), first.filter(|&time| time < 30));
                prop_assert_eq!(queue.len(), heap.len());
                prop_assert_eq!(queue.peek().map(|event| event.item), heap.peek().map(|Reverse(e)| e.2));
            }
        }
    }
}
