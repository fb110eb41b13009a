//! The clocks of the programs, and how far simulated time may pass them.
//!
//! An *actor* is a thread of an attached process. What it does at its clock `c` reaches the cards no
//! earlier than `c + lookahead` (the way of a store over PCIe), so an event before that may happen
//! whatever the thread still does; and an event that writes to the process's memory may happen only when its
//! threads have reached that time, or they would see it early.

use std::sync::atomic::{compiler_fence, Ordering};

use super::actor::{Actor, State};
use super::actor_set::ActorSet;
use crate::plain::Flag;
use crate::sim::event::{Event, Touch};
use crate::sim::state::{seen_by, Sim, FOREVER};

impl Sim {
    /// What an actor does at its clock reaches the cards this much later at the earliest.
    #[inline]
    pub fn lookahead(&self) -> u64 {
        self.profile.pcie.mmio_ps.max(1)
    }

    /// Events before this time may happen as far as the other actors go, and the actor that says so.
    pub fn limit(&self, me: u16) -> (u64, u16) {
        let lookahead = self.lookahead();
        let rank = self.actors.all[me as usize].rank();
        let mut least = (FOREVER, me);
        for (i, a) in self.actors.used().iter().enumerate() {
            if i == me as usize {
                continue;
            }
            let limit = match a.state {
                State::Running => a.now().saturating_add(lookahead),
                State::Waiting => a.target.saturating_add(lookahead),
                State::Turn => a.target + u64::from(rank < a.rank()),
                _ => continue,
            };
            if limit < least.0 {
                least = (limit, i as u16);
            }
        }
        least
    }

    /// How long after a card has begun to do something an actor sees nothing of it (ps): a write to memory takes at least
    /// that long. Another thread of the process that runs might see it, and tell.
    #[inline]
    pub fn unseen(&self, me: u16) -> u64 {
        if self.actors.share(me) {
            0
        } else {
            self.profile.pcie.write_ps
        }
    }

    /// Before this time nothing is new to an actor, if what the cards do from `time` on is not known yet.
    pub fn horizon(&self, me: u16, time: u64) -> u64 {
        let Actor { member, alarm, .. } = self.actors.all[me as usize];
        let end = time.saturating_add(self.unseen(me)).min(alarm);
        // What is in flight to its memory.
        self.queue.first(end, |item| seen_by(item) == Some(member)).unwrap_or(end)
    }

    /// An actor of this process that has not come to `time` yet.
    pub fn behind(&self, me: u16, member: u16, time: u64) -> Option<u16> {
        let late = |(i, a): (usize, &Actor)| {
            let at = match a.state {
                State::Running => a.now(),
                State::Waiting | State::Turn => a.target,
                _ => return None,
            };
            (i != me as usize && a.member == member && at < time).then_some(i as u16)
        };
        self.actors.used().iter().enumerate().find_map(late)
    }

    /// Memory of a process was written now: the waits for that end. True if there are any.
    pub fn touched(&mut self, write: Touch) -> bool {
        let now = self.now;
        let mut any = false;
        for a in self.actors.used_mut() {
            let waits = a.member == write.member && a.state == State::Waiting && a.step != 0;
            if waits && (write.entry || !a.entries.get()) && a.watched.sees(write.at, write.len) {
                let from = a.now();
                let steps = now.saturating_sub(from).div_ceil(a.step).max(1);
                let at = from + steps * a.step + a.after;
                if at < a.target {
                    a.target = at;
                    a.due = true.into();
                    any = true;
                }
            }
        }
        any
    }

    /// After `me` has advanced, blocked or left: the actors that waited for that and should check again.
    #[must_use]
    pub fn notify(&mut self, me: u16) -> ActorSet {
        let mut those = ActorSet::default();
        let lookahead = self.lookahead();
        let (state, clock, target) = {
            let a = &self.actors.all[me as usize];
            (a.state, a.now(), a.target)
        };
        let (gone, passed) = match state {
            State::Running => (false, clock),
            State::Waiting | State::Turn => (false, target),
            _ => (true, FOREVER),
        };
        for (i, a) in self.actors.used_mut().iter_mut().enumerate() {
            if i == me as usize || !matches!(a.state, State::Waiting | State::Turn) {
                continue;
            }
            let free = gone || (a.blocker == me && a.need < passed.saturating_add(lookahead));
            if a.due.get() || free {
                a.due = false.into();
                those.add(i as u16);
            }
        }
        those
    }

    /// An actor's place, for a thread of a process; `None`: all are taken.
    pub fn join(&mut self, member: u16, pid: u32, tid: u32) -> Option<u16> {
        let place = self.actors.all.iter().position(|a| a.state == State::Free)?;
        let process = || self.actors.used().iter().filter(|a| a.state != State::Free && a.member == member);
        // The first that no other thread of the process has: two of the same rank would wait for each other.
        let has = |ordinal: u16| process().any(|a| a.ordinal == ordinal);
        let ordinal = (0..).find(|&ordinal| !has(ordinal)).unwrap_or_default();
        let seat = process().next().map_or_else(|| self.free_seat(), |a| a.seat);
        self.actors.top = self.actors.top.max(place as u32 + 1);
        let start = self.latest();
        if ordinal == 0 {
            self.members_left[member as usize] = 0;
        }
        let a = &mut self.actors.all[place];
        a.member = member;
        (a.seat, a.ordinal) = (seat, ordinal);
        (a.pid, a.tid) = (pid, tid);
        a.clock.store(start, Ordering::Release);
        a.serial += 1;
        a.sequence = 0;
        a.rung = 0;
        a.interrupt = 0;
        a.wait_count = 0;
        a.promised = Flag::NO;
        a.aside.store(0, Ordering::Relaxed);
        a.held_up.store(0, Ordering::Relaxed);
        a.alarm = FOREVER;
        // Last: the keeper finds the actors of a process that has died by their member.
        compiler_fence(Ordering::SeqCst);
        a.state = State::Running;
        Some(place as u16)
    }

    /// The time that no actor has passed: where an actor begins that comes from outside.
    pub fn latest(&self) -> u64 {
        let running = self.actors.used().iter().filter(|a| a.state == State::Running).map(Actor::now);
        running.max().unwrap_or(0).max(self.now)
    }

    /// The same for an actor that continues: no earlier than what another thread of its process can have told it.
    pub fn latest_for(&self, me: u16) -> u64 {
        let member = self.actors.all[me as usize].member;
        let process = self.actors.used().iter().filter(|a| a.member == member && a.state.takes_part());
        let left = self.members_left[member as usize];
        process.map(Actor::now).max().unwrap_or(0).max(left).max(self.latest())
    }

    /// A blocked actor continues that nothing in the simulation has released: after all that another thread of its
    /// process can have told it of.
    pub fn resume(&mut self, me: u16) {
        let latest = self.latest_for(me);
        let member = self.actors.all[me as usize].member;
        let process = self.actors.used().iter().filter(|a| a.member == member);
        let rung = process.map(|a| a.rung).max().unwrap_or(0);
        let a = &mut self.actors.all[me as usize];
        a.promised = Flag::NO;
        if a.state == State::Blocked {
            a.rung = rung;
            a.release(latest);
        }
    }

    /// Whether every thread waits in the kernel.
    pub fn all_wait(&self) -> bool {
        self.actors.used().iter().all(|a| a.state == State::Blocked || !a.state.takes_part())
    }

    /// Whether threads of another process take part.
    pub fn has_others(&self, member: u16) -> bool {
        self.actors.used().iter().any(|a| a.member != member && a.state.takes_part())
    }

    /// How far simulated time has advanced (ps): the furthest clock of all actors that take or took part.
    pub fn furthest(&self) -> u64 {
        let clocks = self.actors.used().iter().filter(|a| a.state.takes_part()).map(Actor::now);
        clocks.max().unwrap_or(0).max(self.left_at)
    }

    /// Actors of a process that is gone leave. Returns those that should check again.
    #[must_use]
    pub fn leave(&mut self, gone: impl Fn(&Actor) -> bool) -> ActorSet {
        let mut those = ActorSet::default();
        for i in 0..self.actors.top as u16 {
            let a = &mut self.actors.all[i as usize];
            if a.state != State::Free && gone(a) {
                if a.state.takes_part() {
                    self.left_at = self.left_at.max(a.now());
                    let left = &mut self.members_left[a.member as usize];
                    *left = (*left).max(a.now());
                    // It may just have woken another one.
                    self.idle.waits += 1;
                }
                a.state = State::Free;
                a.serial += 1;
                those = those.and(self.notify(i));
            }
        }
        those
    }

    /// Makes the events again that end waits in the kernel at their deadlines.
    pub fn act_deadlines(&mut self) {
        for actor in 0..self.actors.top as u16 {
            let a = &self.actors.all[actor as usize];
            if a.state == State::Blocked && a.interrupt == 0 && a.target != FOREVER {
                let (at, serial) = (a.target, a.serial);
                self.act(actor, at, Event::Wake { actor, serial });
            }
        }
    }

    /// An actor's event.
    pub fn act(&mut self, actor: u16, at: u64, event: Event) {
        let order = self.actors.all[actor as usize].order();
        self.insert(at.max(self.now), order, event);
    }
}

#[cfg(test)]
#[path = "actors_tests.rs"]
mod tests;
