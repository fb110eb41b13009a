//! When every program waits in the kernel: no thread calls in, and events happen all the same.
//!
//! The thread that waits last executes them, for a while; the keeper executes the rest. Time jumps to the
//! next event, with two exceptions. A thread that waits for another one of its process may be about to
//! be woken, unknown to the simulation: it gets a moment, and more while the machine does not let it run.
//! And a process that is alone on its net waits for one that has not started yet: for its time-outs the
//! machine's time counts, too.

use super::actor::{Actor, State};
use super::stall::is_awake;
use super::streams::Wait;
use crate::plain::Plain;
use crate::sim::engine::Engine;
use crate::sim::event::Event;
use crate::sim::state::{place, Sim, FOREVER};
use contract::clock::kind;

/// Events that are executed at a time, with the lock.
const SLICE: u32 = 4096;
/// Real time that a thread has to be woken by another one (ns), and that one which was woken has at most to get a core.
const MOMENT: u64 = 2_000_000;
const LONGEST: u64 = 5_000_000_000;

/// What is known while all threads wait.
#[derive(Clone, Copy, Default, Plain)]
#[repr(C)]
pub struct Idle {
    /// Waits in the kernel that have begun.
    pub waits: u64,
    /// Polls of programs that [wait for frames](Sim::idles), which may be as long as they run.
    pub stands: u64,
    /// How many there were when all threads were first seen to wait, and the real time then (ns); 0: that is long enough.
    seen: (u64, u64),
    /// The time-out that is next for a process alone, and the real time at which it may happen (ns).
    timeout: (u64, u64),
}

impl Engine<'_> {
    /// Executes events while every program waits in the kernel. Returns the real time (ns; `now` is one) at
    /// which to call again.
    pub fn idle(&mut self, now: u64) -> Option<u64> {
        for _ in 0..SLICE {
            let sim = &mut *self.env.sim;
            let next = sim.queue.peek()?;
            if !sim.all_wait() {
                return None;
            }
            let mut waiting = sim.actors.used().iter().filter(|a| a.state.takes_part());
            let first = waiting.next()?.member;
            let alone = waiting.all(|a| a.member == first);
            let for_others = |a: &Actor| a.state == State::Blocked && a.waits_for_others();
            if sim.actors.used().iter().any(for_others) {
                if sim.idle.seen.0 != sim.idle.waits {
                    sim.idle.seen = (sim.idle.waits, now);
                }
                let since = sim.idle.seen.1;
                if now < since + MOMENT {
                    return Some(since + MOMENT);
                }
                if now < since + LONGEST {
                    let mut others = sim.actors.used().iter().filter(|a| for_others(a));
                    if others.any(|a| is_awake(a.pid, a.tid)) {
                        return Some(now + MOMENT);
                    }
                    sim.idle.seen.1 = 0;
                }
            }
            let ends_wait = match sim.events.get(place(next.item)).get() {
                Event::Wake { actor, serial } => sim.is_in_wait(actor, serial),
                _ => false,
            };
            if alone && ends_wait {
                if sim.idle.timeout.0 != next.time {
                    sim.idle.timeout = (next.time, now + next.time.saturating_sub(sim.furthest()) / 1000);
                }
                if now < sim.idle.timeout.1 {
                    return Some(sim.idle.timeout.1);
                }
            }
            self.next();
        }
        Some(now)
    }
}

impl Sim {
    /// Whether nothing happens any more unless a new program comes: every thread waits in the kernel, no event and so
    /// no deadline is left, and no thread waits for what comes from elsewhere (a connection, a datagram, a file or
    /// terminal).
    pub fn is_over(&self) -> bool {
        let elsewhere = |w: &Wait| matches!(w.key.0, kind::OTHER | kind::LISTEN | kind::DATAGRAM);
        let mut blocked = self.actors.blocked();
        self.queue.peek().is_none()
            && self.all_wait()
            && !blocked.any(|(_, waits)| waits.iter().any(elsewhere))
    }

    /// Whether a thread of process `member` waits for one of these pipes.
    pub fn waits_for(&self, member: u16, pipes: &[u64]) -> bool {
        let is_one = |w: &Wait| w.key.0 == kind::PIPE && pipes.contains(&w.key.1);
        let mut blocked = self.actors.blocked();
        blocked.any(|(i, waits)| self.actors.all[i].member == member && waits.iter().any(is_one))
    }

    /// Changes while something happens, and while programs wait for frames.
    pub fn done(&self) -> u64 {
        self.executed.wrapping_add(self.idle.stands)
    }

    /// Whether nothing is in flight, and the programs other than that of actor `me` wait, too, in the kernel, for a time or
    /// for entries of their queues.
    pub fn idles(&self, me: u16) -> bool {
        let member = self.actors.all[me as usize].member;
        let waits = |a: &Actor| match a.state {
            State::Running | State::Turn => false,
            // A sleep, which is next then, or a poll.
            State::Waiting => a.step == 0 || a.entries.get(),
            _ => true,
        };
        self.queue.peek().is_none() && self.actors.used().iter().all(|a| a.member == member || waits(a))
    }

    /// When something happens next that actor `me` does not do: an event, its alarm, or something that another
    /// program does at the earliest. [`FOREVER`]: nothing will.
    pub fn next_without(&self, me: u16) -> u64 {
        let event = self.queue.peek().map_or(FOREVER, |event| event.time);
        let others = self.actors.used().iter().enumerate().filter(|(i, _)| *i != me as usize);
        let doing = others.map(|(_, a)| match a.state {
            State::Running => a.now(),
            State::Waiting | State::Turn => a.target,
            _ => FOREVER,
        });
        doing.min().unwrap_or(FOREVER).min(event).min(self.actors.all[me as usize].alarm)
    }
}
