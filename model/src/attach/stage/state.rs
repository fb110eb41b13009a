//! What a stage consists of: the cards, the memory that they reach, and when each actor acts.
#![allow(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use driver::DmaMemory;

use super::room::Room;
use crate::panics::lock;
use crate::segment::page::PAGE;
use crate::segment::{Area, Guard, Segment};
use crate::sim::control::ControlEnv;
use crate::sim::engine::Engine;
use crate::sim::env::{SimEnv, Step};
use crate::sim::state::{place, seen_by};
use crate::world::World;

/// The cards see the stage's memory from here on, wherever the process has it: the same in every run, since a card's
/// caches place entries by address.
pub(super) const MEMORY: u64 = 1 << 40;

/// Longest wait for the lock of the memory, which nobody else takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who calls an actor next: its card, at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// When (ps).
    pub at: u64,
    /// Its card.
    pub card: u16,
}

pub(super) struct State {
    pub room: Room,
    step: Step,
    /// Where the memory is here.
    memory: Area,
    /// By page that was given out: the card of whose rings it is, plus one; 0: of none.
    owners: Vec<u16>,
    /// Pages given back, by their number: where they begin.
    unused: HashMap<usize, Vec<usize>>,
    /// Clocks of the actors (ps).
    pub clocks: Vec<u64>,
    /// Actors to be called.
    turns: BinaryHeap<Reverse<Turn>>,
    /// Whether an actor is among them.
    waiting: Vec<bool>,
}

// SAFETY: the address of memory that the stage owns.
unsafe impl Send for State {}

pub(super) struct Inner {
    segment: Segment,
    state: Mutex<State>,
}

impl Inner {
    pub fn new(segment: Segment, memory: Area, room: Room) -> Inner {
        let cards = room.world.cards.len();
        let state = State {
            room,
            step: Step::default(),
            memory,
            owners: Vec::new(),
            unused: HashMap::new(),
            clocks: vec![0; cards],
            turns: BinaryHeap::new(),
            waiting: vec![false; cards],
        };
        Inner { segment, state: Mutex::new(state) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn member(&self) -> u16 {
        self.segment.member()
    }

    fn guard(&self) -> Guard<'_> {
        self.segment.lock(PATIENCE).expect("nobody else has the stage's memory")
    }

    /// Works with the whole simulation.
    pub fn engine<R>(&self, state: &mut State, work: impl FnOnce(&mut Engine<'_>) -> R) -> R {
        state.engine(&self.guard(), work)
    }

    /// A control operation, which takes no simulated time.
    pub fn control<R>(&self, work: impl FnOnce(&mut World, &mut ControlEnv<'_, '_>) -> R) -> R {
        self.engine(&mut self.state(), |engine| engine.control(work))
    }

    /// Executes events until an actor is to act; `None`: nothing happens any more, or more than `limit` events did.
    pub fn next(&self, limit: u64) -> Option<Turn> {
        let mut state = self.state();
        let guard = self.guard();
        let end = state.room.sim.executed.saturating_add(limit);
        loop {
            let turn = state.turns.peek().map(|turn| turn.0);
            let due = turn.map_or(u64::MAX, |turn| turn.at);
            match state.room.sim.queue.peek() {
                Some(event) if event.time <= due && state.room.sim.executed < end => {
                    let touched = seen_by(event.item).and_then(|_| state.entry(place(event.item)));
                    state.engine(&guard, |engine| engine.next());
                    if let Some(card) = touched {
                        state.call(card, event.time);
                    }
                }
                Some(event) if event.time <= due => return None,
                _ => break,
            }
        }
        let Reverse(turn) = state.turns.pop()?;
        state.waiting[usize::from(turn.card)] = false;
        state.clocks[usize::from(turn.card)] = turn.at;
        Some(turn)
    }
}

impl State {
    fn engine<R>(&mut self, guard: &Guard<'_>, work: impl FnOnce(&mut Engine<'_>) -> R) -> R {
        let Room { world, sim, bells, interrupts, link } = &mut self.room;
        let env = SimEnv { sim, bells, guard, step: &mut self.step };
        work(&mut Engine { world, env, interrupts, link })
    }

    /// The card in one of whose rings an event writes an entry.
    fn entry(&self, event: u32) -> Option<u16> {
        let touch = self.room.sim.events.get(event).get().touches().filter(|touch| touch.entry)?;
        let page = touch.at.checked_sub(MEMORY)? / PAGE;
        self.owners.get(page as usize)?.checked_sub(1)
    }

    /// An actor has something to do from a time on. It polls without pause, each time for as long as a poll takes that
    /// finds nothing, since its clock.
    pub fn call(&mut self, card: u16, time: u64) {
        let waiting = &mut self.waiting[usize::from(card)];
        if !std::mem::replace(waiting, true) {
            let (clock, poll) =
                (self.clocks[usize::from(card)], self.room.sim.profile.host.poll_empty_ps.max(1));
            let at = clock + time.saturating_sub(clock).div_ceil(poll) * poll;
            self.turns.push(Reverse(Turn { at, card }));
        }
    }

    /// Zeroed memory, of the rings of a card or of none.
    pub fn alloc(&mut self, card: Option<u16>, bytes: usize) -> Option<DmaMemory> {
        let pages = bytes.max(1).div_ceil(PAGE as usize);
        let owner = card.map_or(0, |card| card + 1);
        let first = match self.unused.get_mut(&pages).and_then(Vec::pop) {
            Some(first) => {
                self.owners[first..first + pages].fill(owner);
                let ptr = self.memory.ptr.wrapping_add(first * PAGE as usize);
                // SAFETY: pages of the stage's memory that nobody has.
                unsafe { ptr.write_bytes(0, pages * PAGE as usize) };
                first
            }
            None => {
                let first = self.owners.len();
                if (first + pages) * PAGE as usize > self.memory.len {
                    return None;
                }
                self.owners.resize(first + pages, owner);
                first
            }
        };
        let at = first * PAGE as usize;
        Some(DmaMemory {
            ptr: self.memory.ptr.wrapping_add(at),
            iova: MEMORY + at as u64,
            len: pages * PAGE as usize,
        })
    }

    pub fn free(&mut self, memory: DmaMemory) {
        let (first, pages) =
            ((memory.iova - MEMORY) as usize / PAGE as usize, memory.len.div_ceil(PAGE as usize));
        self.owners[first..first + pages].fill(0);
        self.unused.entry(pages).or_default().push(first);
    }

    /// Where the cards see memory of this process.
    pub fn iova(&self, addr: u64, len: usize) -> Option<u64> {
        let at = addr.checked_sub(self.memory.ptr as u64)?;
        let end = at.checked_add(len as u64)?;
        (end <= self.memory.len as u64).then_some(MEMORY + at)
    }
}
