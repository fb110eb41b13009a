//! Locks for groups of queue pairs, and a way to stop all groups, in every interleaving of a few threads
//! (`cargo test -p tests --test groups`): one thread at a time has a group, none has one while another thread has
//! stopped all, and no doorbell is lost.
//!
//! The protocol in the abstract. Queue pairs that share something (a connection, a CQ, an SRQ) form a group, which has
//! a lock and pending bits. A thread that rings takes the group's lock and then checks `stop`: if it is set, it gives
//! the lock back and waits for the net's lock. A control operation takes the net's lock, sets `stop`, and waits until
//! each group's lock has been free once. Both write one word and then read the other's, with a fence in between, so at
//! least one of them sees the other. A thread that finds a group's lock taken leaves its doorbell pending and tries
//! once more; a holder checks the pending bits after the unlock.
//!
//! Control operations move queue pairs to other groups. So the holder of a lock checks again of which group a queue
//! pair is, and passes on what has moved.
#![allow(unsafe_code)]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{fence, AtomicU64, Ordering};
use loom::sync::{Mutex, MutexGuard};

/// Queue pairs, and groups that they may be in.
const QUEUES: usize = 2;

/// Mistakes that the check has to find.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// No fence between the own lock and the look at `stop`.
    NoFence,
    /// The pending bits are checked before the unlock only.
    EarlyCheck,
    /// A poster that sees `stop` gives the lock back and leaves, as if it had found it taken.
    Deserts,
    /// A holder runs what is pending in its group, whatever has moved since.
    OldGroup,
}

struct Group {
    lock: AtomicU64,
    /// Bit n: queue pair n.
    pending: AtomicU64,
}

struct Queue {
    group: AtomicU64,
    bell: AtomicU64,
    /// How far the card has looked at the doorbell: only with the group's lock, or when all groups are stopped.
    seen: UnsafeCell<u64>,
}

struct Net {
    mistake: Mistake,
    lock: Mutex<()>,
    stop: AtomicU64,
    groups: [Group; QUEUES],
    queues: [Queue; QUEUES],
}

// SAFETY: `seen` is used under the locks only; loom checks that.
unsafe impl Sync for Net {}
// SAFETY: as above.
unsafe impl Send for Net {}

fn try_lock(lock: &AtomicU64) -> bool {
    lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

impl Net {
    /// Queue pair n is in group `groups[n]`.
    fn new(groups: [u64; QUEUES], mistake: Mistake) -> Net {
        let word = AtomicU64::new;
        Net {
            mistake,
            lock: Mutex::new(()),
            stop: word(0),
            groups: [(); QUEUES].map(|()| Group { lock: word(0), pending: word(0) }),
            queues: groups.map(|group| Queue { group: word(group), bell: word(0), seen: UnsafeCell::new(0) }),
        }
    }

    fn wait_for_net(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().expect("no thread panics with it")
    }

    /// Takes a group; false if another thread has it. Waits for a control operation.
    fn take(&self, group: usize) -> bool {
        let lock = &self.groups[group].lock;
        while try_lock(lock) {
            if self.mistake != Mistake::NoFence {
                fence(Ordering::SeqCst);
            }
            if self.stop.load(Ordering::Acquire) == 0 {
                return true;
            }
            lock.store(0, Ordering::Release);
            if self.mistake == Mistake::Deserts {
                return false;
            }
            drop(self.wait_for_net());
        }
        false
    }

    /// A doorbell.
    fn ring(&self, queue: usize, value: u64) {
        self.queues[queue].bell.store(value, Ordering::Release);
        self.kick(queue);
    }

    /// Runs a queue pair, or leaves it to the holder of its group.
    fn kick(&self, queue: usize) {
        let group = self.queues[queue].group.load(Ordering::Relaxed) as usize;
        if self.take(group) {
            let moved = self.run(group, 1 << queue);
            self.give_back(group, moved);
        } else {
            self.groups[group].pending.fetch_or(1 << queue, Ordering::Release);
            fence(Ordering::SeqCst);
            self.run_pending(group);
        }
    }

    /// With the group's lock: runs queue pairs; those that have moved are left.
    fn run(&self, group: usize, queues: u64) -> u64 {
        let mut moved = 0;
        for queue in (0..QUEUES).filter(|queue| queues & 1 << queue != 0) {
            // Only control operations change it, and there is none now.
            let own = self.queues[queue].group.load(Ordering::Relaxed) as usize == group;
            if own || self.mistake == Mistake::OldGroup {
                self.look(queue);
            } else {
                moved |= 1 << queue;
            }
        }
        moved
    }

    fn look(&self, queue: usize) {
        let Queue { bell, seen, .. } = &self.queues[queue];
        let bell = bell.load(Ordering::Acquire);
        // SAFETY: the group's lock is held, or all are stopped.
        seen.with_mut(|seen| unsafe { *seen = bell });
    }

    /// Gives a group back; does what was left meanwhile, and what has moved.
    fn give_back(&self, group: usize, moved: u64) {
        let Group { lock, pending } = &self.groups[group];
        let early = pending.load(Ordering::Relaxed);
        lock.store(0, Ordering::Release);
        fence(Ordering::SeqCst);
        let left = pending.load(Ordering::Relaxed);
        if (if self.mistake == Mistake::EarlyCheck { early } else { left }) != 0 {
            self.run_pending(group);
        }
        (0..QUEUES).filter(|queue| moved & 1 << queue != 0).for_each(|queue| self.kick(queue));
    }

    /// Does the pending work of a group, unless another thread has it, who then does.
    fn run_pending(&self, group: usize) {
        if self.take(group) {
            let queues = self.groups[group].pending.swap(0, Ordering::Acquire);
            let moved = self.run(group, queues);
            self.give_back(group, moved);
        }
    }

    /// A control operation: stops all groups, and works. It leaves without work where it would have to wait for the
    /// holder of a group: loom would let it wait for ever, and what comes after the wait is what comes of a later start.
    fn control(&self, work: impl FnOnce(&Net)) {
        let _net = self.wait_for_net();
        self.stop.store(1, Ordering::Relaxed);
        if self.mistake != Mistake::NoFence {
            fence(Ordering::SeqCst);
        }
        if self.groups.iter().all(|group| group.lock.load(Ordering::Acquire) == 0) {
            work(self);
        }
        self.stop.store(0, Ordering::Release);
    }
}

/// A thread for each queue pair rings it some times while this thread does something else; then all doorbells have been
/// seen.
fn check(groups: [u64; QUEUES], rings: [u64; QUEUES], mistake: Mistake, other: fn(&Net)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let net = Arc::new(Net::new(groups, mistake));
        let posters: Vec<_> = (0..QUEUES)
            .filter(|&queue| rings[queue] != 0)
            .map(|queue| {
                let net = net.clone();
                loom::thread::spawn(move || (1..=rings[queue]).for_each(|value| net.ring(queue, value)))
            })
            .collect();
        other(&net);
        posters.into_iter().for_each(|poster| poster.join().expect("it ends"));
        // SAFETY: no other thread is left.
        let seen = net.queues.each_ref().map(|queue| queue.seen.with(|seen| unsafe { *seen }));
        assert_eq!(seen, rings, "a doorbell was lost");
    });
}

/// A control operation looks at all queue pairs.
fn looks(net: &Net) {
    net.control(|net| (0..QUEUES).for_each(|queue| net.look(queue)));
}

/// Control operations put both queue pairs into one group, and into two again.
fn joins_and_parts(net: &Net) {
    for group in [0, 1] {
        net.control(|net| net.queues[1].group.store(group, Ordering::Relaxed));
    }
}

#[test]
fn two_posters_of_one_group() {
    check([0, 0], [2, 2], Mistake::None, |_| ());
}

#[test]
fn a_poster_and_control_operations() {
    check([0, 1], [2, 0], Mistake::None, |net| (0..2).for_each(|_| looks(net)));
}

#[test]
fn two_posters_of_one_group_and_a_control_operation() {
    check([0, 0], [1, 1], Mistake::None, looks);
}

#[test]
fn two_posters_of_two_groups_and_a_control_operation() {
    check([0, 1], [1, 1], Mistake::None, looks);
}

#[test]
fn a_queue_pair_moves_between_groups() {
    check([0, 1], [1, 1], Mistake::None, joins_and_parts);
}

/// The check finds what it is there to find.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_fences_a_poster_and_a_control_operation_overlap() {
    check([0, 1], [1, 0], Mistake::NoFence, looks);
}

#[test]
#[should_panic(expected = "a doorbell was lost")]
fn pending_bits_that_are_checked_before_the_unlock_are_lost() {
    check([0, 0], [1, 1], Mistake::EarlyCheck, |_| ());
}

#[test]
#[should_panic(expected = "a doorbell was lost")]
fn a_poster_that_leaves_before_a_control_operation_ends_loses_its_doorbell() {
    check([0, 0], [1, 0], Mistake::Deserts, looks);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_queue_pair_that_has_moved_is_run_by_two() {
    check([0, 0], [1, 1], Mistake::OldGroup, |net| {
        net.control(|net| net.queues[1].group.store(1, Ordering::Relaxed));
        net.kick(1);
    });
}
