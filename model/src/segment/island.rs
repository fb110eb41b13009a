//! The lock of an island: queue pairs that share something, and so are run by one thread at a time.
//!
//! Threads in different islands share no line that one of them writes. A thread that needs all the cards
//! ([`super::lock`]) closes the [gate](super::gate) to them.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::gate::Barred;
use super::layout::ISLANDS;
use super::lock::ALL;
use super::reach::Reach;
use super::robust::{Held, Live};
use super::{now_ns, Segment};

/// An island, entered by this thread; dropping it leaves. Dropped by a panic it counts as that of a dead holder.
pub struct Island<'a> {
    reach: Reach<'a>,
    held: Held,
}

/// After this time (ns) threads that wait for each other find out anew what hangs together: perhaps a message of the past joined
/// what no message joins now. To join ten thousand connections again then takes a fiftieth of it.
const OLD: u64 = 2_000_000_000;

/// Which island a queue pair, CQ or SRQ belongs to, and since which epoch: void in any other. Zero is void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, crate::plain::Plain)]
#[repr(transparent)]
pub struct Label(pub u64);

impl Label {
    /// The island.
    #[inline(always)]
    pub fn island(self) -> u16 {
        self.0 as u16
    }

    /// Its epoch, as the gate has it when it is open.
    #[inline(always)]
    fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What became of the wish to enter an island.
pub enum Entry<'a> {
    /// This thread is in it.
    Entered(Island<'a>),
    /// Another thread is in it, or has all the cards.
    Busy,
    /// The label is void, or a thread has died in the island: only a thread that has all the cards gets further.
    Closed,
}

impl Segment {
    /// Enters an island if no thread is in it or has all the cards. Never waits.
    #[inline(always)]
    pub fn enter(&self, label: Label) -> Entry<'_> {
        let island = label.island();
        if island == ALL || self.is_detached() {
            return Entry::Closed;
        }
        let lock = &self.control(island).lock;
        let held = match lock.try_take_live() {
            Live::Taken(held) => held,
            Live::Dead => return Entry::Closed,
            Live::Busy => return Entry::Busy,
        };
        if let Err(barred) = self.tables().header.steady.gate.admits(label.epoch()) {
            lock.give(&held);
            // A dead thread leaves the gate closed.
            let repairs = barred == Barred::Void || self.control(ALL).lock.holder_died();
            return if repairs { Entry::Closed } else { Entry::Busy };
        }
        // SAFETY: the lock is held, and no thread has all the cards.
        Entry::Entered(Island { reach: unsafe { Reach::new(self, island) }, held })
    }

    /// Waits until no thread is in an island, or for a moment if one has all the cards; for at most `patience`.
    pub fn wait_outside(&self, label: Label, patience: Duration) {
        match self.is_stopped() {
            true => std::thread::sleep(A_MOMENT.min(patience)),
            false => {
                let until = now_ns().saturating_add(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
                let _ = self.control(label.island()).lock.wait_idle(until);
            }
        }
    }

    /// Whether a thread has all the cards, or waits for them.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.tables().header.steady.gate.is_closed()
    }

    /// Whether the islands are of [long ago](OLD), for one thread: it begins a new epoch if it can, and no other tries before
    /// that time has passed again. A thread that is stopped in its island is in the way of each try.
    pub fn islands_are_old(&self) -> bool {
        let (found, now) = (&self.tables().header.steady.islands_found, now_ns());
        let last = found.load(Ordering::Relaxed);
        now.saturating_sub(last) > OLD
            && found.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether a label is of this epoch.
    #[inline]
    pub fn is_valid(&self, label: Label) -> bool {
        label.island() != ALL && label.epoch() == self.tables().header.steady.gate.epoch()
    }
}

impl Reach<'_> {
    /// The label of an island that is not in use; when there are no more, of one that `any` chooses. With all the cards.
    pub fn new_island(&self, any: u32) -> Label {
        debug_assert_eq!(self.island(), ALL);
        let steady = &self.segment().tables().header.steady;
        let (count, room) = (steady.islands.load(Ordering::Relaxed), ISLANDS as u32 - 1);
        if count == 0 {
            // It is asked for from now on, and nobody is within an island yet.
            steady.gate.close();
        }
        let epoch = steady.gate.epoch();
        let island = if count < room { count + 1 } else { 1 + any % room };
        if count < room {
            steady.islands.store(island, Ordering::Relaxed);
            // No generation of another island or epoch: what was found out about a queue pair there counts no more.
            let first = u64::from(epoch) << 40 | u64::from(island) << 32 | 1;
            self.segment().control(island as u16).generation.store(first, Ordering::Relaxed);
        }
        Label(u64::from(epoch) << 32 | u64::from(island))
    }
}

impl Island<'_> {
    /// Leaves it as a thread that died: the cards may be half changed, and are repaired before anything else happens.
    #[cold]
    pub fn abandon(self) {
        self.control().lock.abandon(&self.held);
        std::mem::forget(self);
    }
}

impl<'a> Deref for Island<'a> {
    type Target = Reach<'a>;

    #[inline(always)]
    fn deref(&self) -> &Reach<'a> {
        &self.reach
    }
}

impl Drop for Island<'_> {
    #[inline]
    fn drop(&mut self) {
        let lock = &self.control().lock;
        match std::thread::panicking() {
            false => lock.give(&self.held),
            true => lock.abandon(&self.held),
        }
    }
}

/// What several islands use, one after the other and for a moment: 0, or the island whose thread uses it.
#[derive(crate::plain::Plain)]
#[repr(transparent)]
pub struct Turn(AtomicU32);

/// Before a thread that waits looks whether the gate is open.
const A_MOMENT: Duration = Duration::from_micros(100);
/// Looks at a turn that is taken before its holder, which may have no core, gets this one.
const SPINS: u32 = 64;

impl Turn {
    /// Waits for its turn, at most `longest` (ns): then its holder is stopped in the middle of a few instructions, and counts
    /// as dead. True if the thread that had it last has died.
    #[inline]
    pub fn take(&self, reach: &Reach<'_>, longest: u64) -> bool {
        let me = u32::from(reach.island()) + 1;
        match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => false,
            Err(_) => self.take_slowly(reach, me, longest),
        }
    }

    #[cold]
    fn take_slowly(&self, reach: &Reach<'_>, me: u32, longest: u64) -> bool {
        let mut until = None;
        for tries in 1_u64.. {
            let found = match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(found) => found,
            };
            // With all the cards, no other thread lives that has it.
            let died = me == 1 || reach.segment().control((found - 1) as u16).lock.holder_died();
            let late = tries % 1024 == 0 && {
                let now = now_ns();
                now > *until.get_or_insert(now + longest)
            };
            if (died || late)
                && self.0.compare_exchange(found, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
            match tries % u64::from(SPINS) {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        false
    }

    /// It is another's turn, unless a late one has taken it already.
    #[inline]
    pub fn give(&self, reach: &Reach<'_>) {
        let me = u32::from(reach.island()) + 1;
        let _ = self.0.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Nobody has it. With all the cards.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }
}
