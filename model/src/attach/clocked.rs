//! A process's threads in simulated time: their clocks move on through here.
//!
//! A thread's clock goes on by itself as far as nothing can happen (`horizon`); beyond that it takes the
//! segment's lock, executes events, and sleeps where another thread must move first.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use super::net::Net;
use super::runner::Runner;
use super::standstill::{self, patience, Sleeper, Standstill};
use super::wall::Wall;
use crate::segment::{futex_wait, now_ns, Guard, LockError, Segment};
use crate::sim::actors::{Actor, State, Watched};
use crate::sim::{Engine, Event, Outcome, Sim, SimEnv, Wait, FOREVER};
use crate::world::World;

/// How long an operation waits for the lock.
const PATIENCE: Duration = Duration::from_secs(20);
/// Empty polls in a row after which the next one waits for a completion, as all that would follow.
const EMPTY_POLLS: u32 = 2;
/// How long a thread sleeps before it looks again, in case it is the last one.
const NAP: Duration = Duration::from_millis(20);

thread_local! {
    /// Place of this thread's actor plus one; 0: none.
    static ME: Cell<u32> = const { Cell::new(0) };
    /// The clock may be moved on to before this time without looking.
    static HORIZON: Cell<u64> = const { Cell::new(0) };
    /// The clock at which the thread has left, plus one: exit handlers may still call.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    /// Empty polls in a row.
    static EMPTY: Cell<u32> = const { Cell::new(0) };
    /// Leaves when the thread ends.
    static LEAVER: Leaver = const { Leaver };
}

/// Calls into the library so far: has a program called since?
static CALLS: AtomicU64 = AtomicU64::new(0);
/// To be called when a wait passed the program's alarm.
static ON_ALARM: OnceLock<fn()> = OnceLock::new();
/// How a thread that ends is taken from its timeline.
static LEAVE: OnceLock<Box<dyn Fn(u16) -> bool + Send + Sync>> = OnceLock::new();

struct Leaver;

impl Drop for Leaver {
    fn drop(&mut self) {
        let me = ME.get();
        if let (Some(leave), true) = (LEAVE.get(), me != 0) {
            if leave((me - 1) as u16) {
                ME.set(0);
            }
        }
    }
}

/// What ends a wait for memory.
#[derive(Clone, Copy)]
enum Until {
    /// The time alone.
    Time,
    /// A queue entry, seen by a poll every so often.
    Entry(u64),
    /// A write to these places, seen so much later.
    Write(u64, Watched),
}

/// Spins before a thread sleeps: none where there is no other core for whom it waits for.
fn spins() -> u32 {
    static SPINS: OnceLock<u32> = OnceLock::new();
    *SPINS.get_or_init(|| match std::thread::available_parallelism() {
        Ok(n) if n.get() > 1 => 500,
        _ => 0,
    })
}

fn sim(net: &Net) -> *mut Sim {
    net.sim.get()
}

impl<S: Borrow<Segment>> Runner<S> {
    /// Whether the cards of this net run in simulated time.
    #[inline]
    pub fn simulated(&self) -> bool {
        // SAFETY: written once, before anybody could join.
        unsafe { (*sim(self.net())).on }
    }

    /// Whether it is recorded what they do.
    #[inline]
    pub(super) fn traced(&self) -> bool {
        // SAFETY: only an atomic of it is looked at.
        unsafe { (*sim(self.net())).trace.on() }
    }

    /// The simulation, with the lock.
    pub(super) fn engine<R>(&self, guard: &Guard<'_>, work: impl FnOnce(&mut Engine<'_>) -> R) -> R {
        let net = self.net();
        // SAFETY: the lock is held: no other thread or process uses the cards, the simulation or our scratch.
        let (world, sim, step) = unsafe { (&mut *net.world.get(), &mut *net.sim.get(), self.step()) };
        let env = SimEnv { sim, bells: &net.bells, guard, step };
        let mut engine = Engine { world, env, interrupts: &net.interrupts, link: &net.link };
        let result = work(&mut engine);
        engine.end_link();
        result
    }

    pub(super) fn locked(&self) -> Result<Guard<'_>, LockError> {
        // Waiting with a time-out reads the clock, which is a trap in a program whose clock is virtual.
        let guard = match self.segment().try_lock() {
            Some(guard) => guard,
            None => self.wait_for_lock()?,
        };
        if guard.recovered() {
            self.recover_simulated(&guard);
        }
        Ok(guard)
    }

    #[cold]
    fn wait_for_lock(&self) -> Result<Guard<'_>, LockError> {
        for _ in 0..spins() / 4 {
            std::hint::spin_loop();
            if let Some(guard) = self.segment().try_lock() {
                return Ok(guard);
            }
        }
        let waits = |on| {
            if let Some(me) = ME.get().checked_sub(1) {
                self.actors()[me as usize].locking.store(on, Ordering::Relaxed);
            }
        };
        waits(true);
        let guard = self.segment().lock(patience().min(PATIENCE));
        waits(false);
        guard
    }

    fn actors(&self) -> &[Actor] {
        // SAFETY: only atomics of it are used without the lock.
        unsafe { &(*sim(self.net())).actors.all }
    }

    /// This thread's actor; it joins with its first call.
    #[inline]
    pub(super) fn me(&self) -> u16 {
        let me = match ME.get() {
            0 => self.join(),
            n => (n - 1) as u16,
        };
        if self.actors()[me as usize].aside.load(Ordering::Relaxed) {
            self.come_back(me);
        }
        me
    }

    /// The thread was taken to wait, and has ended its wait.
    #[cold]
    fn come_back(&self, me: u16) {
        let guard = self.must_lock();
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let latest = sim.latest();
            sim.actors.all[me as usize].aside.store(false, Ordering::Relaxed);
            sim.actors.all[me as usize].release(latest);
        });
        drop(guard);
        HORIZON.set(0);
    }

    /// The thread spins for another one of its process, which may be waiting for time to pass.
    pub fn set_aside(&self) {
        let me = self.me();
        let guard = self.must_lock();
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            if sim.actors.all[me as usize].state == State::Running {
                sim.actors.all[me as usize].set_aside();
                sim.notify(me);
            }
        });
    }

    /// The thread takes part from the moment on at which all others wait for something: so that where it
    /// begins does not depend on how fast it was started.
    #[cold]
    fn join(&self) -> u16 {
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
                    ME.set(u32::from(at) + 1);
                    HORIZON.set(0);
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

    /// This thread's clock.
    pub(super) fn clock(&self) -> u64 {
        match (ME.get(), LEFT.get()) {
            (0, left) if left != 0 => left - 1,
            _ => self.actors()[self.me() as usize].now(),
        }
    }

    /// The program has used so much time.
    #[inline]
    pub fn spend(&self, ps: u64) -> u64 {
        let me = self.me();
        let actor = &self.actors()[me as usize];
        let clock = actor.clock.load(Ordering::Relaxed) + ps;
        if clock < HORIZON.get() {
            actor.clock.store(clock, Ordering::Release);
            return clock;
        }
        self.advance(me, clock, Until::Time)
    }

    /// The program waits for time to pass, or for memory, and looks every so often: so much time, or less if
    /// its memory is written.
    pub fn idle(&self, ps: u64) -> u64 {
        let me = self.me();
        let now = self.actors()[me as usize].now();
        self.advance(me, now + ps, Until::Write(0, Watched::default()))
    }

    /// The program sleeps.
    pub fn sleep_until(&self, at: u64) -> u64 {
        let me = self.me();
        let now = self.actors()[me as usize].now();
        self.advance(me, at.max(now), Until::Time)
    }

    /// A poll found nothing.
    pub fn polled_nothing(&self) {
        called();
        let cost = self.profile().host.poll_empty_ps.max(1);
        let empty = EMPTY.get();
        EMPTY.set(empty.saturating_add(1));
        if empty < EMPTY_POLLS {
            self.spend(cost);
        } else {
            self.advance(self.me(), FOREVER, Until::Entry(cost));
        }
    }

    /// A poll found completions.
    pub fn polled(&self, completions: usize) {
        called();
        EMPTY.set(0);
        let host = &self.profile().host;
        self.spend(host.poll_ps + completions as u64 * host.poll_cqe_ps);
        self.trace_polled();
    }

    /// The program spins on memory: on these places.
    pub fn memory_wait(&self, watched: Watched) -> u64 {
        let seen = self.profile().host.memory_poll_ps;
        self.advance(self.me(), FOREVER, Until::Write(seen, watched))
    }

    /// A counter that changes with each call.
    pub fn calls(&self) -> u64 {
        CALLS.load(Ordering::Relaxed)
    }

    /// The timing in use.
    #[inline]
    pub fn profile(&self) -> &crate::profile::Profile {
        // SAFETY: written once, before anybody could join.
        unsafe { &(*sim(self.net())).profile }
    }

    fn advance(&self, me: u16, target: u64, until: Until) -> u64 {
        let guard = self.must_lock();
        self.engine(&guard, |e| {
            let a = &mut e.env.sim.actors.all[me as usize];
            if a.state == State::Dismissed {
                return;
            }
            a.state = State::Waiting;
            a.target = target.min(a.alarm.max(a.now()));
            a.due = false;
            a.watched = Watched::default();
            (a.step, a.after, a.entries) = match until {
                Until::Time => (0, 0, false),
                Until::Entry(step) => (step, 0, true),
                Until::Write(seen, watched) => {
                    a.watched = watched;
                    (1, seen, false)
                }
            };
        });
        let (clock, guard) = self.finish(me, guard);
        let alarm = self.engine(&guard, |e| e.env.sim.actors.all[me as usize].alarm);
        drop(guard);
        if alarm <= clock {
            if let Some(ring) = ON_ALARM.get() {
                ring();
            }
            // Time goes on, alarm or not.
            if clock < target && matches!(until, Until::Time) {
                return self.advance(me, target, until);
            }
        }
        clock
    }

    /// Executes events, and waits for others, until the wait of actor `me` has come to its end.
    fn finish<'a>(&'a self, me: u16, mut guard: Guard<'a>) -> (u64, Guard<'a>) {
        let mut still = Standstill::default();
        let mut sleeper = Sleeper::default();
        loop {
            let outcome = self.engine(&guard, |e| {
                let outcome = e.run(me);
                e.env.sim.notify(me);
                outcome
            });
            if let Outcome::Done { clock, horizon } = outcome {
                HORIZON.set(horizon);
                return (clock, guard);
            }
            let (executed, alone) = self.engine(&guard, |e| {
                let sim = &*e.env.sim;
                let member = sim.actors.all[me as usize].member;
                // Nobody has come yet who could do something.
                let alone = outcome == Outcome::Idle && !sim.has_others(member);
                (sim.executed, alone)
            });
            let actor = &self.actors()[me as usize];
            let seen = actor.word.load(Ordering::Acquire);
            drop(guard);
            let in_vain = wait(&actor.word, seen, &actor.asleep);
            if in_vain && self.has_gone_to_sleep(outcome, &mut sleeper) {
                guard = self.must_lock();
                continue;
            }
            if in_vain && !alone && still.too_long(executed) {
                self.give_up();
            }
            guard = self.must_lock();
        }
    }

    /// Whether the thread that must move first sleeps in the kernel, and nobody here knows for what: for a mutex,
    /// say, that its program holds in a thread that waits for time to pass. It is taken to wait.
    #[cold]
    fn has_gone_to_sleep(&self, outcome: Outcome, sleeper: &mut Sleeper) -> bool {
        let Outcome::Blocked(other) = outcome else { return false };
        let guard = self.must_lock();
        let running = self.engine(&guard, |e| {
            let a = &e.env.sim.actors.all[other as usize];
            let runs = a.state == State::Running && !a.locking.load(Ordering::Relaxed);
            runs.then_some((a.pid, a.tid, a.now()))
        });
        drop(guard);
        let Some((pid, tid, now)) = running.filter(|&(pid, tid, _)| sleeper.sleeps_on(pid, tid)) else {
            return false;
        };
        let guard = self.must_lock();
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let a = &mut sim.actors.all[other as usize];
            let same = (a.pid, a.tid, a.now(), a.state) == (pid, tid, now, State::Running);
            if same {
                a.set_aside();
                sim.notify(other);
            }
            same
        })
    }

    /// Time stands still: says who waits for what, and ends.
    #[cold]
    fn give_up(&self) -> ! {
        let guard = self.must_lock();
        let text = self.engine(&guard, |e| e.env.sim.describe());
        drop(guard);
        standstill::end(&text)
    }

    /// The lock, for what a program cannot go on without.
    fn must_lock(&self) -> Guard<'_> {
        self.locked().unwrap_or_else(|error| {
            // Nothing at the program's end shall wait for it again.
            ME.set(0);
            LEFT.set(1);
            standstill::cannot_go_on(&error)
        })
    }

    /// A control operation: the thread's clock goes on to where the operation takes place, in its turn.
    pub(super) fn turn<R>(&self, first: impl FnOnce(&mut World, &mut Wall<'_>) -> R) -> Result<R, LockError> {
        called();
        let me = self.me();
        let guard = self.locked()?;
        self.engine(&guard, |e| {
            let lookahead = e.env.sim.lookahead();
            let a = &mut e.env.sim.actors.all[me as usize];
            if a.state == State::Dismissed {
                return;
            }
            a.state = State::Turn;
            a.target = a.now() + lookahead;
            a.step = 0;
            a.due = false;
        });
        let (_, guard) = self.finish(me, guard);
        let result = self.run_locked(&guard, first);
        HORIZON.set(0);
        Ok(result)
    }

    /// A doorbell, after the program has used `cost`; `bytes` are written.
    ///
    /// Returns when the card sees it.
    pub(super) fn bell(&self, cost: u64, bytes: u64, event: Event) -> u64 {
        called();
        let clock = self.spend(cost);
        EMPTY.set(0);
        let me = self.me();
        let p = self.profile();
        let at = clock + p.pcie.mmio_ps.max(1) + p.pcie.pcie_bps.time(bytes + u64::from(p.pcie.mwr_overhead));
        let Ok(guard) = self.locked() else { return at };
        self.engine(&guard, |e| e.env.sim.act(me, at, event));
        drop(guard);
        HORIZON.set(HORIZON.get().min(at));
        at
    }

    /// Like [`bell`](Self::bell) for a send queue: whether its WQEs go with the doorbell depends on them.
    pub(super) fn send_bell(&self, card: u8, qp: u16, producer: u32, blocks: u32) {
        let p = self.profile();
        let bytes = blocks * fpga_regs::WQE_BLOCK as u32;
        let (count, inline) = self.posted(card, qp, producer, blocks);
        // As our driver does it: one small WQE.
        let pushed = count == 1 && bytes <= p.sq.push_max && (p.sq.push_inline_only == 0 || inline);
        let store = if pushed { p.host.push_ps * u64::from(blocks) } else { p.host.doorbell_ps };
        let cost = p.host.post_ps * u64::from(count) + store;
        let on_bus = if pushed { u64::from(bytes) } else { 8 };
        let at = self.bell(cost, on_bus, Event::SendBell { card, qp, producer, pushed });
        self.trace_posted((card, qp), producer.wrapping_sub(blocks)..producer, cost, at);
    }

    /// How many WQEs the last `blocks` blocks of a send queue are, and whether the first has inline data.
    fn posted(&self, card: u8, qp: u16, producer: u32, blocks: u32) -> (u32, bool) {
        let Ok(guard) = self.locked() else { return (1, false) };
        self.engine(&guard, |e| {
            let device = &e.world.cards[card as usize];
            let (mut count, mut inline, mut left) = (0, false, blocks);
            while left > 0 {
                let Some((ctrl, n)) = device.posted(qp, producer.wrapping_sub(left), &mut e.env) else {
                    break;
                };
                inline |= count == 0 && ctrl.inline();
                count += 1;
                left = left.saturating_sub(n);
            }
            (count.max(1), inline)
        })
    }

    /// Whose function it is, for interrupts.
    pub(super) fn note_function(&self, card: u8, function: u16) {
        let member = self.segment().member();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.members[card as usize][function as usize] = member);
        }
    }

    /// Before memory goes away: lets all writes that are under way to this process happen.
    pub(super) fn drain_writes(&self) {
        let me = self.me();
        let member = self.segment().member();
        let Ok(guard) = self.locked() else { return };
        let last = self.engine(&guard, |e| e.env.sim.last_write(member));
        drop(guard);
        if let Some(last) = last {
            self.sleep_until(last);
        }
        let _ = me;
    }

    /// The thread is about to wait for an interrupt of a function; false if there was one meanwhile.
    pub(super) fn block_for_interrupt(&self, card: u8, function: u16, word: &AtomicU32, seen: u32) -> bool {
        let me = self.me();
        let Ok(guard) = self.locked() else { return false };
        let blocked = self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            if word.load(Ordering::Acquire) != seen {
                return false;
            }
            let a = &mut sim.actors.all[me as usize];
            if a.state == State::Dismissed {
                return true;
            }
            a.state = State::Blocked;
            a.interrupt = interrupt(card, function);
            a.wait_count = 0;
            sim.idle.waits += 1;
            sim.notify(me);
            true
        });
        if blocked {
            self.if_all_wait(&guard);
        }
        drop(guard);
        blocked
    }

    /// The thread has taken an interrupt: it is no earlier than that. If it was woken by something else it
    /// still waits, as far as simulated time goes.
    pub(super) fn took_interrupt(&self, card: u8, function: u16) {
        let me = self.me();
        let Ok(guard) = self.locked() else { return };
        let at = self.engine(&guard, |e| {
            let runs = e.env.sim.actors.all[me as usize].state == State::Running;
            runs.then(|| e.env.sim.interrupt_at[card as usize][function as usize])
        });
        drop(guard);
        if let Some(at) = at {
            self.sleep_until(at);
        }
    }

    /// A thread is about to be started that waits for the interrupts of a function: its place, which
    /// takes part from now on, however long the machine takes to start it.
    pub(super) fn adopt(&self, card: u8, function: u16) -> Option<u16> {
        let now = self.clock();
        let guard = self.locked().ok()?;
        let member = self.segment().member();
        self.engine(&guard, |e| {
            let at = e.env.sim.join(member, std::process::id(), 0)?;
            let a = &mut e.env.sim.actors.all[at as usize];
            a.clock.store(now, Ordering::Release);
            a.state = State::Blocked;
            a.interrupt = interrupt(card, function);
            Some(at)
        })
    }

    /// This thread is the one for whom [`adopt`](Self::adopt) made a place.
    pub(super) fn take_place(&self, place: u16) {
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.actors.all[place as usize].tid = tid());
        }
        ME.set(u32::from(place) + 1);
        let _ = LEAVER.try_with(|_| ());
    }

    /// The thread at this place takes part no more; nothing that it still does waits for simulated time.
    pub(super) fn dismiss(&self, place: u16) {
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| {
                let sim = &mut *e.env.sim;
                let a = &mut sim.actors.all[place as usize];
                a.state = State::Dismissed;
                a.serial += 1;
                a.interrupt = 0;
                a.bump();
                sim.notify(place);
            });
        }
    }

    /// The thread is about to wait in the kernel. Returns what [`unblock`](Self::unblock) wants.
    pub fn block(&self, waits: &[Wait], deadline: u64) -> u64 {
        let me = self.me();
        let Ok(guard) = self.locked() else { return 0 };
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            if sim.stream_ready(waits) {
                return;
            }
            let a = &mut sim.actors.all[me as usize];
            let n = waits.len().min(a.waits.len());
            a.waits[..n].copy_from_slice(&waits[..n]);
            a.wait_count = n as u32;
            a.state = State::Blocked;
            a.interrupt = 0;
            a.serial += 1;
            let (serial, at) = (a.serial, deadline.min(a.alarm).max(a.now()));
            if at != FOREVER {
                let at = at.max(sim.now);
                sim.act(me, at, Event::Wake { actor: me, serial });
            }
            sim.idle.waits += 1;
            sim.notify(me);
        });
        self.if_all_wait(&guard);
        drop(guard);
        0
    }

    /// If every program waits: executes what happens meanwhile, and leaves the rest to the keeper.
    fn if_all_wait(&self, guard: &Guard<'_>) {
        let next = self.engine(guard, |e| match e.env.sim.all_wait() {
            true => e.idle(now_ns()),
            false => None,
        });
        if let Some(at) = next {
            self.segment().arm_deadline(at);
        }
    }

    /// For the keeper: the same; returns the machine's time (ns) at which to look again.
    pub(super) fn keep_going(&self) -> Result<Option<u64>, LockError> {
        let guard = self.locked()?;
        Ok(self.engine(&guard, |e| e.idle(now_ns())))
    }

    /// The wait in the kernel has ended.
    pub fn unblock(&self, _token: u64) -> u64 {
        self.resume();
        HORIZON.set(0);
        self.spend(0)
    }

    /// The kernel let the thread go on: if nobody within the simulation did, it goes on from now.
    fn resume(&self) {
        let me = self.me();
        let Ok(guard) = self.locked() else { return };
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            if sim.actors.all[me as usize].state == State::Blocked {
                let latest = sim.latest();
                sim.actors.all[me as usize].release(latest);
            }
        });
        drop(guard);
        HORIZON.set(0);
    }

    /// The thread is about to write bytes of a stream.
    pub fn sent(&self, key: crate::sim::StreamKey, end: u64) {
        let at = self.clock();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.stream_sent(key, end, at));
        }
        HORIZON.set(0);
    }

    /// The thread has closed the writing end of a stream.
    pub fn closed(&self, key: crate::sim::StreamKey) {
        let at = self.clock();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| e.env.sim.stream_closed(key, at));
        }
        HORIZON.set(0);
    }

    /// The thread has read bytes of a stream.
    pub fn received(&self, key: crate::sim::StreamKey, end: u64) {
        let Ok(guard) = self.locked() else { return };
        let at = self.engine(&guard, |e| e.env.sim.stream_received(key, end));
        drop(guard);
        self.sleep_until(at);
    }

    /// The program wants SIGALRM at this time.
    pub fn alarm(&self, at: u64) {
        let me = self.me();
        let member = self.segment().member();
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| {
                let _ = member;
                e.env.sim.actors.all[me as usize].alarm = at;
            });
        }
    }

    /// Makes a new net one of simulated time.
    pub(super) fn start_simulation(
        &self,
        profile: &crate::profile::Profile,
        trace: Option<&std::path::Path>,
    ) {
        // SAFETY: nobody else has the segment yet.
        let sim = unsafe { &mut *sim(self.net()) };
        sim.profile = *profile;
        if let Some(path) = trace {
            sim.trace.start(path);
        }
        sim.on = true;
    }

    /// A process is gone: its clock holds nobody back, nothing is written to its memory.
    pub(super) fn member_gone(&self, member: u16) {
        if let Ok(guard) = self.locked() {
            self.engine(&guard, |e| {
                e.env.sim.forget_domain(member);
                e.env.sim.leave(|a| a.member == member);
                e.env.sim.trace.flush();
            });
            self.segment().arm_deadline(now_ns());
        }
    }

    /// This thread ends, and takes part no more; false if it takes the process with it, whose exit handlers
    /// still use its clock.
    pub fn leave(&self, me: u16) -> bool {
        let Ok(guard) = self.locked() else { return true };
        let (member, tid) = (self.segment().member(), tid());
        self.engine(&guard, |e| {
            let sim = &mut *e.env.sim;
            let mine = sim.actors.used().iter().filter(|a| a.member == member && a.state.takes_part());
            if sim.actors.all[me as usize].tid == std::process::id() && mine.count() == 1 {
                return false;
            }
            let a = &mut sim.actors.all[me as usize];
            LEFT.set(a.now() + 1);
            sim.leave(|a| a.member == member && a.tid == tid);
            self.segment().arm_deadline(now_ns());
            true
        })
    }
}

/// This thread's number.
fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// How far the simulated time of the net has come whose keeper listens at `socket` (ps): the furthest clock
/// of all threads that take or took part. `None`: it runs by the machine's time.
pub fn simulated_time(socket: &std::path::Path) -> Result<Option<u64>, super::OpenError> {
    let runner = Runner::new(Segment::attach(socket)?);
    if !runner.simulated() {
        return Ok(None);
    }
    let guard = runner.locked()?;
    Ok(Some(runner.engine(&guard, |e| e.env.sim.furthest())))
}

/// How an actor names the interrupts that it waits for.
fn interrupt(card: u8, function: u16) -> u32 {
    (u32::from(card) << 16 | u32::from(function)) + 1
}

/// The program has called the library.
fn called() {
    CALLS.store(CALLS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// What to call when a wait has passed the program's alarm.
pub fn on_alarm(ring: fn()) {
    let _ = ON_ALARM.set(ring);
}

/// How a thread that ends leaves.
pub(super) fn on_thread_end(leave: impl Fn(u16) -> bool + Send + Sync + 'static) {
    let _ = LEAVE.set(Box::new(leave));
}

/// Waits until the word changes, at most for a nap. True if it has not.
fn wait(word: &AtomicU32, seen: u32, asleep: &AtomicU32) -> bool {
    for _ in 0..spins() {
        if word.load(Ordering::Acquire) != seen {
            return false;
        }
        std::hint::spin_loop();
    }
    asleep.store(1, Ordering::SeqCst);
    if word.load(Ordering::SeqCst) == seen {
        futex_wait(word, seen, Some(NAP));
    }
    asleep.store(0, Ordering::SeqCst);
    word.load(Ordering::Acquire) == seen
}

/// A process's part in the simulated time of a net; see the methods of the same names.
#[derive(Clone)]
pub struct Clocked(std::sync::Arc<Runner<Segment>>);

impl Clocked {
    pub(super) fn new(runner: std::sync::Arc<Runner<Segment>>) -> Self {
        Clocked(runner)
    }

    /// The timing in use.
    #[must_use]
    pub fn profile(&self) -> &crate::profile::Profile {
        self.0.profile()
    }

    /// Events that were executed in this net so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        let guard = self.0.must_lock();
        self.0.engine(&guard, |e| e.env.sim.executed)
    }

    /// Whether both are of the same net.
    #[must_use]
    pub fn same(&self, other: &Clocked) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

macro_rules! delegate {
    ($($(#[$doc:meta])* fn $name:ident(&self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        impl Clocked {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self $(, $arg: $type)*) $(-> $result)? {
                self.0.$name($($arg),*)
            })*
        }
    };
}

delegate! {
    /// This thread's clock (ps).
    fn clock(&self) -> u64;
    /// The program has used so much time; returns its clock.
    fn spend(&self, ps: u64) -> u64;
    /// The program waits so long, or less if its memory is written; returns its clock.
    fn idle(&self, ps: u64) -> u64;
    /// The thread spins for another one of its process.
    fn set_aside(&self);
    /// The program sleeps until then; returns its clock.
    fn sleep_until(&self, at: u64) -> u64;
    /// The thread is about to wait in the kernel for these streams, at most until `deadline`.
    fn block(&self, waits: &[Wait], deadline: u64) -> u64;
    /// That wait has ended; returns the clock.
    fn unblock(&self, token: u64) -> u64;
    /// The thread is about to write the bytes of a stream before position `end`.
    fn sent(&self, key: crate::sim::StreamKey, end: u64);
    /// The thread has read the bytes of a stream before position `end`.
    fn received(&self, key: crate::sim::StreamKey, end: u64);
    /// The thread closes the writing end of a stream.
    fn closed(&self, key: crate::sim::StreamKey);
    /// The thread spins on these places of its memory: waits for the next write to them; returns the clock.
    fn memory_wait(&self, watched: Watched) -> u64;
    /// A counter that changes with each call of the program.
    fn calls(&self) -> u64;
    /// The program wants SIGALRM at this time.
    fn alarm(&self, at: u64);
}
