//! Programs that begin together: none does before all of them have come, and they do not depend on the order in which the
//! machine lets them.

use std::sync::atomic::Ordering;

use super::actor::{Actor, State};
use super::stall::process;
use crate::sim::state::Sim;

/// Environment variable: how many programs begin together.
pub const PROGRAMS_VARIABLE: &str = "VERBENA_PROGRAMS";

/// With how many programs this one begins, itself included.
pub(crate) fn programs() -> usize {
    std::env::var(PROGRAMS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

impl Sim {
    /// Programs that have come and wait for others, each with one thread.
    pub fn coming(&self) -> impl Iterator<Item = &Actor> {
        self.actors.used().iter().filter(|a| a.state == State::Coming)
    }

    /// Says who of `programs` have come.
    pub fn describe_coming(&self, programs: usize) -> String {
        let who: Vec<String> = self.coming().map(|a| process(a.pid)).collect();
        format!("{} of {programs} programs (--programs) have opened a card: {}", who.len(), who.join(", "))
    }

    /// A thread comes with whose program others begin; `None`: there is no room.
    pub fn come(&mut self, member: u16, pid: u32, tid: u32) -> Option<u16> {
        let place = self.join(member, pid, tid)?;
        let seat = self.last_seat() + 1;
        let a = &mut self.actors.all[place as usize];
        (a.state, a.seat) = (State::Coming, seat);
        Some(place)
    }

    /// The first `programs` that have come begin at this time. What they do at the same time happens in the order in which they
    /// were started: that of their process numbers.
    pub fn begin_together(&mut self, programs: usize, at: u64) {
        let mut seat = self.last_seat();
        let coming = |a: &&mut Actor| a.state == State::Coming;
        let mut those: Vec<&mut Actor> = self.actors.used_mut().iter_mut().filter(coming).collect();
        those.sort_unstable_by_key(|a| a.seat);
        those.truncate(programs);
        those.sort_unstable_by_key(|a| a.pid);
        for a in those {
            // One that nobody has, whenever this process may die.
            seat += 1;
            a.seat = seat;
            a.clock.store(at, Ordering::Release);
            a.state = State::Running;
        }
    }

    /// The last seat that a process has.
    fn last_seat(&self) -> u16 {
        let used = self.actors.used().iter().filter(|a| a.state != State::Free);
        used.map(|a| a.seat).max().unwrap_or_default()
    }

    /// The first seat that no process has.
    pub(super) fn free_seat(&self) -> u16 {
        let taken = |seat| self.actors.used().iter().any(|a| a.state != State::Free && a.seat == seat);
        (0..).find(|&seat| !taken(seat)).unwrap_or_default()
    }
}
