//! Runs the timers of queue pairs, each in its island.
//!
//! The keeper runs those of programs that sleep. A program that polls runs those of its own queue pairs: it has a core,
//! which the keeper may have to wait for.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::ops::Range;
use std::time::Duration;

use super::runner::Runner;
use super::scratch::Again;
use crate::cells::QpBells;
use crate::env::Env;
use crate::journal;
use crate::segment::{now_ns, Entry, Island, LockError, Segment};
use crate::world::World;

/// When the keeper tries again to run what a thread was in the way of (ns).
const SOON: u64 = 2_000_000;

/// What became of the timers that were due.
struct Run {
    /// Some could not be run, since a thread was in the way.
    left: bool,
    /// Queue pairs that need all the cards for it.
    closed: Vec<Again>,
    /// The earliest deadline of those that were not due.
    next: Option<u64>,
}

impl<S: Borrow<Segment>> Runner<S> {
    /// For the keeper: runs all timers that are due, and waits for the cards for at most `patience` if it needs all of
    /// them. Returns when to look again (ns).
    pub fn run_timers(&self, patience: Duration) -> Result<Option<u64>, LockError> {
        if self.segment().is_condemned() {
            return Err(LockError::Condemned);
        }
        self.run_pending();
        // SAFETY: read as it may change at any time; set once, before any process can attach.
        let (count, managers) = unsafe {
            let world: *const World = self.net().world.get();
            ((*world).count(), (&raw const (*world).cm.soonest).read_volatile())
        };
        // SAFETY: as above, within the cards.
        let lacp = |card| unsafe { (&raw const (*self.net().card(card)).lacp_due).read_volatile() };
        let negotiates = (0..count).map(lacp).filter(|&at| at != 0).min();
        let run = self.run_due(0..count, |_| true);
        let late = || self.net().link.late_at();
        let managers = Some(managers).filter(|&at| at != 0);
        let is_due = [managers, negotiates, late()].into_iter().flatten().any(|at| at <= now_ns());
        if !run.closed.is_empty() || is_due || (0..count).any(|card| self.net().moderates(card)) {
            let next = self.control_within(patience, |world, env| world.run_timers(env))?;
            return Ok([next, self.again(false), late()].into_iter().flatten().min());
        }
        Ok([run.next, self.again(run.left), managers, negotiates, late()].into_iter().flatten().min())
    }

    /// When the keeper looks again if something is `left` to do.
    fn again(&self, left: bool) -> Option<u64> {
        (left || self.has_pending()).then(|| now_ns() + SOON)
    }

    /// For a program that polls: runs the timers of its queue pairs on a card that are due.
    #[cold]
    pub fn run_own_timers(&self, card: u16, own: impl Fn(&QpBells) -> bool) {
        let closed = self.run_due(card..card + 1, own).closed;
        if let Some(guard) = closed.first().and_then(|_| self.segment().try_lock()) {
            self.run_all(guard, |world, env| {
                for of in closed {
                    env.note(journal::one(of.card, of.qp.into()));
                    world.cards[of.card as usize].run_timer(of.qp.into(), env);
                }
            });
        }
    }

    fn run_due(&self, cards: Range<u16>, which: impl Fn(&QpBells) -> bool) -> Run {
        let now = now_ns();
        let mut run = Run { left: false, closed: Vec::new(), next: None };
        for card in cards {
            for qp in self.net().timers(card).armed().filter(|&qp| which(self.bells(card, qp as u16))) {
                let at = self.deadline(card, qp);
                if at > now {
                    run.next = Some(run.next.map_or(at, |next| next.min(at)));
                    continue;
                }
                let of = Again { card, qp: qp as u16, all: false };
                match self.enter(of) {
                    Entry::Entered(island) => self.run_timer(island, of),
                    Entry::Busy => run.left = true,
                    Entry::Closed => run.closed.push(of),
                }
            }
        }
        run
    }

    /// Runs the timer of a queue pair, if it is due still, and what that leads to.
    fn run_timer(&self, island: Island<'_>, Again { card, qp, .. }: Again) {
        let again = self.run(&island, |world, env| {
            env.note(journal::one(card, qp.into()));
            world.cards[card as usize].run_timer(qp.into(), env);
            env.finish(world)
        });
        drop(island);
        self.run_again(again);
    }

    /// The deadline of a queue pair's timer (ns), which is checked again in its island.
    fn deadline(&self, card: u16, qp: usize) -> u64 {
        // SAFETY: within the table; read as it may change at any time.
        unsafe { (&raw const (*self.net().card(card)).qps[qp].req.deadline).read_volatile() }
    }
}
