//! What an event costs: a push and a pop of the event queue, beside the standard library's heap.
//!
//! `cargo run --release -p model --example event_queue`
//!
//! So many events are pending; each step takes the earliest and puts one in its place, up to two microseconds
//! later, as a card's stages do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use model::sim::heap::Queue;

const CAPACITY: usize = 16 * 1024;
const STEPS: u32 = 2_000_000;

/// Delays of events in picoseconds: pseudo-random, the same in every run.
struct Delays(u64);

impl Delays {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 2_000_000
    }
}

/// Nanoseconds a step, the best of five runs.
fn best(mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e9 / f64::from(STEPS)
    };
    (0..5).map(time).fold(f64::INFINITY, f64::min)
}

fn ours(pending: usize) -> f64 {
    let mut queue = Box::<Queue<CAPACITY>>::default();
    let mut delays = Delays(1);
    let mut order = 0;
    let mut push = |queue: &mut Queue<CAPACITY>, now: u64| {
        order += 1;
        queue.push(now + delays.next(), order, order as u32).expect("it fits");
    };
    for _ in 0..pending {
        push(&mut queue, 0);
    }
    best(|| {
        for _ in 0..STEPS {
            let event = queue.pop().expect("as many as were pushed");
            push(&mut queue, black_box(event).time);
        }
    })
}

fn standard(pending: usize) -> f64 {
    let mut heap = BinaryHeap::with_capacity(CAPACITY);
    let mut delays = Delays(1);
    let mut order = 0;
    let mut push = |heap: &mut BinaryHeap<_>, now: u64| {
        order += 1;
        heap.push(Reverse((now + delays.next(), order, order as u32)));
    };
    for _ in 0..pending {
        push(&mut heap, 0);
    }
    best(|| {
        for _ in 0..STEPS {
            let event = heap.pop().expect("as many as were pushed");
            push(&mut heap, black_box(event).0 .0);
        }
    })
}

fn main() {
    println!("{:>8} {:>14} {:>14}", "pending", "event queue", "BinaryHeap");
    for pending in [16, 64, 256, 1024, 10_000] {
        println!("{pending:>8} {:>11.1} ns {:>11.1} ns", ours(pending), standard(pending));
    }
}
