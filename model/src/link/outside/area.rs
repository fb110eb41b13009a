//! What all processes of a net know of its ports with a medium outside of the segment.

use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicU8, Ordering::Relaxed};

use super::reading::Reading;
use crate::packet::{PortId, MAX_CARDS, PORTS};
use crate::plain::Plain;

/// Most descriptors of a port by which its programs send.
pub const MAX_DESCRIPTORS: usize = 7;

/// The medium of a port, as a number: 0 is the net's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// UDP sockets.
    Udp = 1,
    /// Ethernet frames, which the keeper sends.
    Ethernet = 2,
}

/// What a port is on its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A host of its own.
    #[default]
    Alone,
    /// It is one with the card's other port, which has its part of the traffic.
    Standby,
    /// It is one with the card's other port, and has a part of the traffic.
    Active,
    /// It would be a host of its own, but is disabled, or has no link.
    Down,
}

impl Role {
    /// Whether it is one with the card's other port.
    pub fn is_member(self) -> bool {
        matches!(self, Role::Standby | Role::Active)
    }

    /// Whether it says on its link who it is, and asks for others.
    pub fn speaks(self) -> bool {
        matches!(self, Role::Alone | Role::Active)
    }
}

/// Why a packet that came from outside, or was to go there, is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Drop {
    /// The ICRC is wrong.
    Icrc,
    /// A length, a version or an opcode makes no sense.
    Malformed,
    /// It is of another partition.
    Pkey,
    /// No queue pair of this port takes packets of this kind with this number.
    NoQp,
    /// It has another Q_Key than the general services' queue pair.
    Qkey,
    /// It comes from an address that the queue pair is not connected to.
    Stranger,
    /// It is for an address that the port does not have.
    NotHere,
    /// The cards could not be had in time.
    Busy,
    /// The system did not send it.
    Unsent,
}

impl Drop {
    /// All of them, in their order.
    pub const ALL: [Drop; 9] = {
        use self::Drop::*;
        [Icrc, Malformed, Pkey, NoQp, Qkey, Stranger, NotHere, Busy, Unsent]
    };
}

/// What a medium says of its port when it is opened.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Which medium it is.
    pub kind: Kind,
    /// The port's Ethernet address.
    pub mac: [u8; 6],
    /// UDP source ports of the descriptors, if each has its own.
    pub sports: Vec<u16>,
    /// Bytes that a queue pair may have on their way.
    pub window: u32,
}

/// A port. Zero is one on the net's own wire. Written before the segment is shared, but for the counters.
#[derive(Plain)]
#[repr(C, align(64))]
pub struct OutsidePort {
    kind: AtomicU8,
    mac: [AtomicU8; 6],
    /// Its descriptors among those of the net.
    first: AtomicU16,
    count: AtomicU16,
    sports: [AtomicU16; MAX_DESCRIPTORS],
    /// The descriptor by which programs that poll receive, among those of the net, plus one; 0: only the keeper receives.
    receiver: AtomicU16,
    reading: Reading,
    /// [`Role`].
    role: AtomicU8,
    drops: [AtomicU64; Drop::ALL.len()],
}

impl OutsidePort {
    fn set(&self, setting: &Setting, descriptors: Range<usize>, receiver: Option<usize>) {
        self.mac.iter().zip(setting.mac).for_each(|(to, from)| to.store(from, Relaxed));
        self.first.store(descriptors.start as u16, Relaxed);
        self.count.store(descriptors.len() as u16, Relaxed);
        self.sports.iter().zip(&setting.sports).for_each(|(to, &from)| to.store(from, Relaxed));
        self.receiver.store(receiver.map_or(0, |index| index as u16 + 1), Relaxed);
        self.kind.store(setting.kind as u8, Relaxed);
    }

    /// Its medium, if that is outside of the segment.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        match self.kind.load(Relaxed) {
            1 => Some(Kind::Udp),
            2 => Some(Kind::Ethernet),
            _ => None,
        }
    }

    /// Its Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        std::array::from_fn(|byte| self.mac[byte].load(Relaxed))
    }

    /// Where its descriptors are among those of the net; at least one.
    pub fn descriptors(&self) -> Range<usize> {
        let first = usize::from(self.first.load(Relaxed));
        first..first + usize::from(self.count.load(Relaxed)).clamp(1, MAX_DESCRIPTORS)
    }

    /// The descriptor by which programs that poll receive, among those of the net, if they do.
    pub fn receiver(&self) -> Option<usize> {
        usize::from(self.receiver.load(Relaxed)).checked_sub(1)
    }

    /// Who reads what has come.
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// What it is on its link.
    pub fn role(&self) -> Role {
        match self.role.load(Relaxed) {
            1 => Role::Standby,
            2 => Role::Active,
            3 => Role::Down,
            _ => Role::Alone,
        }
    }

    /// It is that from now on. False: it was before.
    pub fn set_role(&self, role: Role) -> bool {
        self.role.swap(role as u8, Relaxed) != role as u8
    }

    /// The UDP source port of its descriptor `index`.
    pub fn sport(&self, index: usize) -> u16 {
        self.sports[index % MAX_DESCRIPTORS].load(Relaxed)
    }

    /// Counts packets that are dropped.
    pub fn dropped(&self, why: Drop, count: u64) {
        self.drops[why as usize].fetch_add(count, Relaxed);
    }

    /// How many packets were dropped for this reason.
    pub fn drops(&self, why: Drop) -> u64 {
        self.drops[why as usize].load(Relaxed)
    }
}

/// All ports. Zero bytes are a net without any outside.
#[derive(Plain)]
#[repr(C)]
pub struct OutsideArea {
    ports: [[OutsidePort; PORTS]; MAX_CARDS],
    /// An eventfd by which processes tell the keeper that queue pairs have joined multicast groups or left some: its place among the
    /// descriptors of the net, plus one; 0: no port leads outside.
    news: AtomicU16,
}

impl OutsideArea {
    /// Notes a port, with the places of its descriptors among those of the net: by which programs send, and by which they receive
    /// if they poll.
    pub fn set(&self, port: PortId, setting: &Setting, senders: Range<usize>, receiver: Option<usize>) {
        self.ports[usize::from(port.card)][usize::from(port.port)].set(setting, senders, receiver);
    }

    /// Notes where that eventfd is among the descriptors of the net.
    pub fn set_news(&self, index: usize) {
        self.news.store(index as u16 + 1, Relaxed);
    }

    /// The eventfd by which the keeper is told of multicast groups that change, among the descriptors of the net, if a port leads
    /// outside.
    pub fn news(&self) -> Option<usize> {
        usize::from(self.news.load(Relaxed)).checked_sub(1)
    }

    /// Whether there is one whose medium is outside.
    pub fn any(&self) -> bool {
        self.ports.as_flattened().iter().any(|port| port.kind().is_some())
    }

    /// The port, if its medium is outside.
    #[inline]
    pub fn port(&self, port: PortId) -> Option<&OutsidePort> {
        let ports = self.ports.get(usize::from(port.card))?;
        ports.get(usize::from(port.port)).filter(|port| port.kind().is_some())
    }

    /// The port that a packet leaves the net by: what is for the port itself stays within the card.
    #[inline]
    pub fn leaving(&self, from: PortId, to: PortId) -> Option<&OutsidePort> {
        self.port(from).filter(|_| from != to)
    }
}
