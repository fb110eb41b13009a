//! Waits in the kernel, the streams between programs, and the alarm.

use std::borrow::Borrow;
use std::time::Duration;

use super::lock::give_up;
use super::{Threads, HORIZON};
use crate::segment::{now_ns, LockError, Segment};
use crate::sim::event::Event;
use crate::sim::programs::actor::{State, WAITS};
use crate::sim::programs::streams::{Key, Wait};
use crate::sim::state::FOREVER;
use contract::clock::kind::LISTEN;

impl<S: Borrow<Segment>> Threads<S> {
    /// The thread is about to wait in the kernel, until [`unblock`](Self::unblock).
    pub fn block(&self, waits: &[Wait], deadline: u64) {
        let n = waits.len();
        if n > WAITS {
            give_up(&format_args!(
                "a thread waits for {n} descriptors at a time, and in simulated time {WAITS} is the most"
            ));
        }
        let me = self.me();
        let Ok(mut held) = self.locked() else { return };
        let sim = held.sim();
        let ready = sim.stream_ready(waits);
        sim.actors.all[me as usize].promised = ready.into();
        if !ready {
            sim.actors.waits[me as usize][..n].copy_from_slice(waits);
            let a = &mut sim.actors.all[me as usize];
            a.wait_count = n as u32;
            a.state = State::Blocked;
            a.interrupt = 0;
            a.serial += 1;
            let (serial, at) = (a.serial, deadline.min(a.alarm).max(a.now()));
            a.target = at;
            if at != FOREVER {
                let at = at.max(sim.now);
                sim.act(me, at, Event::Wake { actor: me, serial });
            }
            sim.idle.waits += 1;
            held.notify(me);
        }
        held.run_if_all_wait();
    }

    /// For the keeper: if every program waits, executes what happens meanwhile; returns the machine's time (ns) at which
    /// to call again.
    pub fn run_idle(&self, patience: Duration) -> Result<Option<u64>, LockError> {
        Ok(self.locked_within(patience)?.engine(|e| e.idle(now_ns())))
    }

    /// The wait in the kernel has ended; returns the clock. If nothing in the simulation ended it, the thread continues
    /// from now.
    pub fn unblock(&self) -> u64 {
        let me = self.me();
        if let Ok(mut held) = self.locked() {
            held.sim().resume(me);
        }
        HORIZON.set(0);
        self.spend(0)
    }

    /// The thread is about to write the bytes of a stream before position `end`. A connection is made when it comes to the
    /// listener, with all that others do until then: a server that is started with its client listens in time.
    pub fn sent(&self, key: Key, end: u64) {
        let mut at = self.clock();
        if key.0 == LISTEN {
            at = self.sleep_until(at + self.profile().host.tcp_ps);
        }
        if let Ok(mut held) = self.locked() {
            if let Some(me) = self.place() {
                held.actor(me).promised = (key.0 == LISTEN).into();
            }
            held.sim().stream_sent(key, end, at);
        }
        HORIZON.set(0);
    }

    /// The thread closes the writing end of a stream.
    pub fn closed(&self, key: Key) {
        let at = self.clock();
        if let Ok(mut held) = self.locked() {
            held.sim().stream_closed(key, at);
        }
        HORIZON.set(0);
    }

    /// The thread has read the bytes of a stream before position `end`.
    pub fn received(&self, key: Key, end: u64) {
        let Ok(mut held) = self.locked() else { return };
        let at = held.sim().stream_received(key, end);
        drop(held);
        self.sleep_until(at);
    }

    /// The program wants SIGALRM at this time (ps).
    pub fn alarm(&self, at: u64) {
        let me = self.me();
        if let Ok(mut held) = self.locked() {
            held.actor(me).alarm = at;
            HORIZON.set(0);
        }
    }
}
