//! GIDs follow the addresses of network interfaces, in the cards and in the files that programs read.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use anyhow::Result;
use model::address::{self, interface_name, Gid};
use model::attach::Addresses;
use model::gid_options::GidOptions;
use model::gids::{GidEntry, GID_TABLE_LEN};
use model::packet::{PortId, MAX_CARDS};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::RouteNetlinkMessage;

use super::live::of_port;
use super::network::port;
use super::rtnetlink::Route;
use super::sysfs;

/// Changes of IPv4 and IPv6 addresses and of interfaces (RTMGRP_*, linux/rtnetlink.h).
const GROUPS: u32 = 0x10 | 0x100 | 0x1;

/// The interfaces of a net's network.
#[derive(Debug)]
pub struct Interfaces {
    news: Route,
    questions: Route,
    directory: Option<PathBuf>,
    /// GIDs that the kernel's last answer made, in its order, and the interfaces that have them.
    named: Vec<(PortId, GidEntry, String)>,
}

impl Interfaces {
    /// A socket for `news`, of this process's network namespace.
    pub fn news() -> Result<Route> {
        Route::open(GROUPS)
    }

    /// Of the namespace in which both sockets were opened.
    pub fn new(news: Route, questions: Route) -> Interfaces {
        Interfaces { news, questions, directory: None, named: Vec::new() }
    }

    /// Writes the GID tables for programs, which are kept up to date from now on.
    pub fn show(&mut self, directory: PathBuf, cards: u8, gids: &GidOptions) -> Result<()> {
        self.directory = Some(directory);
        PortId::of_cards(cards.into()).try_for_each(|port| {
            let own = [0, 1].map(|index| address::gid(port, index));
            self.rewrite(port, &gids.table(port, &own))
        })
    }

    fn look(&mut self) -> Result<()> {
        let links = self.questions.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let owners: HashMap<u32, Owner> = links.iter().filter_map(owner).collect();
        let found = self.questions.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        self.named.clear();
        for (index, gid) in found.iter().filter_map(addressed) {
            let Some(owner) = owners.get(&index) else { continue };
            let entry = GidEntry { vlan: owner.vlan, ..GidEntry::new(gid) };
            self.named.push((owner.port, entry, owner.name.clone()));
        }
        Ok(())
    }

    fn rewrite(&self, port: PortId, table: &[GidEntry; GID_TABLE_LEN]) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        for (index, entry) in table.iter().enumerate() {
            let own = interface_name(port);
            let of = |named: &&(PortId, GidEntry, String)| {
                named.0 == port && (named.1.gid, named.1.vlan) == (entry.gid, entry.vlan)
            };
            let name = self.named.iter().find(of).map_or(&own, |named| &named.2);
            sysfs::write_gid(&of_port(directory, port), index, entry, Some(name))?;
        }
        Ok(())
    }
}

impl Addresses for Interfaces {
    fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    fn read(&mut self) -> Vec<(PortId, GidEntry)> {
        // Before the questions: what comes during them is asked for again.
        self.news.drain();
        // A port's first GID is made from its MAC, whatever addresses there are.
        let first = |port| (port, GidEntry::new(address::gid(port, 0)));
        let mut gids: Vec<_> = PortId::of_cards(MAX_CARDS as u16).map(first).collect();
        // If the kernel does not answer, its last answer holds.
        let _ = self.look();
        gids.extend(self.named.iter().map(|&(port, entry, _)| (port, entry)));
        gids
    }

    fn changed(&mut self, port: PortId, table: &[GidEntry; GID_TABLE_LEN]) {
        // The keeper has nobody to tell; the cards' registers are right.
        let _ = self.rewrite(port, table);
    }
}

/// A link of a port.
struct Owner {
    port: PortId,
    name: String,
    /// 0: it is no VLAN.
    vlan: u16,
}

/// A link of a port, by its index: the port's own interface, or a VLAN or macvlan on it.
fn owner(message: &RouteNetlinkMessage) -> Option<(u32, Owner)> {
    let RouteNetlinkMessage::NewLink(link) = message else { return None };
    let of = |find: fn(&LinkAttribute) -> Option<u32>| link.attributes.iter().find_map(find);
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })?;
    let infos = || {
        let all = link.attributes.iter().filter_map(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => Some(infos),
            _ => None,
        });
        all.flatten()
    };
    let stacked = infos().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Vlan | InfoKind::MacVlan)));
    let vlan = infos().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vlan(data)) => data.iter().find_map(|data| match data {
            InfoVlan::Id(id) => Some(*id),
            _ => None,
        }),
        _ => None,
    });
    let below = of(|attribute| match attribute {
        LinkAttribute::Link(index) => Some(*index),
        _ => None,
    });
    let index = link.header.index;
    let port = match below.filter(|_| stacked) {
        Some(below) => port(below)?,
        None => port(index).filter(|&port| name == interface_name(port))?,
    };
    Some((index, Owner { port, name, vlan: vlan.unwrap_or(0) }))
}

/// The interface and the GID of an address.
fn addressed(message: &RouteNetlinkMessage) -> Option<(u32, Gid)> {
    let RouteNetlinkMessage::NewAddress(address) = message else { return None };
    let of = |local: bool| {
        address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(address) if local => Some(*address),
            AddressAttribute::Address(address) if !local => Some(*address),
            _ => None,
        })
    };
    // Of a point-to-point link the other one is the peer's.
    Some((address.header.index, address::gid_of(of(true).or_else(|| of(false))?)))
}

#[cfg(test)]
mod tests {
    use super::super::network::index;
    use super::*;

    /// As the kernel tells of `ip link add link verbena0p2 name verbena0p2.107 type vlan id 107`.
    #[test]
    fn a_vlan_interface_is_its_ports_in_that_vlan() {
        let below = PortId { card: 0, port: 1 };
        let told = |infos: Vec<LinkInfo>| {
            let mut link = LinkMessage::default();
            link.header.index = 4711;
            link.attributes = vec![
                LinkAttribute::IfName("verbena0p2.107".to_owned()),
                LinkAttribute::Link(index(below)),
                LinkAttribute::LinkInfo(infos),
            ];
            owner(&RouteNetlinkMessage::NewLink(link))
                .map(|(at, owner)| (at, owner.port, owner.name, owner.vlan))
        };
        let vlan = LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(107)]));
        let name = || "verbena0p2.107".to_owned();
        assert_eq!(told(vec![LinkInfo::Kind(InfoKind::Vlan), vlan]), Some((4711, below, name(), 107)));
        assert_eq!(told(vec![LinkInfo::Kind(InfoKind::MacVlan)]), Some((4711, below, name(), 0)));
        assert_eq!(told(vec![LinkInfo::Kind(InfoKind::Veth)]), None);
    }
}
