//! LACP: two ports find out whether they lead to the same partner, and are one then (IEEE 802.1AX-2014, 6.4).
//!
//! A [`Lacp`] is the state machines of a card's ports, without frames, time or card of its own: it is told of links, LACPDUs
//! and time, and says which ports are to send a LACPDU and which are in use. The machines have the names and states of the
//! standard; mux control is coupled (figure 6-22).
//!
//! | file | idea |
//! |---|---|
//! | [`pdu`] | LACPDUs and markers as frames |
//! | `port` | the machines of a port: receive, periodic, mux, transmit |

pub mod pdu;
mod port;
#[cfg(test)]
mod tests;

use fpga_regs::{LacpRate, LacpState};

use crate::packet::PORTS;
use crate::plain::Plain;
use pdu::Info;
pub use port::Port;

/// The ports of a card. Zero has to [begin](Lacp::begin).
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub struct Lacp {
    ports: [Port; PORTS],
}

impl Lacp {
    /// Begins, as a system with this address, at `now` (ns), with these links.
    pub fn begin(&mut self, system: [u8; 6], rate: LacpRate, links: [bool; PORTS], now: u64) {
        for (n, port) in self.ports.iter_mut().enumerate() {
            port.begin(system, n as u8, rate);
            port.link(links[n], now);
        }
    }

    /// The link of a port has come or gone.
    pub fn link(&mut self, n: usize, up: bool, now: u64) {
        self.ports[n % PORTS].link(up, now);
    }

    /// A port has received a LACPDU. False: it is one of its own system, with which it is not to be one.
    pub fn receive(&mut self, n: usize, actor: &Info, partner: &Info, now: u64) -> bool {
        self.ports[n % PORTS].receive(actor, partner, now)
    }

    /// Runs the machines to where they have to wait; returns until when (ns).
    pub fn run(&mut self, now: u64) -> Option<u64> {
        // Each step of a port may let another one of it or of the other port go on, but there are few.
        for _ in 0..16 {
            let mut moved = false;
            for n in 0..PORTS {
                self.select(n);
                let ready = self.is_ready(self.ports[n].aggregator, now);
                moved |= self.ports[n].step(ready, now);
            }
            if !moved {
                break;
            }
        }
        self.ports.iter().filter_map(|port| port.next(now)).min()
    }

    /// The LACPDU that a port is to send now, of itself and of its partner; it counts as sent.
    pub fn take(&mut self, n: usize, now: u64) -> Option<(Info, Info)> {
        self.ports[n % PORTS].take(now)
    }

    /// A port.
    pub fn port(&self, n: usize) -> &Port {
        &self.ports[n % PORTS]
    }

    /// Whether a port has a part of the traffic: it distributes, in the aggregation that is used.
    pub fn uses(&self, n: usize) -> bool {
        let port = self.port(n);
        port.distributes() && port.aggregator == self.used()
    }

    /// The aggregation that is used: one with a partner before one without, one of more ports before one of fewer.
    fn used(&self) -> u8 {
        let worth = |aggregator: u8| {
            let its = self.ports.iter().filter(|port| port.aggregator == aggregator && port.distributes());
            (its.clone().any(|port| !port.is_individual()), its.count())
        };
        u8::from(worth(1) > worth(0))
    }

    /// Selection (6.4.14): a port goes to the aggregation of the other one if both have the same partner, and neither is
    /// individual.
    fn select(&mut self, n: usize) {
        let [port, other] = [self.ports[n], self.ports[1 - n]];
        if !port.may_select() {
            return;
        }
        let same = |a: &Info, b: &Info| (a.priority, a.system, a.key) == (b.priority, b.system, b.key);
        let together = other.is_selected()
            && !port.is_individual()
            && !other.is_individual()
            && same(&port.partner, &other.partner);
        let own = n as u8;
        self.ports[n].selects(match other.is_selected() && other.aggregator == own && !together {
            true => 1 - own,
            false if together => other.aggregator,
            false => own,
        });
    }

    /// Ready (6.4.14.2): no port of an aggregation waits for others.
    fn is_ready(&self, aggregator: u8, now: u64) -> bool {
        self.ports.iter().all(|port| port.aggregator != aggregator || !port.waits(now))
    }
}

/// Whether a port's state says that.
fn says(info: &Info, state: LacpState) -> bool {
    info.state & state.0 != 0
}
