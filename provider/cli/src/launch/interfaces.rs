//! GIDs follow the addresses of network interfaces, in the cards and in the files that programs read.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use anyhow::Result;
use model::address::{self, interface_name, Gid, GID_TABLE_LEN};
use model::attach::Addresses;
use model::packet::{PortId, MAX_CARDS};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::RouteNetlinkMessage;

use super::live::{of_port, ports};
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
    named: Vec<(PortId, Gid, String)>,
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
    pub fn show(&mut self, directory: PathBuf, cards: u8) -> Result<()> {
        for port in ports(cards) {
            for index in 0..GID_TABLE_LEN {
                let gid = address::gid(port, index as u8);
                sysfs::write_gid(&of_port(&directory, port), index, &gid, Some(&interface_name(port)))?;
            }
        }
        self.directory = Some(directory);
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let links = self.questions.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let owners: HashMap<u32, (PortId, String)> = links.iter().filter_map(owner).collect();
        let found = self.questions.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        self.named.clear();
        for (index, gid) in found.iter().filter_map(addressed) {
            let Some((port, name)) = owners.get(&index) else { continue };
            self.named.push((*port, gid, name.clone()));
        }
        Ok(())
    }

    fn rewrite(&self, port: PortId, table: &[Gid; GID_TABLE_LEN]) -> Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        for (index, gid) in table.iter().enumerate() {
            let own = interface_name(port);
            let named = self.named.iter().find(|named| (named.0, named.1) == (port, *gid));
            let name = named.map_or(&own, |named| &named.2);
            sysfs::write_gid(&of_port(directory, port), index, gid, Some(name))?;
        }
        Ok(())
    }
}

impl Addresses for Interfaces {
    fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    fn read(&mut self) -> Vec<(PortId, Gid)> {
        // Before the questions: what comes during them is asked for again.
        self.news.drain();
        // A port's first GID is made from its MAC, whatever addresses there are.
        let mut gids: Vec<_> = ports(MAX_CARDS as u8).map(|port| (port, address::gid(port, 0))).collect();
        // If the kernel does not answer, its last answer holds.
        let _ = self.look();
        gids.extend(self.named.iter().map(|&(port, gid, _)| (port, gid)));
        gids
    }

    fn changed(&mut self, port: PortId, table: &[Gid; GID_TABLE_LEN]) {
        // The keeper has nobody to tell; the cards' registers are right.
        let _ = self.rewrite(port, table);
    }
}

/// A link of a port, by its index: the port's own interface, or a VLAN or macvlan on it.
fn owner(message: &RouteNetlinkMessage) -> Option<(u32, (PortId, String))> {
    let RouteNetlinkMessage::NewLink(link) = message else { return None };
    let of = |find: fn(&LinkAttribute) -> Option<u32>| link.attributes.iter().find_map(find);
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })?;
    let stacked = link.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(info) => {
            info.iter().any(|info| matches!(info, LinkInfo::Kind(InfoKind::Vlan | InfoKind::MacVlan)))
        }
        _ => false,
    });
    let below = of(|attribute| match attribute {
        LinkAttribute::Link(index) => Some(*index),
        _ => None,
    });
    let index = link.header.index;
    let owner = match below.filter(|_| stacked) {
        Some(below) => port(below)?,
        None => port(index).filter(|&port| name == interface_name(port))?,
    };
    Some((index, (owner, name)))
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
    let gid = match of(true).or_else(|| of(false))? {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    Some((address.header.index, gid))
}
