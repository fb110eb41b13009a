//! The threads of a process as they come and go.

use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::polls::row_ends;
use super::{tid, HORIZON};
use crate::attach::wall::runner::Runner;
use crate::segment::{now_ns, Segment};
use crate::sim::programs::actors::State;

thread_local! {
    /// This thread's actor.
    pub(super) static ME: Cell<Me> = const { Cell::new(Me::NOBODY) };
    /// The clock at which the thread has left, plus one: exit handlers may still call.
    pub(super) static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Leaves when the thread ends.
    pub(super) static LEAVER: Leaver = const { Leaver };
}

/// A thread's actor: in which net, by the number of its [`Runner`], and at which place.
#[derive(Clone, Copy)]
pub(super) struct Me {
    pub runner: u32,
    pub place: u16,
}

impl Me {
    /// The thread takes part in nothing.
    pub const NOBODY: Me = Me { runner: 0, place: 0 };
}

type Leave = Box<dyn Fn() -> bool + Send>;

/// How a thread that ends is taken from its timeline.
static LEAVE: Mutex<Option<Leave>> = Mutex::new(None);

pub(super) struct Leaver;

impl Drop for Leaver {
    fn drop(&mut self) {
        if ME.get().runner == 0 {
            return;
        }
        let leave = LEAVE.lock().unwrap_or_else(PoisonError::into_inner);
        if leave.as_ref().is_some_and(|leave| leave()) {
            ME.set(Me::NOBODY);
        }
    }
}

/// How a thread that ends leaves.
pub(crate) fn on_thread_end(leave: impl Fn() -> bool + Send + 'static) {
    *LEAVE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(leave));
}

/// In the child of a fork: it takes part in nothing yet.
pub fn forked() {
    ME.set(Me::NOBODY);
    LEFT.set(0);
    HORIZON.set(0);
    // Another thread may have had it; what it holds belongs to the parent.
    if let Ok(mut leave) = LEAVE.try_lock() {
        std::mem::forget(leave.take());
    }
}

/// The place of a thread that is about to be started.
#[derive(Clone, Copy, Debug)]
pub struct Starting(pub u16);

impl<S: Borrow<Segment>> Runner<S> {
    /// The place of this thread's actor, if it has one here.
    #[inline]
    pub(super) fn place(&self) -> Option<u16> {
        let me = ME.get();
        (me.runner == self.number).then_some(me.place)
    }

    /// A thread is about to be started: it takes part from now on, however long the machine takes to start it.
    pub fn thread_starts(&self) -> Option<Starting> {
        let now = self.clock();
        let guard = self.locked().ok()?;
        let member = self.segment().member();
        let place = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let place = sim.join(member, std::process::id(), 0)?;
            let rung = self.place().map_or(0, |me| sim.actors.all[me as usize].rung);
            let a = &mut sim.actors.all[place as usize];
            a.clock.store(now, Ordering::Release);
            a.rung = rung;
            Some(Starting(place))
        });
        HORIZON.set(0);
        place
    }

    /// This thread is the one that was to be started.
    pub fn thread_runs(&self, place: Starting) {
        self.take_place(place.0);
    }

    /// The thread could not be started.
    pub fn thread_fails(&self, place: Starting) {
        if let Ok(guard) = self.locked() {
            let those = self.engine(&guard, |e| {
                let sim = &mut *e.env.sim;
                sim.actors.all[place.0 as usize].state = State::Free;
                sim.notify(place.0)
            });
            guard.wakes(those);
        }
    }

    /// The thread takes part from the moment on at which all others wait for something: so that where it
    /// begins does not depend on how fast it was started.
    #[cold]
    pub(super) fn join(&self) -> u16 {
        let member = self.segment().member();
        let tid = tid();
        let mut tries = 25_000;
        loop {
            let guard = self.must_lock();
            let joined = self.engine(&guard, |e| {
                let sim = &mut *e.env.sim;
                let others = sim
                    .actors
                    .used()
                    .iter()
                    .any(|a| a.member != member && a.state != State::Blocked && a.state.takes_part());
                if others && tries != 0 {
                    return None;
                }
                Some(sim.join(member, std::process::id(), tid))
            });
            drop(guard);
            match joined {
                Some(Some(at)) => {
                    ME.set(Me { runner: self.number, place: at });
                    // What it knew of the time of another net.
                    HORIZON.set(0);
                    row_ends();
                    // Refused in exit handlers: the process's end is near, and takes the actor with it.
                    let _ = LEAVER.try_with(|_| ());
                    return at;
                }
                Some(None) => {
                    eprintln!("verbena: too many threads take part in simulated time");
                    std::process::abort();
                }
                None => {
                    tries -= 1;
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        }
    }

    /// This thread ends, and takes part no more; false if it takes the process with it, whose exit handlers
    /// still use its clock.
    pub fn leave(&self) -> bool {
        let Some(me) = self.place() else { return true };
        let Ok(guard) = self.locked() else { return true };
        let (member, tid) = (self.segment().member(), tid());
        let those = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let mine = sim.actors.used().iter().filter(|a| a.member == member && a.state.takes_part());
            if sim.actors.all[me as usize].tid == std::process::id() && mine.count() == 1 {
                return None;
            }
            let a = &mut sim.actors.all[me as usize];
            LEFT.set(a.now() + 1);
            let those = sim.leave(|a| a.member == member && a.tid == tid);
            self.segment().arm_deadline(now_ns());
            Some(those)
        });
        guard.wakes(those.unwrap_or_default());
        those.is_some()
    }
}
