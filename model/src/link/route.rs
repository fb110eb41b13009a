//! The way of a packet: Ethernet, IP and UDP fields, by the addresses of its QP.

use crate::address::{self, Gid};
use crate::encapsulation::Encapsulation;
use crate::packet::{Packet, PortId};
use crate::wire::{path::multicast_mac, Transport};
use crate::wire::{Network, Path};
use crate::world::World;

/// Hop limit where the QP's address vector has none.
const HOP_LIMIT: u8 = 64;
/// First of the ports that RoCEv2 senders use.
const FIRST_SPORT: u16 = 0xc000;

/// The path of a packet's frames.
pub fn path(world: &World, p: &Packet) -> Path {
    let mut path = match p.transport {
        Transport::UD => datagram(p),
        _ => connected(world, p),
    };
    if p.ecn != 0 {
        path.network.set_ecn(p.ecn);
    }
    path
}

/// The path of the packets of a connection that was asked for last in a run, in which it does not change.
#[derive(Default)]
pub struct Recent(Option<(Connection, Path)>);

/// What a packet says of the path of its connection, and the ports by which it goes.
#[derive(PartialEq, Eq)]
struct Connection {
    ports: [PortId; 4],
    qpns: [u32; 2],
    encapsulation: Encapsulation,
    ecn: u8,
}

impl Recent {
    /// The path of a packet by these ports, which `look_up` finds.
    pub fn find(&mut self, (p, way): (&Packet, (PortId, PortId)), look_up: impl FnOnce() -> Path) -> Path {
        if p.transport == Transport::UD {
            return look_up();
        }
        let (ports, qpns) = ([p.src, p.dst, way.0, way.1], [p.src_qpn, p.dest_qpn]);
        let connection = Connection { ports, qpns, encapsulation: p.encapsulation, ecn: p.ecn };
        match &self.0 {
            Some((known, path)) if *known == connection => *path,
            _ => {
                let path = look_up();
                self.0 = Some((connection, path));
                path
            }
        }
    }
}

/// What every packet says of itself.
fn ports(p: &Packet) -> Path {
    Path {
        src_mac: p.src.mac(),
        dst_mac: p.dst.mac(),
        vlan: p.encapsulation.tag(),
        network: Network::default(),
        udp_sport: if p.encapsulation.is_v1() { 0 } else { source_port(p.src_qpn, p.dest_qpn) },
    }
}

/// The IP header between two GIDs, or the global route header of RoCE version 1.
fn network(p: &Packet, (src, dst): (&Gid, &Gid), class: u8, label: u32, hop_limit: u8) -> Network {
    match p.encapsulation.is_v1() {
        true => Network::in_grh(src, dst, class, label, hop_limit),
        false => Network::from_gids(src, dst, class, label, hop_limit),
    }
}

/// The path of a datagram, which carries its address vector.
pub fn datagram(p: &Packet) -> Path {
    let mut path = ports(p);
    if p.dst == PortId::ALL {
        path.dst_mac = multicast_mac(&p.dgid).unwrap_or([0xff; 6]);
    }
    path.network = network(p, (&p.sgid, &p.dgid), p.traffic_class, 0, p.hop_limit);
    path
}

/// The path of a connection, by its QP.
fn connected(world: &World, p: &Packet) -> Path {
    let mut path = ports(p);
    let card = world.present().get(p.src.card as usize);
    let qp = card.and_then(|card| Some((card, &card.qps[card.find_qp(p.src_qpn)?])));
    match qp {
        Some((card, qp)) => {
            let a = &qp.attributes;
            if p.dst == PortId::NOBODY {
                path.dst_mac = a.dmac();
            }
            if a.udp_sport() != 0 && !p.encapsulation.is_v1() {
                path.udp_sport = a.udp_sport();
            }
            let hop_limit = if a.hop_limit() == 0 { HOP_LIMIT } else { a.hop_limit() };
            let sgid = card.gids.source(p.src, a.sgid_index()).gid;
            path.network = network(p, (&sgid, &a.dgid()), a.traffic_class(), a.flow_label(), hop_limit);
        }
        // The QP is gone while its last packet is in flight.
        None => {
            let index = if p.encapsulation.is_ipv6() { 0 } else { 1 };
            let (src, dst) = (address::gid(p.src, index), address::gid(p.dst, index));
            path.network = network(p, (&src, &dst), 0, 0, HOP_LIMIT);
        }
    }
    path
}

/// The UDP source port of a pair of QPs, as Linux computes it where no flow label is given.
pub fn source_port(src_qpn: u32, dest_qpn: u32) -> u16 {
    let mut v = src_qpn as u64 * dest_qpn as u64;
    v ^= v >> 20;
    v ^= v >> 40;
    let label = (v & 0xf_ffff) as u32;
    FIRST_SPORT | ((label & 0x3fff) ^ (label >> 14)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_are_dynamic_and_differ_by_qp() {
        assert_eq!(source_port(0, 5), FIRST_SPORT);
        assert_eq!(source_port(1, 3), FIRST_SPORT + 3);
        assert_eq!(source_port(0x400, 0x400), FIRST_SPORT | 1);
        assert!((1..10_000).all(|qpn| source_port(qpn, 0x01_0011) >= FIRST_SPORT));
    }
}
