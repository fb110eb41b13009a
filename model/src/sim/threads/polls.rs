//! Polls that find nothing.
//!
//! A program that waits polls again and again, and each empty poll only costs time. After a few of them in a row
//! the next one represents many: it ends with the completion, or after a while without one, for the program may have
//! a deadline of its own, check something else in turn, or count its polls. How long a while is depends on what
//! the program does between its polls, and on whether anything happens at all.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::lock::Held;
use super::{called, Threads, Until};
use crate::segment::Segment;
use crate::sim::programs::stall::{Look, Standstill};
use crate::sim::state::FOREVER;

/// Empty polls in a row that are single polls.
const FEW: u32 = 2;
/// Time (ps) that one poll of a program that only polls represents while events are pending: `WHILE`, the wait so far
/// divided by `PART`, or a wait like the last one, up to `LONGEST`.
const WHILE: u64 = 4_000_000;
const PART: u64 = 8;
const LONGEST: u64 = 1_000_000_000;
/// A program that checks something else between its polls is late by no more than this part of its wait, and by no more
/// than `LOOKING_LONGEST` (ps).
const LOOKING_PART: u64 = 128;
const LOOKING_LONGEST: u64 = 500_000_000;
/// A program that has not checked anything else for this many times as many polls as before has stopped to.
const LOOKS_NO_MORE: u32 = 16;
/// While nothing happens, this many polls in a row are single polls; then one lasts to the next event.
const QUIET: u32 = 1024;
/// Polls between two checks whether anything happens.
const UNSEEN: u64 = 64;

/// A thread's empty polls in a row.
struct Row {
    /// How many.
    polls: Cell<u32>,
    /// The clock at the first.
    since: Cell<u64>,
    /// How long the last row took that ended with a completion; 0: the last one ended without.
    usual: Cell<u64>,
    /// Before this time nothing is going on.
    quiet_until: Cell<u64>,
    /// The program has checked something else since the last poll.
    looked: Cell<bool>,
    /// Polls since it did, and between the last two times; 0: it does not.
    unlooked: Cell<u32>,
    every: Cell<u32>,
    /// Since when time stands still, because nobody is there who could do something.
    stands_since: Cell<Option<Instant>>,
    /// Notices that nothing comes of it.
    still: RefCell<Standstill>,
}

thread_local! {
    static ROW: Row = const { Row::new() };
}

/// The program has found a completion at this time.
#[inline]
pub(super) fn found(now: u64) {
    ROW.with(|row| row.found(now));
}

/// The program polls no more: it gives its cards something to do, or begins on another net.
#[inline]
pub(super) fn row_ends() {
    ROW.with(Row::end);
}

/// The program checks something other than a CQ: a clock, a socket.
#[inline]
pub(super) fn looks() {
    ROW.with(|row| row.looked.set(true));
}

impl Row {
    const fn new() -> Self {
        Row {
            polls: Cell::new(0),
            since: Cell::new(0),
            usual: Cell::new(0),
            quiet_until: Cell::new(0),
            looked: Cell::new(false),
            unlooked: Cell::new(0),
            every: Cell::new(0),
            stands_since: Cell::new(None),
            still: RefCell::new(Standstill::NEW),
        }
    }

    /// The program has found something.
    fn found(&self, now: u64) {
        if self.polls.get() != 0 {
            self.usual.set(self.waited(now));
            self.polls.set(0);
        }
        self.looked.set(false);
    }

    /// The program does something else. If it polled in vain until then, what waits took before says nothing any more.
    fn end(&self) {
        if self.polls.replace(0) != 0 {
            self.usual.set(0);
        }
        self.looked.set(false);
    }

    /// How long the row has lasted.
    fn waited(&self, now: u64) -> u64 {
        now.saturating_sub(self.since.get())
    }

    /// How long a poll may take of a program that only polls. A wait like the last one is a single poll: each return
    /// to the program makes the other programs wait for it.
    fn stretch(&self, now: u64) -> u64 {
        let waited = self.waited(now);
        let as_before = self.usual.get().saturating_mul(2).saturating_sub(waited);
        (waited / PART).max(as_before).clamp(WHILE, LONGEST)
    }

    /// One more poll.
    fn poll(&self) -> u32 {
        let polls = self.polls.get();
        // At the end it goes back to where it is looked at again.
        self.polls.set(polls.checked_add(1).unwrap_or_else(|| polls - (UNSEEN as u32 - 1)));
        if polls == 0 {
            // How often it looks is a matter of one wait: between the waits it does something else.
            self.unlooked.set(0);
        }
        if self.looked.replace(false) {
            if polls != 0 {
                self.every.set(self.unlooked.get().max(1));
            }
            self.unlooked.set(0);
        }
        let unlooked = self.unlooked.get().saturating_add(1);
        self.unlooked.set(unlooked);
        if unlooked / LOOKS_NO_MORE > self.every.get() {
            self.every.set(0);
        }
        polls
    }

    /// Whether time stands still for a program that is `idle`. It waits for a sender of frames that does not talk to it
    /// beforehand, so it does not matter when that is. What is next ends this after `left` (ps) of the machine's time.
    fn stands_still(&self, idle: bool, left: u64) -> bool {
        if !idle {
            self.stands_since.set(None);
            return false;
        }
        let since = self.stands_since.get().unwrap_or_else(Instant::now);
        let stands = since.elapsed().as_nanos() < u128::from(left / 1000);
        self.stands_since.set(stands.then_some(since));
        stands
    }

    /// How long a poll may take of a program that checks something else now and then (ps).
    fn patience(&self, waited: u64) -> u64 {
        let every = self.every.get().max(self.unlooked.get());
        (waited / LOOKING_PART).min(LOOKING_LONGEST) / u64::from(every)
    }
}

impl<S: Borrow<Segment>> Threads<S> {
    /// A poll found nothing.
    pub fn polled_nothing(&self) {
        called();
        let cost = self.profile().host.poll_empty_ps.max(1);
        ROW.with(|row| {
            let polls = row.poll();
            let me = self.me();
            let now = self.actor(me).clock.load(Ordering::Relaxed);
            if polls == 0 {
                row.since.set(now);
                row.quiet_until.set(0);
                row.stands_since.set(None);
                row.still.replace(Standstill::NEW);
            }
            if row.stands_since.get().is_some() && u64::from(polls) % UNSEEN != 0 {
                return;
            }
            let exact = polls < FEW
                || now < row.quiet_until.get()
                || row.every.get() != 0 && row.patience(row.waited(now)) < 2 * cost;
            if exact {
                self.spend(cost);
            } else {
                self.poll_on(row, me, cost);
            }
        });
    }

    /// One poll for many.
    fn poll_on(&self, row: &Row, me: u16, cost: u64) {
        let mut held = self.must_lock();
        let now = self.actor(me).now();
        let time = if row.every.get() != 0 {
            row.patience(row.waited(now))
        } else {
            let member = held.actor(me).member;
            let for_frames = row.polls.get() >= QUIET && held.world().takes_frames(member);
            if !for_frames {
                held = self.check_progress(row, member, held);
            }
            let next = held.sim().next_without(me);
            let idle = for_frames && held.sim().idles(me);
            if row.stands_still(idle, next.saturating_sub(now)) {
                held.sim().idle.stands += 1;
                return;
            }
            let time = row.stretch(now);
            if idle && next > now {
                next - now
            } else if next < now.saturating_add(time) {
                time
            } else if next == FOREVER || row.polls.get() < QUIET {
                row.quiet_until.set(now.saturating_add(UNSEEN * cost).min(next));
                drop(self.spend_held(me, cost, held));
                return;
            } else {
                next - now
            }
        };
        // A completion is found by the same poll, whenever the long one began.
        let target = now.saturating_add(time.next_multiple_of(cost));
        drop(self.advance_held(me, target, Until::Entry(cost), held));
    }

    /// Makes sure that a program does not poll for ever, without a word, for what cannot come.
    fn check_progress<'a>(&'a self, row: &Row, member: u16, mut held: Held<'a>) -> Held<'a> {
        let (executed, alone) = (held.sim().executed, !held.sim().has_others(member));
        let look = row.still.borrow_mut().look_sometimes(executed);
        if look == Look::Moves {
            return held;
        }
        drop(held);
        self.stands_still(look, alone);
        self.must_lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many short waits, and one reading of the clock in one of them, as by the handler of an alarm.
    #[test]
    fn a_look_long_ago_is_forgotten_soon() {
        let row = Row::new();
        for wait in 0..100_000 {
            for poll in 0..4 {
                row.poll();
                if wait == 99_999 && poll == 1 {
                    row.looked.set(true);
                }
            }
            row.end();
        }
        assert_eq!(row.every.get(), 2);
        for _ in 0..100 {
            row.poll();
        }
        assert_eq!(row.every.get(), 0, "it only polls now");
    }

    /// A wait of 50 us is one poll after another one that took as long, and a wait that was given up says nothing.
    #[test]
    fn a_wait_like_the_last_one_is_one_poll() {
        const WAIT: u64 = 50_000_000;
        let row = Row::new();
        let polls_of_a_wait = |from: u64| {
            let mut now = from;
            for polls in 1.. {
                if row.poll() == 0 {
                    row.since.set(now);
                }
                now += row.stretch(now);
                if now >= from + WAIT {
                    row.found(from + WAIT);
                    return polls;
                }
            }
            unreachable!()
        };
        assert!(polls_of_a_wait(0) > 5);
        assert_eq!(polls_of_a_wait(WAIT), 1);
        row.poll();
        row.since.set(5 * WAIT);
        assert_eq!(row.stretch(5 * WAIT), 2 * WAIT);
        assert_eq!(row.stretch(7 * WAIT), (2 * WAIT) / PART, "it takes longer than before");
        row.end();
        assert!(polls_of_a_wait(9 * WAIT) > 5);
        assert_eq!(row.waited(0), 0, "a clock of another net");
    }

    /// However long it polls, whether anything happens is looked at now and then.
    #[test]
    fn polls_are_counted_without_end() {
        let row = Row::new();
        row.polls.set(u32::MAX - 200);
        let looked_at = (0..1000).filter(|_| u64::from(row.poll()) % UNSEEN == 0).count();
        assert!(
            (1000 / UNSEEN as usize - 1..=1000 / UNSEEN as usize + 1).contains(&looked_at),
            "{looked_at}"
        );
        assert!(row.polls.get() >= QUIET);
    }

    /// One look every ten thousand polls of a wait.
    #[test]
    fn a_rare_look_is_known_within_a_wait() {
        let row = Row::new();
        for poll in 1..100_000 {
            row.poll();
            row.looked.set(poll % 10_000 == 0);
        }
        assert_eq!(row.every.get(), 10_000);
    }
}
