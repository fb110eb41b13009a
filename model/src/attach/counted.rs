//! What the ports have counted, told to somebody at a low rate: programs read files, which nobody can ask at the moment.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::time::Duration;

use fpga_regs::regs::port;

use crate::net::Membership;
use crate::packet::{PortId, PORTS};
use crate::segment::{now_ns, Segment};

/// How often the keeper looks.
pub const COUNTED_EVERY: Duration = Duration::from_millis(100);

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
            for (port, counters) in read(segment) {
                self.told.counted(port, &counters);
            }
        }
        self.at
    }
}

/// Without the cards, which programs would have to wait for: each word is as it was at some moment.
fn read(segment: &Segment) -> Vec<(PortId, Vec<u64>)> {
    let membership = Membership::new(segment);
    // SAFETY: words that others may be changing, of which nothing else is made.
    let world = unsafe { &*membership.net().world.get() };
    let ports = (0..world.count()).flat_map(|card| (0..PORTS as u8).map(move |port| PortId { card, port }));
    let of = |id: PortId| {
        let card = &world.cards[usize::from(id.card)];
        (id, port::counters().map(|counter| card.counter(id.port, counter.offset)).collect())
    };
    ports.map(of).collect()
}
