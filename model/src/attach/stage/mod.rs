//! A *stage*: a net of many cards in simulated time whose programs are *actors*, all played by one thread.
//!
//! The cards, the packets, the switch and the driver are those of every other net. What differs is who waits: a thread of
//! [`crate::sim::threads`] has a clock and sleeps until others have moved; here each card has one actor with a clock of its
//! own, and [`Stage::next`] executes events until one of them has something to do. The actor then polls and posts through
//! the driver, which advances its clock, and returns. It sees a completion when its next poll would find it.
//!
//! All of it is private to the process, and takes memory only where it is used: a card has tables for thousands of queue
//! pairs, of which a workload uses a few.
//!
//! | file | idea |
//! |---|---|
//! | `room` | any number of cards |
//! | `state` | events, turns and memory |
//! | `card`, `buffer` | the driver's backend; memory for actors |

mod buffer;
mod card;
mod room;
mod state;

use std::io;
use std::sync::Arc;

use super::error::OpenError;
use super::function::Function;
use super::limits::{limits, ports};
use crate::congestion::{CcOptions, SwitchOptions};
use crate::packet::{PortId, MOST_CARDS};
use crate::profile::Profile;
use crate::segment::{KeeperError, Segment};
use crate::sim::fabric::Fabric;
use crate::sim::switch::Counts;
use room::Room;
use state::Inner;

pub use buffer::Buffer;
pub use card::StageCard;
pub use state::Turn;

/// What a stage is to be.
#[derive(Clone, Copy, Debug)]
pub struct StageOptions {
    /// Number of cards, 1 to [`MOST_CARDS`].
    pub cards: u16,
    /// Their timing.
    pub profile: Profile,
    /// The switches between them, and how they are connected; `None`: each port reaches the others at no cost.
    pub switch: Option<(SwitchOptions, Fabric)>,
    /// Their congestion control.
    pub cc: Option<CcOptions>,
    /// Path MTU that the ports are set to; `None`: as the profile says.
    pub mtu: Option<u32>,
    /// Room for rings and buffers, bytes.
    pub memory: u64,
}

/// Why there is no stage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// The number of cards.
    #[error("a stage has 1 to {MOST_CARDS} cards, not {0}")]
    Cards(u16),
    /// No address space.
    #[error("making {cards} cards: {error} (is there a limit on virtual memory, ulimit -v?)")]
    Room {
        /// Of so many cards.
        cards: u16,
        /// Why.
        error: io::Error,
    },
    /// No memory that the cards reach.
    #[error(transparent)]
    Memory(#[from] KeeperError),
    /// A card could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// How far a stage has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time of the last event (ps).
    pub now: u64,
    /// Events executed.
    pub events: u64,
    /// Packets and events lost for lack of room: what follows is not what the cards would do.
    pub lost: u64,
}

/// See the module.
pub struct Stage(Arc<Inner>);

impl Stage {
    /// Makes a stage at time 0.
    pub fn new(options: &StageOptions) -> Result<Stage, StageError> {
        let StageOptions { cards, profile, switch, cc, mtu, memory } = options;
        if !(1..=MOST_CARDS).contains(&usize::from(*cards)) {
            return Err(StageError::Cards(*cards));
        }
        let (segment, area) = Segment::private(*memory, state::MEMORY)?;
        let room = Room::new((*cards).into()).map_err(|error| StageError::Room { cards: *cards, error });
        let mut room = room?;
        let sim = &mut *room.sim;
        sim.profile = *profile;
        if let Some(switch) = switch {
            sim.switch.start(&switch.0, switch.1, profile);
        }
        if let Some(cc) = cc {
            sim.cc = cc.0;
        }
        sim.on = true.into();
        room.world.init(*cards, limits(Some(profile)), ports(Some(profile), *mtu));
        room.world.set_reorder(profile.rx.reorder_packets);
        Ok(Stage(Arc::new(Inner::new(segment, area, room))))
    }

    /// Opens a card.
    pub fn open(&self, card: u16) -> Result<StageCard, StageError> {
        let member = self.0.member();
        let index = self.0.control(|world, _| Function::attach(world, card.into(), member))?;
        Ok(StageCard::new(Arc::clone(&self.0), card, index))
    }

    /// A zeroed buffer; `None`: there is no more memory.
    pub fn buffer(&self, bytes: usize) -> Option<Buffer> {
        let memory = self.0.state().alloc(None, bytes)?;
        Some(Buffer::new(Arc::clone(&self.0), memory))
    }

    /// All actors begin at the same time, once everything has happened that they have caused so far: returns it (ps).
    pub fn begin(&self) -> u64 {
        while self.next(u64::MAX).is_some() {}
        let mut state = self.0.state();
        let now = state.room.sim.now;
        let at = state.clocks.iter().copied().fold(now, u64::max);
        state.clocks.fill(at);
        at
    }

    /// The actor of a card has something to do from this time (ps) on.
    pub fn call(&self, card: u16, at: u64) {
        self.0.state().call(card, at);
    }

    /// Executes events until an actor is to act. `None`: nothing happens any more, or `limit` events have without an actor.
    pub fn next(&self, limit: u64) -> Option<Turn> {
        self.0.next(limit)
    }

    /// The clock of a card's actor (ps).
    pub fn clock(&self, card: u16) -> u64 {
        self.0.state().clocks[usize::from(card)]
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        let state = self.0.state();
        let sim = &state.room.sim;
        Progress { now: sim.now, events: sim.executed, lost: sim.overflows }
    }

    /// A counter of a card's port.
    pub fn counter(&self, port: PortId, register: u32) -> u64 {
        self.0.state().room.world.cards[usize::from(port.card)].counter(port.port, register)
    }

    /// What happened at each port of the switches: of the cards' ports, two by two, and then of those between switches.
    pub fn queues(&self) -> Vec<Counts> {
        let state = self.0.state();
        let sim = &state.room.sim;
        sim.switch.all_counts(state.room.world.count(), sim.now)
    }
}
