//! The addresses of a segment's cards: MAC, GIDs, GUIDs. All follow from the card's number, but for the GIDs that follow
//! addresses of network interfaces, and for what others meet outside of the segment.

use crate::packet::{PortId, MAX_CARDS, MOST_CARDS, PORTS};
use crate::plain::{plain, Flag};
use crate::wire::path::{gid_to_ipv4, ipv4_to_gid, multicast_mac};

/// A GID: an IPv6 address, or an IPv4 address as `::ffff:a.b.c.d`.
pub type Gid = [u8; 16];

/// The Ethernet address that a GID outside of the segment resolves to: which one it truly has is the medium's business.
pub const OUTSIDE_MAC: [u8; 6] = [2, 0x56, 0x42, 0xff, 0, 0];

/// Entries of a port's GID table.
pub const GID_TABLE_LEN: usize = 16;

/// Name of a port's network interface.
pub fn interface_name(port: PortId) -> String {
    format!("verbena{}p{}", port.card, port.port + 1)
}

/// EUI-64 of a MAC address (RFC 4291 appendix A).
pub fn eui64(mac: [u8; 6]) -> [u8; 8] {
    [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]
}

/// The GUIDs of a net's cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Guids {
    /// What they begin with; the card's number and zero follow.
    prefix: [u8; 6],
}

impl Guids {
    /// Of cards that only meet those of their own net: the EUI-64 of their first ports' Ethernet addresses.
    pub const INSIDE: Guids = Guids { prefix: [0, 0x56, 0x42, 0xff, 0xfe, 0] };

    /// Of cards that may meet those of other nets; `seed` is what only this net has.
    pub fn unique(seed: &[&[u8]]) -> Guids {
        // FNV-1a; no byte occurs in UTF-8 that separates the parts.
        let bytes = seed.iter().flat_map(|part| part.iter().copied().chain([0xff]));
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, step);
        let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
        // Neither that of an EUI-64, nor one of the Ethernet addresses that mean something else.
        Guids { prefix: [0, 0x56, 0x42, (a ^ d) % 0xfe + 1, b ^ e, c ^ f] }
    }

    /// Node GUID of a card.
    pub fn node(self, card: u16) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.prefix;
        let [high, low] = card.to_be_bytes();
        [a, b, c, d, e, f, low, high]
    }

    /// The Ethernet address of a port that is a host of its own outside of its net.
    pub fn mac(self, port: PortId) -> [u8; 6] {
        let [_, b, c, d, e, f] = self.prefix;
        [2, b, c, d, e, f & 0xe0 | ((port.card as u8) << 1 | port.port & 1) & 0x1f]
    }
}

/// GID `index` of a port (RoCE v2) at the start: 0 is link-local, 1 the IPv4 address 198.18.port.(card + 1) (RFC 2544's
/// range for benchmarks) of the first 255 cards; what does not fit there goes on two /24 later, and from 198.18 to 198.19.
/// The others are empty.
pub fn gid(port: PortId, index: u8) -> Gid {
    match index {
        0 => {
            let mut gid = [0u8; 16];
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[8..].copy_from_slice(&eui64(port.mac()));
            gid
        }
        1 => {
            let at = u32::from(port.card) + 1;
            let [_, second, third, fourth] =
                ((at >> 8) << 9 | u32::from(port.port) << 8 | at & 0xff).to_be_bytes();
            ipv4_to_gid([198, 18 + second, third, fourth])
        }
        _ => [0; 16],
    }
}

/// GIDs of a port. Entries that have been removed keep their GID for the queue pairs that use it.
#[derive(Clone, Copy)]
#[repr(C)]
struct GidTable {
    gids: [Gid; GID_TABLE_LEN],
    valid: [Flag; GID_TABLE_LEN],
}

impl GidTable {
    fn valid(&self) -> impl Iterator<Item = &Gid> {
        self.gids.iter().zip(&self.valid).filter(|entry| entry.1.get()).map(|entry| entry.0)
    }

    fn add(&mut self, gid: Gid) {
        if let Some(free) = self.valid.iter().position(|valid| !valid.get()) {
            (self.gids[free], self.valid[free]) = (gid, true.into());
        }
    }
}

/// The GID tables of all ports of a segment, as each card knows them: its own, and of the others what ARP or neighbour
/// discovery would find. Zero bytes are empty tables. Cards from [`MAX_CARDS`] on, which no process shares and no network
/// interface belongs to, keep the GIDs that they have at the start.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct GidTables {
    /// Cards of the net.
    cards: u16,
    ports: [[GidTable; PORTS]; MAX_CARDS],
}

plain! {
    Guids { prefix }
    GidTable { gids, valid }
    GidTables { cards, ports }
}

impl GidTables {
    /// Of `cards` cards at the start.
    #[cfg(test)]
    pub fn at_start(cards: u16) -> GidTables {
        let empty = GidTable { gids: [[0; 16]; GID_TABLE_LEN], valid: [Flag::NO; GID_TABLE_LEN] };
        let mut tables = GidTables { cards: 0, ports: [[empty; PORTS]; MAX_CARDS] };
        tables.init(cards);
        tables
    }

    /// Fills in what each port of `cards` cards has from the start.
    pub fn init(&mut self, cards: u16) {
        self.cards = cards;
        for (port, table) in self.all().filter(|(port, _)| port.card < cards) {
            (0..2).for_each(|index| table.add(gid(port, index)));
        }
    }

    /// An entry of a port's table; zero if it is empty.
    pub fn gid(&self, port: PortId, index: u8) -> Gid {
        if self.is_fixed(port) {
            return gid(port, index);
        }
        let valid = |table: &GidTable| Some(table.valid.get(usize::from(index))?.get());
        match self.table(port).and_then(valid) {
            Some(true) => self.source(port, index),
            _ => [0; 16],
        }
    }

    /// What a queue pair that names this entry sends from, even if the entry has been removed.
    pub fn source(&self, port: PortId, index: u8) -> Gid {
        if self.is_fixed(port) {
            return gid(port, index);
        }
        let gid = |table: &GidTable| table.gids.get(usize::from(index)).copied();
        self.table(port).and_then(gid).unwrap_or_default()
    }

    /// The Ethernet address of a GID: of the port that has it, or the group address of a multicast GID.
    pub fn resolve(&self, gid: &Gid) -> Option<[u8; 6]> {
        multicast_mac(gid).or_else(|| self.owner(gid).map(PortId::mac))
    }

    /// A port has these GIDs from now on, and no others.
    pub fn set(&mut self, port: PortId, gids: &[Gid]) {
        if let Some((_, table)) = self.all().find(|(id, _)| *id == port) {
            table.valid.fill(Flag::NO);
            gids.iter().for_each(|gid| table.add(*gid));
        }
    }

    /// Whether a port has a GID.
    pub fn has(&self, port: PortId, gid: &Gid) -> bool {
        match self.is_fixed(port) {
            true => fixed_owner(gid) == Some(port),
            false => self.table(port).is_some_and(|table| table.valid().any(|has| has == gid)),
        }
    }

    /// Whether a port is one of a card whose GIDs never change.
    fn is_fixed(&self, port: PortId) -> bool {
        (MAX_CARDS..usize::from(self.cards)).contains(&usize::from(port.card))
    }

    /// The GIDs of a port.
    pub fn of(&self, port: PortId) -> impl Iterator<Item = &Gid> {
        self.table(port).into_iter().flat_map(GidTable::valid)
    }

    /// The ports have these GIDs from now on. What stays keeps its place; a GID that another port has
    /// already, or for which there is no place, is left out.
    pub fn follow(&mut self, wanted: &[(PortId, Gid)]) {
        for (port, table) in self.all() {
            for (gid, valid) in table.gids.iter().zip(&mut table.valid) {
                if !wanted.contains(&(port, *gid)) {
                    *valid = Flag::NO;
                }
            }
        }
        for &(port, gid) in wanted {
            let taken = self.owner(&gid).is_some();
            let table =
                self.ports.get_mut(usize::from(port.card)).and_then(|c| c.get_mut(usize::from(port.port)));
            if let Some(table) = table.filter(|_| !taken) {
                table.add(gid);
            }
        }
    }

    /// The port that has a GID, and its index there.
    pub fn find(&self, gid: &Gid) -> Option<(PortId, u8)> {
        let port = self.owner(gid)?;
        (0..GID_TABLE_LEN as u8).find(|&index| self.gid(port, index) == *gid).map(|index| (port, index))
    }

    /// The index of a port's first GID of the same IP version as `other`.
    pub fn like(&self, port: PortId, other: &Gid) -> u8 {
        let v4 = gid_to_ipv4(other).is_some();
        let fits = |&index: &u8| {
            let gid = self.gid(port, index);
            gid != [0; 16] && gid_to_ipv4(&gid).is_some() == v4
        };
        (0..GID_TABLE_LEN as u8).find(fits).unwrap_or(0)
    }

    fn owner(&self, gid: &Gid) -> Option<PortId> {
        if let Some(port) = fixed_owner(gid).filter(|&port| self.is_fixed(port)) {
            return Some(port);
        }
        let cards = (0u16..).zip(&self.ports);
        let mut ports = cards.flat_map(|(card, ports)| {
            (0u8..).zip(ports).map(move |(port, table)| (PortId { card, port }, table))
        });
        ports.find(|(_, table)| table.valid().any(|has| has == gid)).map(|(port, _)| port)
    }

    fn table(&self, port: PortId) -> Option<&GidTable> {
        self.ports.get(usize::from(port.card))?.get(usize::from(port.port))
    }

    fn all(&mut self) -> impl Iterator<Item = (PortId, &mut GidTable)> {
        (0u16..).zip(&mut self.ports).flat_map(|(card, ports)| {
            (0u8..).zip(ports).map(move |(port, table)| (PortId { card, port }, table))
        })
    }
}

/// The port that has a GID at the start.
fn fixed_owner(wanted: &Gid) -> Option<PortId> {
    let card = match gid_to_ipv4(wanted) {
        Some([198, second @ 18..=19, third, fourth]) => {
            (u16::from(second - 18) << 15 | u16::from(third >> 1) << 8 | u16::from(fourth)).checked_sub(1)?
        }
        Some(_) => return None,
        None => u16::from_be_bytes([wanted[15] >> 1, wanted[14]]),
    };
    let mut ports = (0..PORTS as u8).map(|port| PortId { card, port });
    let owns = |&port: &PortId| (0..2).any(|index| gid(port, index) == *wanted);
    ports.find(owns).filter(|port| usize::from(port.card) < MOST_CARDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PortId = PortId { card: 0, port: 0 };
    const B: PortId = PortId { card: 1, port: 1 };

    #[test]
    fn gids_follow_addresses() {
        let mut tables = GidTables::at_start(2);
        let [first, second, new] = [gid(A, 0), gid(A, 1), ipv4_to_gid([10, 1, 2, 3])];
        assert_eq!((tables.gid(A, 0), tables.gid(A, 1), tables.gid(A, 2)), (first, second, [0; 16]));
        assert_eq!((tables.resolve(&second), tables.resolve(&new)), (Some(A.mac()), None));
        // The same address at another port: who has it first keeps it.
        tables.follow(&[(A, first), (A, second), (A, new), (B, new), (B, gid(B, 0))]);
        assert_eq!((tables.gid(A, 2), tables.gid(B, 1)), (new, [0; 16]));
        assert_eq!((tables.find(&new), tables.find(&[0; 16])), (Some((A, 2)), None));
        assert_eq!((tables.like(A, &first), tables.like(A, &new)), (0, 1));
        assert_eq!(tables.resolve(&new), Some(A.mac()));
        // One that goes leaves its place, and queue pairs still send from it.
        tables.follow(&[(A, first), (A, new), (B, gid(B, 0))]);
        assert_eq!((tables.gid(A, 1), tables.source(A, 1), tables.gid(A, 2)), ([0; 16], second, new));
        assert_eq!(tables.resolve(&second), None);
        // It moves to the other port.
        tables.follow(&[(A, first), (B, gid(B, 0)), (B, new)]);
        assert_eq!((tables.resolve(&new), tables.gid(B, 1)), (Some(B.mac()), new));
        assert_eq!(tables.resolve(&[0; 16]), None);
    }

    #[test]
    fn all_cards_have_addresses_of_their_own() {
        let last = MOST_CARDS as u16 - 1;
        let tables = GidTables::at_start(last + 1);
        for card in [0, 15, 16, 17, 253, 254, 255, 256, 511, 1023, last] {
            for port in 0..2 {
                let port = PortId { card, port };
                for index in 0..2 {
                    assert_eq!(tables.find(&gid(port, index)), Some((port, index)), "{port:?}");
                    assert!(tables.has(port, &tables.gid(port, index)));
                }
                assert_eq!(PortId::from_mac(port.mac()), port);
            }
        }
        assert_eq!(gid_to_ipv4(&gid(PortId { card: 256, port: 1 }, 1)), Some([198, 18, 3, 1]));
        let few = GidTables::at_start(20);
        assert_eq!(few.find(&gid(PortId { card: 20, port: 0 }, 1)), None);
        assert_eq!(few.find(&ipv4_to_gid([198, 18, 0, 0])), None);
    }

    #[test]
    fn a_full_table_takes_no_more() {
        let mut tables = GidTables::at_start(0);
        let wanted: Vec<_> = (0..20).map(|n| (A, ipv4_to_gid([10, 0, 0, n]))).collect();
        tables.follow(&wanted);
        assert_eq!(tables.gid(A, 15), ipv4_to_gid([10, 0, 0, 15]));
        assert_eq!(tables.resolve(&ipv4_to_gid([10, 0, 0, 16])), None);
        let nobody = PortId::NOBODY;
        tables.follow(&[(nobody, [1; 16])]);
        assert_eq!((tables.gid(nobody, 0), tables.source(A, 200)), ([0; 16], [0; 16]));
    }
}
