//! Executes events in order, as far as the programs' clocks allow.

use super::env::SimEnv;
use super::event::{Event, Touch};
use super::programs::actor::{Actor, State};
use super::state::{place, seen_by, Sim, FOREVER};
use crate::cells::Interrupts;
use crate::link::LinkArea;
use crate::segment::futex_raise;
use crate::world::World;
use contract::clock::WAKE_SIGNAL;
use std::sync::atomic::{compiler_fence, Ordering};

/// The simulation, for as long as the segment's lock is held.
pub struct Engine<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) env: SimEnv<'a>,
    /// Raised interrupts go here.
    pub(crate) interrupts: &'a [Interrupts],
    /// How packets travel.
    pub(crate) link: &'a LinkArea,
}

/// How the wait of an actor continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its clock has reached its target. It may advance alone to any time before `horizon`.
    Done {
        /// Its clock.
        clock: u64,
        /// First time that it must not reach alone.
        horizon: u64,
    },
    /// Another actor must move first.
    Blocked(u16),
    /// Nothing happens until some program acts.
    Idle,
}

impl Engine<'_> {
    /// Executes events until the clock of actor `me` can be at its target.
    pub fn run(&mut self, me: u16) -> Outcome {
        if self.actor(me).state == State::Dismissed {
            return Outcome::Done { clock: self.actor(me).now(), horizon: 0 };
        }
        let (mut limit, _) = self.env.sim.limit(me);
        while let Some(next) = self.env.sim.queue.peek() {
            if next.time > self.actor(me).target {
                break;
            }
            if next.time >= limit {
                let (now, who) = self.env.sim.limit(me);
                if next.time >= now {
                    return self.go_ahead(me, now).unwrap_or_else(|| self.wait_for(me, who, 0));
                }
                limit = now;
            }
            let touched =
                seen_by(next.item).and_then(|_| self.env.sim.events.get(place(next.item)).get().touches());
            if let Some(late) = touched.and_then(|t| self.env.sim.behind(me, t.member, next.time)) {
                return self.go_ahead(me, next.time).unwrap_or_else(|| self.wait_for(me, late, next.time));
            }
            if self.next_seen(touched) {
                limit = self.env.sim.limit(me).0;
            }
        }
        let target = self.actor(me).target;
        if target == FOREVER {
            let a = &mut self.env.sim.actors.all[me as usize];
            (a.need, a.blocker) = (FOREVER, me);
            return Outcome::Idle;
        }
        let (limit, who) = self.env.sim.limit(me);
        if target >= limit {
            return self.go_ahead(me, limit).unwrap_or_else(|| self.wait_for(me, who, 0));
        }
        if self.actor(me).state == State::Turn {
            self.env.sim.now = self.env.sim.now.max(target);
        }
        self.done(me)
    }

    fn actor(&self, me: u16) -> &super::programs::actor::Actor {
        &self.env.sim.actors.all[me as usize]
    }

    fn done(&mut self, me: u16) -> Outcome {
        let sim = &mut *self.env.sim;
        let clock = sim.actors.all[me as usize].arrive();
        let next = sim.queue.peek().map_or(FOREVER, |e| e.time);
        let horizon = sim.horizon(me, next.min(sim.limit(me).0));
        Outcome::Done { clock, horizon }
    }

    /// Events from `time` on wait for other actors; the target may be within the horizon nevertheless.
    fn go_ahead(&mut self, me: u16, time: u64) -> Option<Outcome> {
        let sim = &mut *self.env.sim;
        let a = &sim.actors.all[me as usize];
        let (for_time_alone, target) = (a.state == State::Waiting && a.step == 0, a.target);
        if !for_time_alone {
            return None;
        }
        let horizon = sim.horizon(me, time);
        (target < horizon).then(|| Outcome::Done { clock: sim.actors.all[me as usize].arrive(), horizon })
    }

    /// Blocks `me` until actor `who` has reached `at`, and a clock that lets `me` be at its target. That is later than
    /// the next event needs, since `who` itself executes the events up to there.
    fn wait_for(&mut self, me: u16, who: u16, at: u64) -> Outcome {
        let lookahead = self.env.sim.lookahead();
        let a = &mut self.env.sim.actors.all[me as usize];
        (a.blocker, a.need) = (who, a.target.max(at + lookahead - 1));
        Outcome::Blocked(who)
    }

    /// Executes the first event.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.next_seen(None);
    }

    /// Executes the first event; `touched` is what a process sees of it. Returns whether that ends a wait.
    #[inline]
    fn next_seen(&mut self, touched: Option<Touch>) -> bool {
        let before = self.env.sim.now;
        let Some(place) = self.begin() else { return false };
        let event = self.env.sim.events.get(place).get();
        let lands = event.lands();
        self.execute(event, before);
        let ends = touched.is_some_and(|touch| self.env.sim.touched(touch));
        self.end(place, lands);
        ends
    }

    /// Takes the first event from the queue. It keeps its place until it has happened: who repairs the simulation
    /// after a death meanwhile finds it there.
    #[inline(always)]
    pub(super) fn begin(&mut self) -> Option<u32> {
        let sim = &mut *self.env.sim;
        let next = sim.queue.pop()?;
        sim.now = next.time;
        sim.executed += 1;
        Some(place(next.item))
    }

    /// An event has happened, which has written payload if it `lands`. First it is no event any more, then it leaves the
    /// list of those that land: otherwise a repair would write it after later payload.
    #[inline(always)]
    fn end(&mut self, place: u32, lands: bool) {
        let sim = &mut *self.env.sim;
        compiler_fence(Ordering::SeqCst);
        sim.events.get_mut(place).set(Event::None);
        compiler_fence(Ordering::SeqCst);
        if lands {
            sim.landing.remove(place);
        }
        sim.events.free(place);
    }

    /// Does something to the queue pair that a word of the journal names: if this process dies meanwhile, the queue
    /// pair goes to error, because others cannot know what is done already.
    #[inline(always)]
    pub(super) fn noted<R>(&mut self, word: u64, work: impl FnOnce(&mut Self) -> R) -> R {
        let control = self.env.guard.control();
        control.write_journal(word);
        let result = work(self);
        control.close_journal();
        result
    }

    /// Lets an event happen. `before` is the time of what happened last.
    fn execute(&mut self, event: Event, before: u64) {
        match event {
            Event::None => {}
            Event::SendBell { card, qp, producer, pushed, life } => {
                if self.env.bells[card as usize].qp[qp as usize].life.load(Ordering::Relaxed) == life {
                    self.send_bell(card, qp, producer, pushed.get());
                }
            }
            Event::RecvBell { card, qp, producer, life } => {
                let bell = &self.env.bells[card as usize].qp[qp as usize];
                if bell.life.load(Ordering::Relaxed) == life {
                    bell.rq.store(producer, Ordering::Release);
                    if bell.watch.load(Ordering::Acquire) != 0 {
                        self.watched_bell(card, qp);
                    }
                }
            }
            Event::SharedBell { card, srq, producer, life } => {
                let bell = &self.env.bells[card as usize].srq[srq as usize];
                if bell.life.load(Ordering::Relaxed) == life {
                    bell.producer.store(producer, Ordering::Release);
                }
            }
            Event::Arm { card, function, value } => {
                let arm = fpga_regs::CqArm(value);
                self.env.step.card = card;
                let device = &mut self.world.cards[card as usize];
                device.arm_cq(function, arm.cqn(), arm.solicited_only(), arm.index(), &mut self.env);
                self.settle();
            }
            Event::Send { card, qp } => self.send(card, qp),
            Event::Due { card, port, flow } => self.due(card, port, flow),
            Event::Ready { slot } => self.ready(slot),
            Event::Depart { card, port, bytes } => self.depart(card, port, bytes),
            Event::Arrive { slot } => self.arrive(slot),
            Event::Record { slot, received } => self.record(slot, received.get()),
            Event::Write { to, slot, offset, len } => {
                self.env.apply_write(to, slot, offset, len);
                self.env.sim.release(slot);
            }
            Event::Entry { card, to, len, bytes } => {
                self.env.step.card = card;
                self.env.write_entry(to, &bytes[..len.into()]);
            }
            Event::Short { to, len, entry, bytes } => {
                self.env.apply_short(to, &bytes[..len.into()], entry.get());
            }
            Event::Message { card, function, vector, member, raised, subject } => {
                self.env.write_message(card, (function, vector, member), raised, &subject);
            }
            Event::Interrupt { card, function, vector, .. } => {
                self.env.sim.interrupt(self.interrupts, (card, function, vector));
            }
            Event::Held { card, cqn, arming } => {
                self.env.step.card = card;
                self.world.cards[card as usize].held_event(cqn, arming, &mut self.env);
                self.settle();
            }
            Event::Timers if self.has_due_timer() => self.timers(),
            Event::Wake { actor, serial } if self.env.sim.is_in_wait(actor, serial) => self.wake(actor),
            // What was waited for has come meanwhile: time does not go on for nothing.
            Event::Timers | Event::Wake { .. } => self.env.sim.now = before,
            Event::Span { span } => self.env.sim.trace.put(span),
            Event::Mac { card, port } => self.mac(card, port),
            Event::ToSwitch { slot, by } => self.enters_switch(slot, by),
            Event::FromSwitch { port } => self.leaves_switch(port),
            Event::PauseSwitch { port, on } => self.pause_switch(port, on.get()),
            Event::Patience { card, qp } => self.patience(card, qp),
            Event::Pause { card, port, on } => self.pause(card, port, on.get()),
        }
    }

    /// The deadline of an actor that waits in the kernel.
    fn wake(&mut self, actor: u16) {
        let now = self.env.sim.now;
        let a = &mut self.env.sim.actors.all[actor as usize];
        // In this order: the deadline of one that is blocked outlives this process, and what handles the signal
        // reads the clock.
        a.advance(now);
        super::programs::signal::send(a.pid, a.tid, WAKE_SIGNAL);
        a.release(now);
    }
}

impl Sim {
    /// Whether an actor is still in its wait in the kernel of this number.
    pub(super) fn is_in_wait(&self, actor: u16, serial: u32) -> bool {
        let a = &self.actors.all[actor as usize];
        a.serial == serial && a.state == State::Blocked
    }

    /// Delivers an interrupt to the processor: the thread that waits for it continues at this time, whenever the
    /// machine wakes it.
    pub fn interrupt(&mut self, interrupts: &[Interrupts], (card, function, vector): (u16, u16, u8)) {
        let at = self.now + self.profile.host.wake_ps;
        self.cards[card as usize].interrupt_at[function as usize] = at;
        let waited = (u32::from(card) << 16 | u32::from(function)) + 1;
        let waits = |a: &&mut Actor| a.state == State::Blocked && a.interrupt == waited;
        if let Some(a) = self.actors.used_mut().iter_mut().find(waits) {
            a.release(at);
        }
        let word = &interrupts[card as usize][function as usize][vector as usize];
        futex_raise(word);
    }
}
