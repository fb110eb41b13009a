//! The GID tables of a segment's ports.

use crate::address::{fixed_owner, gid, Gid};
use crate::encapsulation::Encapsulation;
use crate::packet::{PortId, MAX_CARDS, PORTS};
use crate::plain::{Flag, Plain};
use crate::wire::path::{gid_to_ipv4, multicast_mac};

/// Entries of a port's GID table.
pub const GID_TABLE_LEN: usize = 16;

/// An entry of a port's GID table; one without a GID is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Plain)]
#[repr(C)]
pub struct GidEntry {
    /// The GID; zero: there is none.
    pub gid: Gid,
    /// The VLAN that it is in; 0: it is in none.
    pub vlan: u16,
    /// Its packets are of RoCE version 1.
    pub v1: Flag,
}

impl GidEntry {
    /// Of RoCE version 2, outside of VLANs.
    pub const fn new(gid: Gid) -> GidEntry {
        GidEntry { gid, vlan: 0, v1: Flag::NO }
    }

    /// What packets of this entry have: see [`Encapsulation::link`].
    pub const fn link(&self) -> u32 {
        Encapsulation::link_of(self.v1.get(), self.vlan)
    }

    /// The encapsulation of packets from this entry: by its version of RoCE, in its VLAN with the service level as priority, and by
    /// the IP version of both GIDs.
    pub fn encapsulation(&self, dgid: &Gid, sl: u8) -> Encapsulation {
        let is_ipv6 = [&self.gid, dgid].iter().any(|gid| gid_to_ipv4(gid).is_none());
        Encapsulation::of_link(self.link(), is_ipv6, sl)
    }

    /// Whether it has no GID.
    pub fn is_empty(&self) -> bool {
        self.gid == [0; 16]
    }
}

/// GIDs of a port. Entries that have been removed keep their GID for the queue pairs that use it.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
struct GidTable {
    entries: [GidEntry; GID_TABLE_LEN],
    valid: [Flag; GID_TABLE_LEN],
    /// It has, or had, entries of RoCE version 1 or in VLANs.
    mixed: Flag,
}

impl GidTable {
    fn valid(&self) -> impl Iterator<Item = &GidEntry> {
        self.entries.iter().zip(&self.valid).filter(|entry| entry.1.get()).map(|entry| entry.0)
    }

    fn has(&self, gid: &Gid) -> bool {
        self.valid().any(|entry| entry.gid == *gid)
    }

    fn add(&mut self, entry: GidEntry) {
        if let Some(free) = self.valid.iter().position(|valid| !valid.get()) {
            (self.entries[free], self.valid[free]) = (entry, true.into());
            self.mixed = (self.mixed.get() || entry.link() != 0).into();
        }
    }
}

/// The GID tables of all ports of a segment, as each card knows them: its own, and of the others what ARP or neighbour
/// discovery would find. Zero bytes are empty tables. Cards from [`MAX_CARDS`] on, which no process shares and no network
/// interface belongs to, keep the GIDs that they have at the start.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct GidTables {
    /// Cards of the net.
    cards: u16,
    ports: [[GidTable; PORTS]; MAX_CARDS],
}

impl GidTables {
    /// Of `cards` cards at the start.
    #[cfg(test)]
    pub fn at_start(cards: u16) -> GidTables {
        let mut tables: GidTables = crate::plain::zeroed();
        tables.init(cards);
        tables
    }

    /// Fills in what each port of `cards` cards has from the start.
    pub fn init(&mut self, cards: u16) {
        self.cards = cards;
        for (port, table) in self.all().filter(|(port, _)| port.card < cards) {
            (0..2).for_each(|index| table.add(GidEntry::new(gid(port, index))));
        }
    }

    /// An entry of a port's table.
    pub fn entry(&self, port: PortId, index: u8) -> GidEntry {
        if self.is_fixed(port) {
            return GidEntry::new(gid(port, index));
        }
        let valid = |table: &GidTable| Some(table.valid.get(usize::from(index))?.get());
        match self.table(port).and_then(valid) {
            Some(true) => self.source(port, index),
            _ => GidEntry::default(),
        }
    }

    /// The GID of an entry; zero if that is empty.
    pub fn gid(&self, port: PortId, index: u8) -> Gid {
        self.entry(port, index).gid
    }

    /// What a queue pair that names this entry sends from, even if the entry has been removed.
    pub fn source(&self, port: PortId, index: u8) -> GidEntry {
        if self.is_fixed(port) {
            return GidEntry::new(gid(port, index));
        }
        let entry = |table: &GidTable| table.entries.get(usize::from(index)).copied();
        self.table(port).and_then(entry).unwrap_or_default()
    }

    /// The Ethernet address of a GID: of the port that has it, or the group address of a multicast GID.
    pub fn resolve(&self, gid: &Gid) -> Option<[u8; 6]> {
        multicast_mac(gid).or_else(|| self.owner(gid).map(PortId::mac))
    }

    /// A port has these GIDs from now on, and no others.
    pub fn set(&mut self, port: PortId, entries: &[GidEntry]) {
        if let Some((_, table)) = self.all().find(|(id, _)| *id == port) {
            table.valid.fill(Flag::NO);
            entries.iter().for_each(|entry| table.add(*entry));
        }
    }

    /// Whether a port has a GID.
    pub fn has(&self, port: PortId, gid: &Gid) -> bool {
        match self.is_fixed(port) {
            true => fixed_owner(gid) == Some(port),
            false => self.table(port).is_some_and(|table| table.has(gid)),
        }
    }

    /// Whether a datagram for a GID is for this port: it has the GID, of the version of RoCE and in the VLAN that carries the
    /// datagram. All GIDs of groups are a port's that has some such GID, and RoCEv2's outside of VLANs are not looked at where
    /// no other ones are.
    pub fn takes(&self, port: PortId, gid: &Gid, encapsulation: Encapsulation) -> bool {
        let link = encapsulation.link();
        let Some(table) = self.table(port).filter(|_| !self.is_fixed(port)) else { return link == 0 };
        if link == 0 && !table.mixed.get() {
            return true;
        }
        let group = multicast_mac(gid).is_some();
        let alike = |entry: &GidEntry| (group || entry.gid == *gid) && entry.link() == link;
        // A GID that was removed still receives outside of VLANs.
        table.valid().any(alike) || link == 0 && (group || !table.has(gid))
    }

    /// Whether a port is one of a card whose GIDs never change.
    fn is_fixed(&self, port: PortId) -> bool {
        (MAX_CARDS..usize::from(self.cards)).contains(&usize::from(port.card))
    }

    /// The entries of a port.
    pub fn of(&self, port: PortId) -> impl Iterator<Item = &GidEntry> {
        self.table(port).into_iter().flat_map(GidTable::valid)
    }

    /// The ports have these entries from now on. What stays keeps its place; a GID that another port has
    /// already, or for which there is no place, is left out.
    pub fn follow(&mut self, wanted: &[(PortId, GidEntry)]) {
        for (port, table) in self.all() {
            for (entry, valid) in table.entries.iter().zip(&mut table.valid) {
                if !wanted.contains(&(port, *entry)) {
                    *valid = Flag::NO;
                }
            }
        }
        for &(port, entry) in wanted {
            // In several VLANs, or of both versions of RoCE, a port may have it more than once.
            let taken = match self.owner(&entry.gid) {
                Some(owner) => owner != port || self.of(port).any(|has| *has == entry),
                None => false,
            };
            let table =
                self.ports.get_mut(usize::from(port.card)).and_then(|c| c.get_mut(usize::from(port.port)));
            if let Some(table) = table.filter(|_| !taken) {
                table.add(entry);
            }
        }
    }

    /// The port that has a GID, and its index there.
    pub fn find(&self, gid: &Gid) -> Option<(PortId, u8)> {
        let port = self.owner(gid)?;
        (0..GID_TABLE_LEN as u8).find(|&index| self.gid(port, index) == *gid).map(|index| (port, index))
    }

    /// The index of a port's GID that takes what came in this encapsulation.
    pub fn index(&self, port: PortId, gid: &Gid, encapsulation: Encapsulation) -> Option<u8> {
        (0..GID_TABLE_LEN as u8).find(|&index| {
            let entry = self.entry(port, index);
            entry.gid == *gid && entry.link() == encapsulation.link()
        })
    }

    /// The index of a port's first GID of the same IP version as `other`, and for packets of this [`link`](Encapsulation::link).
    pub fn like(&self, port: PortId, other: &Gid, link: u32) -> u8 {
        let v4 = gid_to_ipv4(other).is_some();
        let fits = |&index: &u8| {
            let entry = self.entry(port, index);
            !entry.is_empty() && entry.link() == link && gid_to_ipv4(&entry.gid).is_some() == v4
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
        ports.find(|(_, table)| table.has(gid)).map(|(port, _)| port)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MOST_CARDS;
    use crate::wire::path::ipv4_to_gid;

    const A: PortId = PortId { card: 0, port: 0 };
    const B: PortId = PortId { card: 1, port: 1 };

    #[test]
    fn gids_follow_addresses() {
        let mut tables = GidTables::at_start(2);
        let [first, second, new] = [gid(A, 0), gid(A, 1), ipv4_to_gid([10, 1, 2, 3])].map(GidEntry::new);
        let other = GidEntry::new(gid(B, 0));
        let seen = |tables: &GidTables| [0, 1, 2].map(|index| tables.entry(A, index));
        assert_eq!(seen(&tables), [first, second, GidEntry::default()]);
        assert_eq!((tables.resolve(&second.gid), tables.resolve(&new.gid)), (Some(A.mac()), None));
        // The same address at another port: who has it first keeps it.
        tables.follow(&[(A, first), (A, second), (A, new), (B, new), (B, other)]);
        assert_eq!((tables.entry(A, 2), tables.gid(B, 1)), (new, [0; 16]));
        assert_eq!((tables.find(&new.gid), tables.find(&[0; 16])), (Some((A, 2)), None));
        assert_eq!((tables.like(A, &first.gid, 0), tables.like(A, &new.gid, 0)), (0, 1));
        assert_eq!(tables.resolve(&new.gid), Some(A.mac()));
        // One that goes leaves its place, and queue pairs still send from it.
        tables.follow(&[(A, first), (A, new), (B, other)]);
        assert_eq!(seen(&tables), [first, GidEntry::default(), new]);
        assert_eq!((tables.source(A, 1), tables.resolve(&second.gid)), (second, None));
        // It moves to the other port.
        tables.follow(&[(A, first), (B, other), (B, new)]);
        assert_eq!((tables.resolve(&new.gid), tables.entry(B, 1)), (Some(B.mac()), new));
        assert_eq!(tables.resolve(&[0; 16]), None);
    }

    #[test]
    fn a_datagram_is_for_a_gid_of_its_vlan_and_version() {
        let mut tables = GidTables::at_start(2);
        let own = [gid(A, 0), gid(A, 1)].map(GidEntry::new);
        let [inside, both] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(ipv4_to_gid);
        let tagged = |gid| GidEntry { vlan: 107, ..GidEntry::new(gid) };
        let first = GidEntry { v1: true.into(), ..own[1] };
        let [plain, vlan, v1] = [own[1], tagged(inside), first].map(|entry| entry.encapsulation(&inside, 3));
        let group = ipv4_to_gid([239, 0, 0, 1]);
        // Without such entries the GID is not looked at, and nothing else is taken.
        assert!(tables.takes(A, &inside, plain) && tables.takes(A, &group, plain));
        assert!(!tables.takes(A, &inside, vlan) && !tables.takes(A, &group, vlan));
        let entries = [own[0], own[1], tagged(inside), GidEntry::new(both), tagged(both), first];
        tables.follow(&entries.map(|entry| (A, entry)));
        let taken = |gid: &Gid| [plain, vlan, v1].map(|encapsulation| tables.takes(A, gid, encapsulation));
        assert_eq!(taken(&inside), [false, true, false]);
        assert_eq!(taken(&both), [true, true, false]);
        assert_eq!(taken(&own[1].gid), [true, false, true]);
        assert_eq!(taken(&own[0].gid), [true, false, false]);
        assert_eq!(taken(&group), [true, true, true]);
        assert!(!tables.takes(B, &inside, vlan), "another port's");
        // Who answers, answers from the same VLAN.
        assert_eq!((tables.index(A, &both, plain), tables.index(A, &both, vlan)), (Some(3), Some(4)));
        assert_eq!((tables.like(A, &both, 0), tables.like(A, &both, vlan.link())), (1, 2));
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
        let wanted: Vec<_> = (0..20).map(|n| (A, GidEntry::new(ipv4_to_gid([10, 0, 0, n])))).collect();
        tables.follow(&wanted);
        assert_eq!(tables.gid(A, 15), ipv4_to_gid([10, 0, 0, 15]));
        assert_eq!(tables.resolve(&ipv4_to_gid([10, 0, 0, 16])), None);
        let nobody = PortId::NOBODY;
        tables.follow(&[(nobody, GidEntry::new([1; 16]))]);
        assert_eq!((tables.entry(nobody, 0), tables.source(A, 200)), Default::default());
    }
}
