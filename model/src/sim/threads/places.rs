//! The threads of a process as they come and go.

use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use super::lock::give_up;
use super::polls::row_ends;
use super::{tid, Threads, HORIZON};
use crate::panics::{guarded, lock};
use crate::segment::{now_ns, Segment};
use crate::sim::programs::actor::{State, ACTORS};
use crate::sim::programs::stall::{self, Look, Standstill};
use crate::sim::programs::together::programs;
use crate::sim::state::Sim;

thread_local! {
    /// This thread's actor.
    pub(super) static ME: Cell<Me> = const { Cell::new(Me::NOBODY) };
    /// The clock at which the thread has left, plus one: exit handlers may still call.
    pub(super) static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Leaves when the thread ends.
    pub(super) static LEAVER: Leaver = const { Leaver };
}

/// A thread's actor: in which net, by the number of its [`Threads`], and at which place.
#[derive(Clone, Copy)]
pub(super) struct Me {
    pub process: u32,
    pub place: u16,
}

impl Me {
    /// The thread takes part in nothing.
    pub const NOBODY: Me = Me { process: 0, place: 0 };
}

/// So long (ps) the others go on before a program takes part beside them: longer than a program takes to start.
const BESIDE: u64 = 100_000_000_000;

/// So long a program that is to take part sleeps before it checks again whether it can.
const PAUSE: Duration = Duration::from_micros(200);

/// After so many of these it takes part all the same.
const TRIES: u32 = 25_000;

/// A thread of this process has asked for a place.
static COME: AtomicBool = AtomicBool::new(false);

type Leave = Box<dyn Fn() -> bool + Send>;

/// How a thread that ends is taken from its timeline.
static LEAVE: Mutex<Option<Leave>> = Mutex::new(None);

pub(super) struct Leaver;

impl Drop for Leaver {
    fn drop(&mut self) {
        if ME.get().process == 0 {
            return;
        }
        let leave = lock(&LEAVE);
        if leave.as_ref().is_some_and(|leave| guarded(true, leave)) {
            ME.set(Me::NOBODY);
        }
    }
}

/// How a thread that ends leaves.
pub(crate) fn on_thread_end(leave: impl Fn() -> bool + Send + 'static) {
    *lock(&LEAVE) = Some(Box::new(leave));
}

/// In the child of a fork: it takes part in nothing yet.
pub fn forked() {
    ME.set(Me::NOBODY);
    LEFT.set(0);
    HORIZON.set(0);
    COME.store(false, Ordering::Relaxed);
    // Another thread may have had it; what it holds belongs to the parent.
    if let Ok(mut leave) = LEAVE.try_lock() {
        std::mem::forget(leave.take());
    }
}

/// The place of a thread that is about to be started.
#[derive(Clone, Copy, Debug)]
pub struct Starting(pub u16);

impl<S: Borrow<Segment>> Threads<S> {
    /// The place of this thread's actor, if it has one here.
    #[inline]
    pub(super) fn place(&self) -> Option<u16> {
        let me = ME.get();
        (me.process == self.number).then_some(me.place)
    }

    /// A thread is about to be started: it takes part from now on, however long the machine takes to start it.
    pub fn thread_starts(&self) -> Option<Starting> {
        let now = self.clock();
        let mut held = self.locked().ok()?;
        let place = held.sim().join(self.segment().member(), std::process::id(), 0);
        HORIZON.set(0);
        let rung = self.place().map_or(0, |me| held.actor(me).rung);
        let a = held.actor(place?);
        a.clock.store(now, Ordering::Release);
        a.rung = rung;
        place.map(Starting)
    }

    /// This thread is the one that was to be started.
    pub fn thread_runs(&self, place: Starting) {
        self.take_place(place.0);
    }

    /// The thread could not be started.
    pub fn thread_fails(&self, place: Starting) {
        if let Ok(mut held) = self.locked() {
            held.actor(place.0).state = State::Free;
            held.notify(place.0);
        }
    }

    /// The thread takes part from the moment on at which all others wait for something, so that where it begins does not
    /// depend on how fast it was started. If they go on instead, as a client that measures does, it begins at the next
    /// multiple of [`BESIDE`]. The first thread of a program that begins with others waits for them before.
    #[cold]
    pub(super) fn join(&self) -> u16 {
        let (member, pid, tid) = (self.segment().member(), std::process::id(), tid());
        let programs = programs();
        let coming = self.come(programs);
        let mut still = Standstill::NEW;
        let (mut tries, mut since) = (TRIES, None);
        loop {
            let mut held = self.must_lock();
            let sim = held.sim();
            let come = sim.coming().count();
            let waits = |sim: &Sim, me: u16| sim.actors.all[me as usize].state == State::Coming;
            if coming.is_some_and(|me| waits(sim, me)) && come < programs {
                drop(held);
                let look = still.look(come as u64);
                if look != Look::Moves {
                    let mut held = self.must_lock();
                    let text = held.sim().describe_coming(programs);
                    if let (Look::TooLong, Some(me)) = (look, coming) {
                        // Exit handlers may still call.
                        held.actor(me).state = State::Free;
                    }
                    drop(held);
                    stall::tell(look, false, &text);
                }
                (tries, since) = (TRIES, None);
                std::thread::sleep(PAUSE);
                continue;
            }
            still = Standstill::NEW;
            let others = sim
                .actors
                .used()
                .iter()
                .any(|a| a.member != member && a.state != State::Blocked && a.state.takes_part());
            let (now, stands) = (sim.latest(), sim.idle.stands);
            let before: (u64, u64) = *since.get_or_insert((now, stands));
            // The furthest may have begun to wait: then the time is that of who runs.
            let go_on = now.saturating_sub(before.0) >= BESIDE;
            // Who polls for frames only waits, too.
            let begins = !others || go_on || stands != before.1 || tries == 0;
            let at = if others { now.next_multiple_of(BESIDE) } else { now };
            let joined = match coming {
                Some(me) => {
                    if begins && waits(sim, me) {
                        sim.begin_together(programs, at);
                    }
                    // More may have come than begin now.
                    (!waits(sim, me)).then_some(Some(me))
                }
                // Another thread of the program may be waiting for other programs.
                None if sim.coming().any(|a| a.member == member) => None,
                None => begins.then(|| {
                    let me = sim.join(member, pid, tid)?;
                    sim.actors.all[me as usize].clock.store(at, Ordering::Release);
                    Some(me)
                }),
            };
            drop(held);
            match joined {
                Some(Some(at)) => {
                    ME.set(Me { process: self.number, place: at });
                    // What it knew of the time of another net.
                    HORIZON.set(0);
                    row_ends();
                    // Refused in exit handlers: the process's end is near, and takes the actor with it.
                    let _ = LEAVER.try_with(|_| ());
                    return at;
                }
                Some(None) => give_up(&format_args!(
                    "{ACTORS} threads of this net's programs take part in simulated time, and no more can"
                )),
                None => {
                    tries = tries.saturating_sub(1);
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// The place of the first thread of a program that begins with others; `None`: there are none, or there is no room.
    fn come(&self, programs: usize) -> Option<u16> {
        if programs < 2 {
            return None;
        }
        let mut held = self.must_lock();
        // With the lock: another thread of the program finds that this one has come.
        if COME.swap(true, Ordering::Relaxed) {
            return None;
        }
        held.sim().come(self.segment().member(), std::process::id(), tid())
    }

    /// This thread ends, and takes part no more; false if it takes the process with it, whose exit handlers
    /// still use its clock.
    pub fn leave(&self) -> bool {
        let Some(me) = self.place() else { return true };
        let Ok(mut held) = self.locked() else { return true };
        let (member, tid) = (self.segment().member(), tid());
        let sim = held.sim();
        let mine = sim.actors.used().iter().filter(|a| a.member == member && a.state.takes_part());
        let a = &sim.actors.all[me as usize];
        if a.tid == std::process::id() && mine.count() == 1 {
            return false;
        }
        LEFT.set(a.now() + 1);
        let waiting = sim.leave(|a| a.member == member && a.tid == tid);
        self.segment().arm_deadline(now_ns());
        held.wakes(waiting);
        true
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
