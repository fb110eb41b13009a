//! The gate of the islands, model/src/segment/gate.rs, in every interleaving of a few threads
//! (`cargo test -p tests --test islands`): no thread has a queue pair that another one has, whether by its island or
//! with all the cards.
#![allow(unsafe_code)]

#[path = "../../model/src/segment/gate.rs"]
#[allow(dead_code)]
mod gate;

/// What the gate is made of, here.
mod atomic {
    pub use loom::sync::atomic::{fence, AtomicU32, Ordering};

    std::thread_local! {
        /// A mistake: no fence between the lock and the look at the gate.
        pub static NO_FENCE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    pub fn after_lock() {
        if !NO_FENCE.get() {
            fence(Ordering::SeqCst);
        }
    }
}

use std::sync::Arc;

use gate::Gate;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Mutex;

/// Mistakes that the check has to find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// No fence between the lock of an island and the look at the gate.
    NoFence,
    /// The label is not read again once its island is entered.
    OldLabel,
    /// A thread that wants all the cards does not wait for those within islands.
    NoWait,
    /// Nor for those who entered when it opened the gate in between.
    NoSecondLook,
}

struct Net {
    mistake: Mistake,
    all: Mutex<()>,
    gate: Gate,
    /// The islands' locks.
    islands: [AtomicU32; 2],
    /// The island of the one queue pair, and the epoch of its label.
    island: AtomicU32,
    epoch: AtomicU32,
    /// What is run: counts the runs.
    queue_pair: UnsafeCell<u32>,
}

// SAFETY: the queue pair is used as the gate allows; loom checks that.
unsafe impl Sync for Net {}
// SAFETY: as above.
unsafe impl Send for Net {}

impl Net {
    fn new(mistake: Mistake) -> Net {
        atomic::NO_FENCE.set(mistake == Mistake::NoFence);
        Net {
            mistake,
            all: Mutex::new(()),
            gate: Gate(AtomicU32::new(0)),
            islands: [AtomicU32::new(0), AtomicU32::new(0)],
            island: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            queue_pair: UnsafeCell::new(0),
        }
    }

    fn run(&self) {
        // SAFETY: what is checked.
        self.queue_pair.with_mut(|runs| unsafe { *runs += 1 });
    }

    fn label(&self) -> (u32, u32) {
        (self.island.load(Ordering::Relaxed), self.epoch.load(Ordering::Relaxed))
    }

    /// Runs the queue pair by its island, if that is possible at once.
    fn try_island(&self) -> bool {
        let label = self.label();
        let lock = &self.islands[label.0 as usize];
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let admitted = self.gate.admits(label.1).is_ok();
        let same = self.mistake == Mistake::OldLabel || self.label() == label;
        if admitted && same {
            self.run();
        }
        lock.swap(0, Ordering::Release);
        admitted && same
    }

    /// Does something with all the cards; opens the gate once in between, as who waits for long does.
    fn all(&self, work: impl FnOnce()) {
        let _held = self.all.lock().unwrap();
        self.gate.close();
        let entered = || self.islands.iter().any(|lock| lock.load(Ordering::Acquire) != 0);
        if self.mistake != Mistake::NoWait && entered() {
            self.gate.open();
            loom::thread::yield_now();
            self.gate.close();
            while self.mistake != Mistake::NoSecondLook && entered() {
                loom::thread::yield_now();
            }
        }
        work();
        self.gate.open();
    }
}

/// Two threads run the queue pair, by its island or with all the cards, while a third one changes its label.
fn check(mistake: Mistake, change: fn(&Net)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let net = Arc::new(Net::new(mistake));
        let runners: Vec<_> = (0..2)
            .map(|_| {
                let net = Arc::clone(&net);
                loom::thread::spawn(move || {
                    if !net.try_island() {
                        net.all(|| net.run());
                    }
                })
            })
            .collect();
        net.all(|| {
            net.run();
            change(&net);
        });
        runners.into_iter().for_each(|runner| runner.join().unwrap());
        // SAFETY: the others have ended.
        assert_eq!(net.queue_pair.with(|runs| unsafe { *runs }), 3, "each thread ran it once");
    });
}

/// Its island becomes a part of another.
fn rename(net: &Net) {
    net.island.store(1, Ordering::Relaxed);
}

/// All labels become void, and the queue pair joins another island of the new epoch.
fn void(net: &Net) {
    net.gate.void_labels();
    net.island.store(1, Ordering::Relaxed);
    net.epoch.store(net.gate.epoch(), Ordering::Relaxed);
}

/// A check that has to find a mistake, whatever loom says of it.
fn finds(mistake: Mistake, change: fn(&Net)) -> bool {
    let checked = std::panic::catch_unwind(|| check(mistake, change));
    atomic::NO_FENCE.set(false);
    checked.is_err()
}

#[test]
fn one_thread_at_a_time_has_a_queue_pair() {
    check(Mistake::None, rename);
    check(Mistake::None, void);
}

#[test]
fn a_missing_fence_is_found() {
    assert!(finds(Mistake::NoFence, rename));
}

#[test]
fn a_label_that_is_not_read_again_is_found() {
    assert!(finds(Mistake::OldLabel, rename));
}

#[test]
fn a_thread_that_does_not_wait_is_found() {
    assert!(finds(Mistake::NoWait, void));
}

#[test]
fn a_missing_second_look_is_found() {
    assert!(finds(Mistake::NoSecondLook, rename));
}
