//! Who a port of Ethernet frames is on its link: its addresses, and the neighbours that it knows. Ports that are one are
//! the same station, so an answer by one of them is known at both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::arrivals::Arrivals;
use super::groups::places;
use super::identity::own_gids;
use super::neighbours::{Neighbours, Place};
use crate::address::{Gid, Guids};
use crate::gids::GidEntry;
use crate::packet::PortId;

/// Questions of processes that are not answered yet; more push out the oldest.
const QUESTIONS: usize = 256;

/// What a port is like that has such a medium.
pub(super) struct Host {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Its addresses.
    pub gids: Vec<GidEntry>,
    /// The largest path MTU that passes.
    pub mtu: u32,
}

impl Host {
    /// A host of its own on the link.
    pub fn own((port, guids): (PortId, Guids), mtu: u32) -> Host {
        Host { mac: guids.mac(port), gids: own_gids(guids, port).map(GidEntry::new).to_vec(), mtu }
    }
}

/// That of several ports, perhaps.
pub type SharedStation = Arc<Mutex<Station>>;

/// A host on a link.
pub struct Station {
    /// Its Ethernet address.
    pub(super) mac: [u8; 6],
    /// Those that it knows.
    pub(super) neighbours: Neighbours,
    /// The addresses whose questions are answered here.
    answered: Vec<GidEntry>,
    /// Whom processes have asked for.
    asked: VecDeque<Place>,
}

impl Station {
    /// One that knows nobody.
    pub(super) fn new(mac: [u8; 6], answered: Vec<GidEntry>) -> Station {
        Station { mac, neighbours: Neighbours::new(mac), answered, asked: VecDeque::new() }
    }

    /// A process asks who has an address, from the own address `from`.
    pub(super) fn ask(&mut self, now: u64, from: &Gid, to: Place, out: &mut impl FnMut(&[u8])) {
        self.neighbours.look(now, from, &to, out);
        if !self.asked.contains(&to) {
            if self.asked.len() == QUESTIONS {
                self.asked.pop_front();
            }
            self.asked.push_back(to);
        }
    }

    /// Whether a frame that has come is a message about neighbours, which is answered then.
    pub(super) fn answers(&mut self, now: u64, frame: &[u8], out: &mut impl FnMut(&[u8])) -> bool {
        let answered = &self.answered;
        let ours = |(vlan, ip): &Place| answered.iter().any(|own| own.vlan == *vlan && own.gid == *ip);
        self.neighbours.receive(now, frame, ours, out)
    }

    /// Where it receives these multicast groups; see [`places`].
    pub(super) fn places(&self, groups: &[Gid]) -> Vec<(Place, Gid)> {
        places(&self.answered, groups)
    }

    /// Tells the link of its addresses.
    pub(super) fn announce(&self, out: &mut impl FnMut(&[u8])) {
        self.answered.iter().for_each(|own| self.neighbours.announce(&(own.vlan, own.gid), out));
    }

    /// Tells of those who were asked for and have answered, and forgets those who have not in time.
    pub(super) fn tell(&mut self, into: &mut Arrivals) {
        let neighbours = &self.neighbours;
        self.asked.retain(|at| {
            if neighbours.knows(at) {
                into.found.push(at.1);
                return false;
            }
            neighbours.waits_for(at)
        });
    }

    /// Whether there is somebody to tell of.
    pub(super) fn has_found(&self) -> bool {
        self.asked.iter().any(|at| self.neighbours.knows(at))
    }
}
