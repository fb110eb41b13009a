//! Addresses and ports of identifiers: bind, listen, resolve.

use libc::*;

use super::address::{Address, IB, INET, INET6};
use super::ids::{event, Result, NOWHERE, SILENT};
use super::tables::*;
use crate::address::Gid;
use crate::env::Env;
use crate::packet::PortId;
use crate::wire::path::gid_to_ipv4;

/// Port spaces, `RDMA_PS_...`.
pub mod space {
    /// IP over InfiniBand.
    pub const IPOIB: u16 = 0x0002;
    /// Connections.
    pub const TCP: u16 = 0x0106;
    /// Datagrams.
    pub const UDP: u16 = 0x0111;
    /// Any, by service ID.
    pub const IB: u16 = 0x013f;
}

/// Service IDs of IP ports: the port space is in these bits.
const SERVICE_SPACE: u64 = 0xffff_ffff_ffff_0000;
/// Ports below this one are for privileged programs.
const UNPRIVILEGED: u16 = 1024;
/// Ports that the manager chooses from, as `ip_local_port_range` has them.
const EPHEMERAL: core::ops::RangeInclusive<u16> = 32768..=60999;
/// Longest queue of connections that wait for a listener.
const MAX_BACKLOG: u32 = 1024;

impl<E: Env> Manager<'_, E> {
    /// What a wildcard is, to Linux: the loopback addresses, too; but not where a port that leads outside has such an
    /// address, for then others are there.
    fn wildcards(&self) -> impl Fn(&Address) -> bool + Copy {
        let loopback = |gid: &Gid| Address::of_gid(gid, 0).is_loopback();
        let taken = self.outside.iter().any(|port| self.gids.of(port).any(|entry| loopback(&entry.gid)));
        move |address| address.is_any() || address.is_loopback() && !taken
    }

    /// `rdma_bind_addr`.
    pub fn bind(&mut self, slot: u16, address: Address) -> Result<()> {
        if !matches!(address.family(), INET | INET6 | IB) {
            return Err(EAFNOSUPPORT);
        }
        if self.id(slot).state != state::IDLE {
            return Err(EINVAL);
        }
        if !self.wildcards()(&address) {
            let found = match address.family() {
                // RoCE has no paths between IB addresses.
                IB => Err(ENODEV),
                _ => self.gids.find(&address.ip()).ok_or(EADDRNOTAVAIL),
            };
            let (from, sgid_index) = found?;
            self.id(slot).way = Way { known: true.into(), sgid_index, from, ..NOWHERE };
        }
        let id = self.id(slot);
        id.source = address;
        if !id.afonly_set.get() {
            id.afonly = (address.family() == INET).into();
        }
        let bound = self.port_space(slot).and_then(|space| self.take_port(slot, space));
        let id = self.id(slot);
        match bound {
            Ok(()) => id.state = state::BOUND,
            Err(_) => (id.source, id.way) = (Address::NONE, NOWHERE),
        }
        bound
    }

    /// The port space that an address is of.
    fn port_space(&mut self, slot: u16) -> Result<u16> {
        let id = self.id(slot);
        if id.source.family() != IB {
            return Ok(id.space);
        }
        let (service, mask) = id.source.service();
        let mask = mask & SERVICE_SPACE;
        let all = [space::IB, space::TCP, space::UDP];
        let may = |&s: &u16| id.space == s || id.space == space::IB;
        let is = |&s: &u16| service & mask == u64::from(s) << 16 & mask;
        all.into_iter().filter(may).find(is).ok_or(EPROTONOSUPPORT)
    }

    fn take_port(&mut self, slot: u16, space: u16) -> Result<()> {
        let (port, reuse) = (self.id(slot).source.port(), self.id(slot).reuse.get());
        if port != 0 {
            let channel = usize::from(self.id(slot).channel) % CHANNELS;
            if port < UNPRIVILEGED && !self.cm.channels[channel].privileged.get() {
                return Err(EACCES);
            }
            self.check_port(slot, space, port, reuse)?;
            self.has_port(slot, space, port);
            return Ok(());
        }
        let count = EPHEMERAL.end() - EPHEMERAL.start() + 1;
        for _ in 0..count {
            let port = self.cm.next_port.max(*EPHEMERAL.start());
            self.cm.next_port = if port >= *EPHEMERAL.end() { *EPHEMERAL.start() } else { port + 1 };
            let name = bound(space, port);
            if !self.cm.slots.ids.range().any(|other| self.cm.bound[other] == name) {
                self.has_port(slot, space, port);
                return Ok(());
            }
        }
        Err(EADDRNOTAVAIL)
    }

    fn has_port(&mut self, slot: u16, space: u16, port: u16) {
        self.cm.bound[usize::from(slot) % IDS] = bound(space, port);
        let id = self.id(slot);
        id.source = id.source.with_port(port);
    }

    /// Whether an identifier may have, or listen on, a port besides those that have it.
    fn check_port(&mut self, slot: u16, space: u16, port: u16, reuse: bool) -> Result<()> {
        let own = *self.id(slot);
        let is_open = self.wildcards();
        for other in self.cm.slots.ids.range() {
            let id = &self.cm.ids[other];
            if self.cm.bound[other] != bound(space, port) || !id.used.get() || other == usize::from(slot) {
                continue;
            }
            if id.state != state::LISTEN && reuse && id.reuse.get() {
                continue;
            }
            let apart = own.afonly.get() && id.afonly.get();
            if apart && own.source.family() != id.source.family() {
                continue;
            }
            if is_open(&own.source) || is_open(&id.source) {
                return Err(EADDRNOTAVAIL);
            }
            if own.source.ip() == id.source.ip() {
                return Err(EADDRINUSE);
            }
        }
        Ok(())
    }

    /// `rdma_listen`.
    pub fn listen(&mut self, slot: u16, backlog: u32) -> Result<()> {
        if self.id(slot).state == state::IDLE {
            self.bind(slot, Address::any(INET))?;
        }
        if self.id(slot).state != state::BOUND {
            return Err(EINVAL);
        }
        if self.id(slot).reuse.get() {
            let own = self.cm.bound[usize::from(slot) % IDS];
            self.check_port(slot, (own >> 16) as u16, own as u16, false)?;
        }
        let id = self.id(slot);
        id.state = state::LISTEN;
        id.backlog = if (1..MAX_BACKLOG).contains(&backlog) { backlog } else { MAX_BACKLOG };
        Ok(())
    }

    /// The listener for a service at a port of a card, of a program that a request names by `ip`.
    pub fn listener(&mut self, at: PortId, service: u64, ip: Option<Address>, qp_type: u8) -> Option<u16> {
        let wanted = u32::try_from(service).ok()?;
        let is_open = self.wildcards();
        let listens = |&slot: &usize| {
            let id = &self.cm.ids[slot];
            if self.cm.bound[slot] != wanted || !id.used.get() || id.state != state::LISTEN {
                return false;
            }
            let here = !id.way.known.get() || id.way.from == at;
            let family = ip.map_or(IB, |ip| ip.family());
            let open = is_open(&id.source) && (!id.afonly.get() || id.source.family() == family);
            let same = ip.is_some_and(|ip| ip.family() == id.source.family() && ip.ip() == id.source.ip());
            here && id.qp_type == qp_type && (open || same)
        };
        self.cm.slots.ids.range().find(listens).map(|slot| slot as u16)
    }

    /// `rdma_resolve_addr`: the event comes at once, unless the destination is to be asked for on a link outside.
    pub fn resolve(&mut self, slot: u16, source: Address, destination: Address, timeout: u32) -> Result<()> {
        let family = destination.family();
        if self.id(slot).state == state::IDLE {
            let source = if source.family() == 0 { Address::any(family) } else { source };
            self.bind(slot, source)?;
        }
        let id = self.id(slot);
        if id.state != state::BOUND || id.source.family() != family {
            return Err(EINVAL);
        }
        id.destination = destination;
        if family == IB {
            // As where no device has IB addresses.
            return Err(ENODEV);
        }
        match self.find_way(slot) {
            Ok(()) if self.asks(slot) => {
                let id = self.id(slot);
                (id.state, id.patience) = (state::QUERY, u64::from(timeout) * 1_000_000);
                self.rest(slot);
            }
            Ok(()) => self.resolved(slot, 0),
            Err(errno) => self.resolved(slot, -errno),
        }
        Ok(())
    }

    /// Whether the destination of an identifier is asked for.
    fn asks(&mut self, slot: u16) -> bool {
        let (way, own) = (self.id(slot).way, self.source(slot));
        let port = self.devices.get(usize::from(way.from.card)).map(|card| card.speaks_by(way.from.port));
        let by = PortId { port: port.unwrap_or(way.from.port), ..way.from };
        way.to == PortId::NOBODY && self.env.ask(by, &own, &way.dgid)
    }

    /// The way to the destination is known, or cannot be, with an errno value.
    pub fn resolved(&mut self, slot: u16, status: i32) {
        let (state, kind) = match status {
            0 => (state::RESOLVED, event::ADDR_RESOLVED),
            _ => (state::BOUND, event::ADDR_ERROR),
        };
        self.id(slot).state = state;
        self.event(slot, kind, status, &SILENT);
    }

    /// Somebody on the link of a port has this address.
    pub fn found(&mut self, port: PortId, ip: &Gid) {
        for slot in self.cm.slots.ids.range() {
            let id = &self.cm.ids[slot];
            if id.used.get() && id.state == state::QUERY && id.way.from == port && id.way.dgid == *ip {
                self.answered(slot as u16);
                self.resolved(slot as u16, 0);
            }
        }
    }

    /// Whether the program of an identifier listens at this address of a card itself.
    fn listens_at(&self, slot: u16, address: &Address) -> bool {
        let program = |id: &Id| self.cm.channels[usize::from(id.channel) % CHANNELS].member;
        let own = program(&self.cm.ids[usize::from(slot) % IDS]);
        self.cm.slots.ids.range().map(|other| &self.cm.ids[other]).any(|id| {
            let listens = id.used.get() && id.state == state::LISTEN && id.way.known.get();
            listens && id.source.ip() == address.ip() && program(id) == own
        })
    }

    /// The machine's own addresses mean the first card, and of the other end another one, if there is one.
    fn find_way(&mut self, slot: u16) -> Result<()> {
        let (cards, gids, outside) = (self.cards, self.gids, self.outside);
        let destination = self.id(slot).destination;
        let open = self.wildcards()(&destination);
        let at_home = self.listens_at(slot, &destination);
        let id = self.id(slot);
        let way = &mut id.way;
        let ip = destination.ip();
        let own = way.known.get().then_some(way.from);
        // The first port that leads to where such addresses are.
        let leading = || outside.iter().find(|&port| gids.of(port).any(|entry| same_family(&entry.gid, &ip)));
        let (to, dgid) = if open {
            let card = u16::from(own.is_some_and(|own| own.card == 0) && cards > 1);
            let to = PortId { card, port: own.map_or(0, |own| own.port) };
            (to, gids.gid(to, gids.like(to, &V4, 0)))
        } else if destination.is_multicast() {
            (PortId::ALL, ip)
        } else {
            let beyond = || own.map_or_else(leading, |own| Some(own).filter(|&own| outside.contains(own)));
            let to = gids.find(&ip).map(|(to, _)| to).or_else(|| beyond().map(|_| PortId::NOBODY));
            (to.ok_or(EHOSTUNREACH)?, ip)
        };
        let mut to = to;
        if own.is_none() {
            // A port on the same wire: the first card's, the other end's neighbour, or for who is there itself its own.
            let card = u16::from(to.card == 0 && cards > 1);
            way.from = match to {
                PortId::NOBODY => leading().ok_or(EHOSTUNREACH)?,
                _ if at_home || outside.contains(to) => to,
                _ => PortId { card, port: if to == PortId::ALL { 0 } else { to.port } },
            };
            way.known = true.into();
            // In the VLAN of the destination, where that is known.
            let link = gids.find(&dgid).map_or(0, |(port, index)| gids.entry(port, index).link());
            way.sgid_index = gids.like(way.from, &dgid, link);
            if id.source.is_any() {
                let source = id.source.port();
                id.source = Address::of_gid(&gids.gid(way.from, way.sgid_index), source);
            }
        }
        if outside.contains(id.way.from) && to != id.way.from && to != PortId::ALL {
            // By that port all others are outside.
            to = PortId::NOBODY;
        }
        (id.way.to, id.way.dgid) = (to, dgid);
        Ok(())
    }

    /// `rdma_resolve_route`.
    pub fn route(&mut self, slot: u16) -> Result<()> {
        let mtu = mtu_code(self.port.mtu);
        let id = self.id(slot);
        if id.state != state::RESOLVED {
            return Err(EINVAL);
        }
        (id.state, id.mtu, id.way.traffic_class) = (state::ROUTED, mtu, id.tos);
        id.way.flow_label = flow_label(&id.source, &id.destination);
        if id.ack_timeout_set.get() && id.ack_timeout != 0 {
            // The time-out is twice a packet's life: the card's own delay does not count.
            id.lifetime = id.ack_timeout - 1;
        }
        self.event(slot, event::ROUTE_RESOLVED, 0, &SILENT);
        Ok(())
    }

    /// The service that an identifier connects to or listens for, at an address.
    pub fn service(&mut self, slot: u16, address: &Address) -> u64 {
        match address.family() {
            IB => address.service().0,
            _ => u64::from(bound(self.id(slot).space, address.port())),
        }
    }
}

/// The flow label of a path, as Linux chooses it: that of the own IPv6 address, or of the two ports.
fn flow_label(source: &Address, destination: &Address) -> u32 {
    const BITS: u32 = 0xf_ffff;
    match source.flow_info() & BITS {
        0 => (u32::from(source.port()) * 31 + u32::from(destination.port())) & BITS,
        label => label,
    }
}

/// 198.18.0.1: any IPv4 address.
const V4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1];

fn same_family(one: &Gid, other: &Gid) -> bool {
    gid_to_ipv4(one).is_some() == gid_to_ipv4(other).is_some()
}

fn bound(space: u16, port: u16) -> u32 {
    u32::from(space) << 16 | u32::from(port)
}

/// An MTU as in IB headers.
pub fn mtu_code(bytes: u32) -> u8 {
    (bytes.clamp(256, 4096).ilog2() - 7) as u8
}
