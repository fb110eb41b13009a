//! Which switch a port of a switch belongs to, where its cable leads, and by which port a frame goes on.
//!
//! All ports are numbered together: first one for each port of each card, and then, two by two, the ends of the cables between
//! leaves and spines.

use crate::link::faults::mix;
use crate::packet::{Packet, PortId, MOST_CARDS, PORTS};
use crate::plain::Plain;

/// Most ports of all switches.
pub const CONNECTORS: usize = 1 << 15;

/// How the switches are connected. All zeros: there is one, with all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Fabric {
    /// Cards of a leaf, one after the other; 0: there is one switch.
    per_leaf: u16,
    /// Spines, to each of which a leaf has one cable.
    spines: u16,
    /// Where the ends of the cables between switches begin.
    first: u32,
    /// Changes which flows share a cable.
    seed: u64,
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Leaf(usize),
    Spine(usize),
}

/// The other end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A card's port.
    Card(PortId),
    /// Another switch's.
    Switch(usize),
}

/// The port of a switch that a card's port is connected to; `None`: there is no such card.
pub(super) fn connector(port: PortId) -> Option<usize> {
    let at = usize::from(port.card) * PORTS + usize::from(port.port) % PORTS;
    (usize::from(port.card) < MOST_CARDS).then_some(at)
}

impl Fabric {
    /// Two layers: leaves of `per_leaf` cards, the last one of fewer, each connected to each of `spines` spines. Which of
    /// them a flow takes follows from a hash of its addresses, its queue pairs and the seed (ECMP). `None`: that is more
    /// ports than there can be.
    pub fn leaf_spine(cards: u16, per_leaf: u16, spines: u16, seed: u64) -> Option<Fabric> {
        let first = usize::from(cards) * PORTS;
        let cables = usize::from(cards.div_ceil(per_leaf.max(1))) * usize::from(spines);
        let fits = per_leaf > 0 && spines > 0 && first + 2 * cables <= CONNECTORS;
        fits.then_some(Fabric { per_leaf, spines, first: first as u32, seed })
    }

    fn is_star(&self) -> bool {
        self.per_leaf == 0
    }

    /// The first end of the cable between a leaf and a spine: the leaf's.
    fn cable(&self, leaf: usize, spine: usize) -> usize {
        self.first as usize + 2 * (leaf * usize::from(self.spines) + spine)
    }

    fn leaf(&self, at: usize) -> usize {
        at / PORTS / usize::from(self.per_leaf.max(1))
    }

    /// The switch that a port belongs to.
    fn place(&self, at: usize) -> Place {
        let Some(end) = at.checked_sub(self.first as usize) else { return Place::Leaf(self.leaf(at)) };
        let cable = end / 2;
        let spines = usize::from(self.spines.max(1));
        match end % 2 {
            0 => Place::Leaf(cable / spines),
            _ => Place::Spine(cable % spines),
        }
    }

    /// Where the cable of a port leads.
    pub(super) fn end(&self, at: usize) -> End {
        match at.checked_sub(self.first as usize).filter(|_| !self.is_star()) {
            Some(end) => End::Switch(self.first as usize + (end ^ 1)),
            None => End::Card(PortId { card: (at / PORTS) as u16, port: (at % PORTS) as u8 }),
        }
    }

    /// The port by which a packet that came in by `from` goes on to the card's port at `to`.
    pub(super) fn way(&self, from: usize, to: usize, packet: &Packet) -> usize {
        if self.is_star() {
            return to;
        }
        let leaf = self.leaf(to);
        match self.place(from) {
            Place::Leaf(here) if here == leaf => to,
            Place::Leaf(here) => {
                let ends = (from as u64) << 32 | to as u64;
                let flow = u64::from(packet.src_qpn) << 32 | u64::from(packet.dest_qpn);
                let hash = mix(mix(self.seed ^ ends) ^ flow);
                self.cable(here, (hash % u64::from(self.spines.max(1))) as usize)
            }
            Place::Spine(spine) => self.cable(leaf, spine) + 1,
        }
    }

    /// How many ports there are with these cards.
    pub(super) fn ports(&self, cards: u16) -> usize {
        match self.is_star() {
            true => usize::from(cards) * PORTS,
            false => {
                let leaves = usize::from(cards.div_ceil(self.per_leaf));
                self.first as usize + 2 * leaves * usize::from(self.spines)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(src: u16, dst: u16, qpn: u32) -> Packet {
        let port = |card| PortId { card, port: 0 };
        Packet { src: port(src), dst: port(dst), src_qpn: qpn, dest_qpn: qpn, ..Packet::BLANK }
    }

    /// The ports by which a packet leaves the switches.
    fn hops(fabric: &Fabric, packet: &Packet) -> Vec<usize> {
        let (mut from, to) = (connector(packet.src).unwrap(), connector(packet.dst).unwrap());
        let mut hops = Vec::new();
        loop {
            let out = fabric.way(from, to, packet);
            hops.push(out);
            match fabric.end(out) {
                End::Card(port) => {
                    assert_eq!(port, packet.dst);
                    return hops;
                }
                End::Switch(next) => from = next,
            }
            assert!(hops.len() < 4, "{hops:?}");
        }
    }

    #[test]
    fn a_star_has_one_hop() {
        assert_eq!(hops(&Fabric::default(), &packet(3, 900, 7)), [1800]);
    }

    #[test]
    fn a_leaf_keeps_what_is_its_own_and_flows_spread_over_the_spines() {
        let fabric = Fabric::leaf_spine(20, 8, 4, 1).unwrap();
        assert_eq!(fabric.ports(20), 40 + 2 * 3 * 4);
        assert_eq!(hops(&fabric, &packet(0, 7, 5)), [14]);
        let mut used = [0; 4];
        for qpn in 2..402 {
            let hops = hops(&fabric, &packet(1, 19, qpn));
            assert_eq!((hops.len(), hops[2]), (3, 38));
            let spine = (hops[0] - 40) / 2;
            assert_eq!(hops[1], 40 + 2 * (2 * 4 + spine) + 1);
            used[spine] += 1;
        }
        // 100 each, with a deviation of 8.7.
        assert!(used.iter().all(|&flows| (65..135).contains(&flows)), "{used:?}");
        // A flow keeps its way, in another net it may be another.
        assert_eq!(hops(&fabric, &packet(1, 19, 9)), hops(&fabric, &packet(1, 19, 9)));
        assert!(Fabric::leaf_spine(4096, 1, 64, 1).is_none() && Fabric::leaf_spine(4, 0, 1, 1).is_none());
    }
}
