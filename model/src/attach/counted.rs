//! What the ports have counted, told to somebody at a low rate: programs read files, which nobody can ask at the moment.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::time::Duration;

use fpga_regs::regs::port;

use crate::net::Membership;
use crate::packet::PortId;
use crate::segment::{now_ns, Segment};
use crate::world::World;

/// How often the keeper looks while there is traffic (ns).
const BUSY: u64 = 100_000_000;
/// How often it looks at least: what has been counted is told no later.
pub const COUNTED_WITHIN: Duration = Duration::from_millis(800);

/// Is told what the ports of a net have counted.
pub trait Counted: Debug + Send {
    /// Whether a port's link is up and how often that has changed, and its counters, in the order of their registers
    /// ([`port::counters`]). Whether they are others than it was told last; if so, it is told again soon.
    fn counted(&mut self, port: PortId, link: (bool, u16), counters: &[u64]) -> bool;
}

/// Looks when it is time.
pub(super) struct Looks {
    told: Box<dyn Counted>,
    /// From one look to the next (ns): twice as long each time that nothing has changed.
    pause: u64,
    /// When to look next (ns).
    at: u64,
}

impl Looks {
    pub fn new(told: Box<dyn Counted>) -> Looks {
        Looks { told, pause: BUSY, at: 0 }
    }

    /// Looks if it is time; returns when it is again (ns).
    pub fn look(&mut self, segment: &Segment) -> u64 {
        let now = now_ns();
        if now >= self.at {
            let mut changed = false;
            for (port, link, counters) in read(segment) {
                changed |= self.told.counted(port, link, &counters);
            }
            self.pause = match changed {
                true => BUSY,
                false => (self.pause * 2).min(COUNTED_WITHIN.as_nanos() as u64),
            };
            self.at = now + self.pause;
        }
        self.at
    }
}

/// Without the cards, which programs would have to wait for: each word is as it was at some moment.
fn read(segment: &Segment) -> Vec<(PortId, (bool, u16), Vec<u64>)> {
    let membership = Membership::new(segment);
    // SAFETY: words that others may be changing, of which nothing else is made.
    let world: &World = unsafe { &*membership.net().world.get() };
    let of = |id: PortId| {
        let card = &world.cards[usize::from(id.card)];
        let counters = port::counters().map(|counter| card.counter(id.port, counter.offset));
        (id, card.shown_link(id.port, now_ns()), counters.collect())
    };
    world.ports().map(of).collect()
}
