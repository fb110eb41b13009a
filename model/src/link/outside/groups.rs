//! Which multicast groups a port receives whose frames no kernel sees: the switches and routers of its link are told, and
//! answered. Switches that snoop forward a group only to who has said so.
//!
//! Like [`neighbours`](super::neighbours): no clock, no thread, no socket.

use super::neighbours::{put, vlan_of, Place};
use crate::address::Gid;
use crate::gids::GidEntry;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use crate::wire::ndp::solicited_node;
use crate::wire::path::{gid_to_ipv4, multicast_mac};
use crate::wire::{Ethernet, Membership, Query};

/// Between two reports that nobody has asked for (RFC 3376, 8.11: Unsolicited Report Interval), and how many there are
/// (RFC 3376, 8.1: Robustness Variable).
const REPEAT: u64 = 1_000_000_000;
const REPORTS: u32 = 2;

/// The groups of one port.
pub struct Groups {
    mac: [u8; 6],
    list: Vec<Group>,
}

struct Group {
    at: Place,
    /// The port's address from which it is reported.
    from: Gid,
    /// When that is to be done, and how often.
    due: u64,
    reports: u32,
}

/// Where queue pairs of a port with these addresses receive groups, and from which address that is told: in each VLAN in
/// which the port has one, outside of VLANs too; and the groups in which neighbours ask for the addresses.
pub fn places(own: &[GidEntry], groups: &[Gid]) -> Vec<(Place, Gid)> {
    // A VLAN's interface has the same one in Linux.
    let link_local = own.iter().map(|own| own.gid).find(|gid| gid[..2] == [0xfe, 0x80]);
    let mut all: Vec<(Place, Gid)> = Vec::new();
    for GidEntry { gid, vlan, .. } in own {
        let (asked, from) = match gid_to_ipv4(gid) {
            Some(_) => (None, Some(*gid)),
            None => (Some(solicited_node(gid)), link_local),
        };
        for group in groups.iter().copied().chain(asked) {
            let of_family = gid_to_ipv4(&group).is_some() == gid_to_ipv4(gid).is_some();
            let at = (*vlan, group);
            if of_family && is_reported(&group) && all.iter().all(|(known, _)| *known != at) {
                all.extend(from.map(|from| (at, from)));
            }
        }
    }
    all
}

/// Not the group of all hosts, nor what stays within a host (RFC 2236, 6; RFC 2710, 5).
fn is_reported(group: &Gid) -> bool {
    match gid_to_ipv4(group) {
        Some(ip) => ip != [224, 0, 0, 1],
        None => {
            group[1] & 15 > 1
                && (group[1] & 15 != 2 || group[2..] != [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        }
    }
}

impl Groups {
    /// Of a port with the Ethernet address `mac`, in none.
    pub fn new(mac: [u8; 6]) -> Groups {
        Groups { mac, list: Vec::new() }
    }

    /// The port is in these groups, and in no others.
    pub fn set(&mut self, now: u64, wanted: &[(Place, Gid)], out: &mut impl FnMut(&[u8])) {
        let mac = self.mac;
        self.list.retain(|group| {
            let stays = wanted.contains(&(group.at, group.from));
            if !stays {
                tell(mac, group, true, out);
            }
            stays
        });
        for &(at, from) in wanted {
            if self.list.iter().all(|known| known.at != at) {
                self.list.push(Group { at, from, due: now, reports: REPORTS });
            }
        }
        self.run(now, out);
    }

    /// The link is another one: it is told of all groups.
    pub fn announce(&mut self, now: u64, out: &mut impl FnMut(&[u8])) {
        self.list.iter_mut().for_each(|group| (group.due, group.reports) = (now, REPORTS));
        self.run(now, out);
    }

    /// Reads a frame that arrived: a question for groups is answered after a part of the time that it leaves, which differs
    /// from port to port so that not all answer at once.
    pub fn receive(&mut self, now: u64, frame: &[u8]) {
        let Some((ethernet, packet)) = Ethernet::decode(frame) else { return };
        if !matches!(ethernet.ethertype, ETHERTYPE_IPV4 | ETHERTYPE_IPV6) {
            return;
        }
        let Some(query) = Query::decode(packet) else { return };
        let ipv4 = ethernet.ethertype == ETHERTYPE_IPV4;
        for group in &mut self.list {
            let (vlan, gid) = &group.at;
            let asked = query.group.map_or(gid_to_ipv4(gid).is_some() == ipv4, |asked| asked == *gid);
            if !asked || *vlan != ethernet.vlan.map_or(0, vlan_of) {
                continue;
            }
            let due = now + delay(&self.mac, gid, query.within);
            if group.reports == 0 || due < group.due {
                group.due = due;
            }
            group.reports = group.reports.max(1);
        }
    }

    /// When [`Groups::run`] is to be called.
    pub fn due(&self) -> Option<u64> {
        self.list.iter().filter(|group| group.reports > 0).map(|group| group.due).min()
    }

    /// Reports the groups that are to be reported.
    pub fn run(&mut self, now: u64, out: &mut impl FnMut(&[u8])) {
        for group in self.list.iter_mut().filter(|group| group.reports > 0 && group.due <= now) {
            (group.due, group.reports) = (now + REPEAT, group.reports - 1);
            tell(self.mac, group, false, out);
        }
    }
}

/// A part of a time, by FNV-1a of who answers and for what.
fn delay(mac: &[u8; 6], group: &Gid, within: u64) -> u64 {
    let mix = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = mac.iter().chain(group).fold(0x811c_9dc5, mix);
    ((u128::from(within) * u128::from(hash)) >> 32) as u64
}

fn tell(mac: [u8; 6], group: &Group, leaves: bool, out: &mut impl FnMut(&[u8])) {
    let (vlan, gid) = group.at;
    let membership = Membership { source: group.from, group: gid, leaves };
    let Some(dst) = multicast_mac(&membership.destination()) else { return };
    let mut body = [0; Membership::BYTES];
    let len = membership.encode(&mut body);
    let ethertype = if gid_to_ipv4(&gid).is_some() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
    put(&Ethernet { dst, src: mac, vlan: (vlan != 0).then_some(vlan), ethertype }, &body[..len], out);
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
