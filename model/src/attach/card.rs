//! [`SegmentCard`]: an opened card of a segment as the driver's backend, by either clock.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::error::OpenError;
use super::manager::Task;
use super::virtual_card::VirtualCard;
use super::wall::card::WallCard;
use super::wall::runner::Runner;
use crate::device::defect::Defect;
use crate::env::Env;
use crate::net::{Membership, Net};
use crate::panics::lock;
use crate::segment::{AttachError, LockError, Segment};
use crate::sim::threads::{Follower, Threads, Timeline};
use crate::world::World;

/// How long who looks at a net waits for its cards.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A card of a segment, opened by this process.
// One for each open device: a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum SegmentCard {
    /// In wall-clock time.
    Wall(WallCard),
    /// In simulated time.
    Virtual(VirtualCard),
}

/// The same call for each kind of card.
macro_rules! each {
    ($self:ident, $card:ident => $call:expr) => {
        match $self {
            SegmentCard::Wall($card) => $call,
            SegmentCard::Virtual($card) => $call,
        }
    };
}

driver::forward_card!(each for SegmentCard);

impl SegmentCard {
    /// Opens card `card` (from 0) of the net whose keeper listens at `socket`.
    pub fn open(socket: &Path, card: u32) -> Result<SegmentCard, OpenError> {
        Ok(match join(socket)? {
            Joined::Wall(runner) => SegmentCard::Wall(WallCard::open(runner, card, false)?),
            Joined::Virtual(threads) => SegmentCard::Virtual(VirtualCard::open(threads, card)?),
        })
    }

    /// This process's part in the simulated time that the card runs in, if it does.
    pub fn timeline(&self) -> Option<Timeline> {
        match self {
            SegmentCard::Wall(_) => None,
            SegmentCard::Virtual(card) => Some(card.timeline()),
        }
    }

    /// The place of a thread about to be started that waits for the card's interrupts, in simulated time.
    pub fn follower(&self) -> Option<Follower> {
        match self {
            SegmentCard::Wall(_) => None,
            SegmentCard::Virtual(card) => card.follower(),
        }
    }

    /// Lets the net's connection manager do something. `None`: the cards cannot be had.
    pub fn manager<T: Task>(&self, task: T) -> Option<T::Answer> {
        each!(self, card => card.manager(task))
    }

    /// Makes a thread of this process that waits for interrupt `vector` check again.
    pub fn wake(&self, vector: u32) {
        each!(self, card => card.wake(vector));
    }

    /// Makes the card a defective one, for all programs that use it.
    pub fn set_defect(&self, defect: Defect) {
        each!(self, card => card.set_defect(defect));
    }
}

/// A segment that this process has joined: all its open cards share it.
#[derive(Clone)]
pub(super) enum Joined<W = Arc<Runner>, V = Arc<Threads>> {
    Wall(W),
    Virtual(V),
}

impl Joined {
    /// Joins the net whose keeper listens at `socket`, with DMA addresses of its own.
    pub fn new(socket: &Path) -> Result<Joined, AttachError> {
        Ok(Joined::of(Segment::attach(socket)?))
    }

    /// A segment that this process has joined alone.
    pub fn of(segment: Segment) -> Joined {
        let membership = Membership::new(segment);
        match membership.net().simulated() {
            true => Joined::Virtual(Arc::new(Threads::new(membership))),
            false => Joined::Wall(Arc::new(Runner::new(membership))),
        }
    }

    /// Does something with all the cards, at a time (ns), which is no event of simulated time: who looks from outside has no clock
    /// that others would wait for.
    pub fn outside_time<R>(&self, work: impl FnOnce(&mut World, u64) -> R) -> Result<R, LockError> {
        match self {
            Joined::Wall(runner) => runner.control_within(PATIENCE, |world, env| work(world, env.now())),
            Joined::Virtual(threads) => threads.outside_time(PATIENCE, |world, env| work(world, env.now())),
        }
    }

    /// The cards' area.
    pub fn net(&self) -> &Net {
        match self {
            Joined::Wall(runner) => runner.net(),
            Joined::Virtual(threads) => threads.net(),
        }
    }

    /// The segment.
    pub fn segment(&self) -> &Segment {
        match self {
            Joined::Wall(runner) => runner.segment(),
            Joined::Virtual(threads) => threads.segment(),
        }
    }
}

type Known = Joined<Weak<Runner>, Weak<Threads>>;

fn join(socket: &Path) -> Result<Joined, OpenError> {
    static JOINED: Mutex<Option<HashMap<PathBuf, Known>>> = Mutex::new(None);
    let mut joined = lock(&JOINED);
    let joined = joined.get_or_insert_with(HashMap::new);
    let live = joined.get(socket).and_then(|known| match known {
        Joined::Wall(runner) => runner.upgrade().map(Joined::Wall),
        Joined::Virtual(threads) => threads.upgrade().map(Joined::Virtual),
    });
    // A forked child has no part in its parent's segment and joins again.
    if let Some(live) = live.filter(|live| !live.segment().is_detached()) {
        return Ok(live);
    }
    let live = Joined::new(socket)?;
    let known = match &live {
        Joined::Wall(runner) => Joined::Wall(Arc::downgrade(runner)),
        Joined::Virtual(threads) => Joined::Virtual(Arc::downgrade(threads)),
    };
    joined.insert(socket.into(), known);
    Ok(live)
}
