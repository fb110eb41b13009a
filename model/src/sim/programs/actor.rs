//! An actor: a thread of an attached process as the simulation sees it.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering};

use super::streams::Wait;
use super::watched::Watched;
use crate::plain::{Flag, Plain};
use crate::segment::futex_wake;
use crate::sim::state::FOREVER;

/// Most actors.
pub const ACTORS: usize = 256;
/// Most streams that one actor waits for at a time: as many as a process has descriptors by default.
pub const WAITS: usize = 1024;

/// What an actor does: an open value, because it is in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(transparent)]
pub struct State(u32);

#[allow(non_upper_case_globals)]
impl State {
    /// There is none.
    pub const Free: State = State(0);
    /// Runs its program at its clock.
    pub const Running: State = State(1);
    /// Waits within the library until simulated time has reached `target`.
    pub const Waiting: State = State(2);
    /// Waits for its turn to do at exactly `target` what is no event (a control operation).
    pub const Turn: State = State(3);
    /// Waits in the kernel: it does not hold time back.
    pub const Blocked: State = State(4);
    /// Takes part no more, but its thread does not know yet: its place is not free.
    pub const Dismissed: State = State(5);
    /// Takes part when the programs have come that begin with its own.
    pub const Coming: State = State(6);
}

impl State {
    /// It holds time back, or will.
    pub fn takes_part(self) -> bool {
        !matches!(self, State::Free | State::Dismissed | State::Coming)
    }
}

/// An actor. Changed with the segment's lock, but for what is atomic.
#[derive(Plain)]
#[repr(C, align(128))]
pub struct Actor {
    /// What it does.
    pub state: State,
    /// Its process.
    pub member: u16,
    /// The order of its process among those that take part, in which they came or [were started](super::together).
    pub seat: u16,
    /// Which thread of the process, by the order in which they came.
    pub ordinal: u16,
    /// Its process id.
    pub pid: u32,
    /// Its thread id.
    pub tid: u32,
    /// Its clock (ps). Its own thread advances it without the lock as far as that is safe.
    pub clock: AtomicU64,
    /// The time that it waits for, in the kernel too (ps).
    pub target: u64,
    /// Not 0: a write to its memory ends the wait, rounded up to such steps from `clock`.
    pub step: u64,
    /// Only a queue entry ends the wait, not other writes.
    pub entries: Flag,
    /// Only a write to these places ends the wait.
    pub watched: Watched,
    /// Added to the time of the write that ends the wait.
    pub after: u64,
    /// Events that it has made.
    pub sequence: u64,
    /// When the last of its doorbells is understood: a control operation is one more write, and comes after it.
    pub rung: u64,
    /// Number of its wait.
    pub serial: u32,
    /// Changes when it should check again.
    pub word: AtomicU32,
    /// 1: it is assumed to be waiting, without having said so: its next call begins at the time of the others.
    pub aside: AtomicU8,
    /// It runs in simulated time, and sleeps in the kernel until the machine brings what others say that they send.
    pub promised: Flag,
    /// 1: it sleeps for something of this library's own (the segment's lock), which comes.
    pub held_up: AtomicU8,
    /// It sleeps on `word`.
    pub asleep: AtomicU32,
    /// The core that it ran on when it called last.
    pub core: AtomicU32,
    /// It should check again: its wait has an end.
    pub due: Flag,
    /// The actor that it waits for.
    pub blocker: u16,
    /// The time that the blocker must be able to let pass.
    pub need: u64,
    /// Function whose interrupts it waits for, plus one: card << 16 | function.
    pub interrupt: u32,
    /// How many streams it waits for while blocked: those at its place in [`Actors::waits`].
    pub wait_count: u32,
    /// SIGALRM of its process.
    pub alarm: u64,
}

/// All actors.
#[derive(Plain)]
#[repr(C)]
pub struct Actors {
    /// Places in use are below this.
    pub top: u32,
    /// The actor at each place.
    pub all: [Actor; ACTORS],
    /// The streams that it waits for. Apart from it, because who looks at all actors seldom wants them.
    pub waits: [[Wait; WAITS]; ACTORS],
}

impl Actor {
    /// Its clock.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::Acquire)
    }

    /// Order among actors at the same time, the same in every run.
    #[inline]
    pub fn rank(&self) -> u64 {
        (u64::from(self.seat) + 1) << 8 | u64::from(self.ordinal & 0xff)
    }

    /// The order of its next event.
    #[inline]
    pub fn order(&mut self) -> u64 {
        self.sequence += 1;
        self.rank() << 40 | self.sequence
    }

    /// It waits in the kernel for neither streams nor interrupts.
    pub fn waits_for_others(&self) -> bool {
        self.wait_count == 0 && self.interrupt == 0
    }

    /// Makes its thread check again.
    pub fn bump(&self) {
        self.word.fetch_add(1, Ordering::Release);
        if self.asleep.load(Ordering::SeqCst) != 0 {
            futex_wake(&self.word, 1);
        }
    }

    /// It waits for something that the simulation does not know: it no longer holds others back.
    pub fn set_aside(&mut self) {
        self.state = State::Blocked;
        (self.wait_count, self.interrupt, self.target) = (0, 0, FOREVER);
        self.serial += 1;
        self.aside.store(1, Ordering::Release);
    }

    /// It is where it waited to be, and runs. Returns its clock.
    #[inline]
    pub fn arrive(&mut self) -> u64 {
        self.clock.store(self.target, Ordering::Release);
        self.state = State::Running;
        self.step = 0;
        self.due = false.into();
        self.target
    }

    /// It runs from this time on.
    pub fn release(&mut self, at: u64) {
        if self.state == State::Blocked {
            self.state = State::Running;
            self.interrupt = 0;
            self.wait_count = 0;
            self.serial += 1;
            self.advance(at);
        }
    }

    /// Its clock shows no less than this time.
    pub fn advance(&mut self, at: u64) {
        let clock = self.now().max(at);
        self.clock.store(clock, Ordering::Release);
    }
}

impl Actors {
    /// Those that may be in use.
    #[inline]
    pub fn used(&self) -> &[Actor] {
        &self.all[..self.top as usize]
    }

    /// The places of those that wait in the kernel, and the streams that each waits for.
    pub fn blocked(&self) -> impl Iterator<Item = (usize, &[Wait])> {
        let blocked = self.used().iter().enumerate().filter(|(_, a)| a.state == State::Blocked);
        blocked.map(|(i, a)| (i, self.waits[i].get(..a.wait_count as usize).unwrap_or(&[])))
    }

    /// Whether an actor's process has other threads that run.
    pub fn share(&self, me: u16) -> bool {
        let member = self.all[me as usize].member;
        let runs = |a: &Actor| matches!(a.state, State::Running | State::Waiting | State::Turn);
        self.used().iter().enumerate().any(|(i, a)| i != me as usize && a.member == member && runs(a))
    }

    /// Those that may be in use.
    #[inline]
    pub fn used_mut(&mut self) -> &mut [Actor] {
        &mut self.all[..self.top as usize]
    }
}
