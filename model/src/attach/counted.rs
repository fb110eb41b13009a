//! What the ports have counted, told to somebody at a low rate: programs read files, which nobody can ask at the moment.

use std::fmt::Debug;
use std::time::Duration;

use fpga_regs::regs::port;

use super::wall::runner::Runner;
use crate::net::Membership;
use crate::packet::{PortId, PORTS};
use crate::segment::{now_ns, LockError, Segment};
use crate::sim::threads::Threads;
use crate::world::World;

/// How often the keeper looks.
pub const COUNTED_EVERY: Duration = Duration::from_millis(100);
/// How long it waits for the cards; else it looks again later. Short, since those that come meanwhile wait too, even if
/// the one that is waited for is stopped.
const PATIENCE: Duration = Duration::from_millis(2);

/// Is told what the ports of a net have counted.
pub trait Counted: Debug + Send {
    /// A port's counters, in the order of their registers ([`port::counters`]), whether they have changed or not.
    fn counted(&mut self, port: PortId, counters: &[u64]);
}

/// Looks when it is time.
pub(super) struct Looks {
    told: Box<dyn Counted>,
    /// When to look next (ns).
    at: u64,
}

impl Looks {
    pub fn new(told: Box<dyn Counted>) -> Looks {
        Looks { told, at: 0 }
    }

    /// Looks if it is time; returns when it is again (ns).
    pub fn look(&mut self, segment: &Segment) -> u64 {
        let now = now_ns();
        if now >= self.at {
            self.at = now + COUNTED_EVERY.as_nanos() as u64;
            // Cards that are busy, or are lost, are looked at again.
            for (port, counters) in read(segment).unwrap_or_default() {
                self.told.counted(port, &counters);
            }
        }
        self.at
    }
}

fn read(segment: &Segment) -> Result<Vec<(PortId, Vec<u64>)>, LockError> {
    let membership = Membership::new(segment);
    match membership.net().simulated() {
        true => Threads::new(membership).outside_time(PATIENCE, counters),
        false => Runner::new(membership).control_within(PATIENCE, |world, _| counters(world)),
    }
}

fn counters(world: &mut World) -> Vec<(PortId, Vec<u64>)> {
    let ports = (0..world.count()).flat_map(|card| (0..PORTS as u8).map(move |port| PortId { card, port }));
    let of = |id: PortId| {
        let card = &world.cards[usize::from(id.card)];
        (id, port::counters().map(|counter| card.counter(id.port, counter.offset)).collect())
    };
    ports.map(of).collect()
}
