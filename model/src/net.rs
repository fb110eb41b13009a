//! What lies in the segment's area for the cards: doorbells and interrupt words, which are touched
//! without the lock, and the cards themselves, which are not.

use std::cell::UnsafeCell;

use crate::cells::{Bells, Interrupts, ServerBell};
use crate::device::tables::MAX_FUNCTIONS;
use crate::link::LinkArea;
use crate::plain::Plain;
use crate::sim::state::Sim;
use crate::world::{World, MAX_CARDS};

/// The cards' area of a segment.
#[repr(C, align(4096))]
pub(crate) struct Net {
    /// Doorbells by card.
    pub bells: [Bells; MAX_CARDS],
    /// Interrupt words.
    pub interrupts: Interrupts,
    /// Who serves a function to somebody else is told of its interrupts here.
    pub servers: [[ServerBell; MAX_FUNCTIONS]; MAX_CARDS],
    /// How packets travel.
    pub link: LinkArea,
    /// The cards. Only with the segment's lock.
    pub world: UnsafeCell<World>,
    /// Simulated time. Only with the segment's lock.
    pub sim: UnsafeCell<Sim>,
}

/// What lies in the segment has no invalid values; but for the simulation, whose tables hold enums.
#[allow(dead_code)]
fn is_plain(net: &Net) {
    fn is<T: Plain>(_: &T) {}
    let Net { bells, interrupts, servers, link, world, sim: _ } = net;
    is(bells);
    is(interrupts);
    is(servers);
    is(link);
    is(world);
}
