//! The network of a net: one network namespace for all of its programs, with a network interface for each port.
//!
//! The two ports of a card are the two ends of a veth pair, so that both have a carrier; all addresses are local, so
//! nothing but what programs send to addresses of nobody travels there.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use model::address::{self, interface_name};
use model::packet::{PortId, MAX_CARDS, PORTS};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::interfaces::Interfaces;
use super::namespace::{self, Kind};
use super::rtnetlink::Route;

/// Index of the loopback interface in every namespace.
const LOOPBACK: u32 = 1;
/// Index of the first port's interface, after those that the kernel itself may put into a new namespace (sit0, ...).
const FIRST_INDEX: u32 = 16;
/// Room for a RoCE packet of path MTU 4096.
const MTU: u32 = 4200;
/// Of an IPv4 address: the other cards' ports of the same number.
const IPV4_PREFIX: u8 = 24;
/// Of a link-local one.
const IPV6_PREFIX: u8 = 64;

/// A network namespace, and what the keeper hears of it.
pub struct Network {
    /// It exists while this is open or a process is in it.
    pub namespace: OwnedFd,
    pub interfaces: Interfaces,
}

/// Makes one inside the user namespace `user` if there is one.
pub fn make(user: Option<BorrowedFd<'_>>, cards: u8) -> Result<Network> {
    let [namespace, news, questions] = namespace::made_by_a_child(|| {
        if let Some(user) = user {
            namespace::join(user, Kind::User)?;
        }
        namespace::enter_network()?;
        let route = Route::open(0)?;
        raise(&route, LOOPBACK).context("raising lo")?;
        for card in 0..cards {
            add_card(&route, card).with_context(|| format!("making the interfaces of card {card}"))?;
        }
        let namespace = File::open(Kind::Network.of_this_process())?.into();
        Ok([namespace, Interfaces::news()?.into(), route.into()])
    })?;
    Ok(Network { namespace, interfaces: Interfaces::new(news.into(), questions.into()) })
}

/// The port whose interface has this index.
pub fn port(index: u32) -> Option<PortId> {
    let number = usize::try_from(index.checked_sub(FIRST_INDEX)?).ok()?;
    let (card, port) = (number / PORTS, number % PORTS);
    (card < MAX_CARDS).then_some(PortId { card: card as u16, port: port as u8 })
}

pub(super) fn index(port: PortId) -> u32 {
    FIRST_INDEX + u32::from(port.card) * PORTS as u32 + u32::from(port.port)
}

fn add_card(route: &Route, card: u8) -> Result<()> {
    let [one, other] = [0, 1].map(|port| PortId { card: card.into(), port });
    let mut pair = link(one);
    let peer = InfoData::Veth(InfoVeth::Peer(link(other)));
    pair.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(peer)]));
    route
        .change(RouteNetlinkMessage::NewLink(pair), NLM_F_CREATE | NLM_F_EXCL)
        .context("making a veth pair")?;
    for port in [one, other] {
        // The link-local one too: the kernel's own would be usable only after a second. Without IPv6 there is none.
        let [ipv6, ipv4] = addresses(port);
        let _ = add_address(route, index(port), ipv6);
        add_address(route, index(port), ipv4).with_context(|| format!("adding {ipv4}"))?;
        raise(route, index(port)).with_context(|| format!("raising {}", interface_name(port)))?;
    }
    Ok(())
}

fn link(port: PortId) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index(port);
    message.attributes = vec![
        LinkAttribute::IfName(interface_name(port)),
        LinkAttribute::Address(port.mac().to_vec()),
        LinkAttribute::Mtu(MTU),
    ];
    message
}

/// An interface as it is now; `None`: it is not here.
pub fn get_link(route: &Route, index: u32) -> Result<Option<LinkMessage>> {
    let mut question = LinkMessage::default();
    question.header.index = index;
    Ok(match route.get(RouteNetlinkMessage::GetLink(question))? {
        Some(RouteNetlinkMessage::NewLink(link)) => Some(link),
        _ => None,
    })
}

/// Gives an interface these attributes: its MAC, its MTU, the network namespace that it is in.
pub fn set_link(route: &Route, index: u32, attributes: Vec<LinkAttribute>) -> Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = attributes;
    route.change(RouteNetlinkMessage::SetLink(message), 0)
}

/// Gives another network namespace a number in this one, without which nothing is heard of it here.
pub fn number_namespace(route: &Route, namespace: BorrowedFd<'_>) -> Result<()> {
    let mut message = NsidMessage::default();
    let namespace = u32::try_from(namespace.as_raw_fd())?;
    // Any number.
    message.attributes = vec![NsidAttribute::Id(-1), NsidAttribute::Fd(namespace)];
    route.change(RouteNetlinkMessage::NewNsId(message), 0)
}

pub fn raise(route: &Route, index: u32) -> Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    route.change(RouteNetlinkMessage::SetLink(message), 0)
}

/// The addresses of a port's interface: a link-local one, and that of IPv4.
pub fn addresses(port: PortId) -> [IpAddr; 2] {
    [0, 1].map(|entry| address::ip_of(address::gid(port, entry)))
}

/// Gives an interface one of its port's [`addresses`].
pub fn add_address(route: &Route, index: u32, address: IpAddr) -> Result<()> {
    let mut message = AddressMessage::default();
    message.header.index = index;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    match address {
        IpAddr::V4(_) => {
            (message.header.family, message.header.prefix_len) = (AddressFamily::Inet, IPV4_PREFIX);
        }
        IpAddr::V6(_) => {
            (message.header.family, message.header.prefix_len) = (AddressFamily::Inet6, IPV6_PREFIX);
            message.header.scope = AddressScope::Link;
            message.header.flags = AddressHeaderFlags::Nodad;
        }
    }
    route.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
}
