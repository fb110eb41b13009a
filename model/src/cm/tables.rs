//! What the connection manager holds, as memory of the segment: tables of fixed capacity, where zero is free.

use super::address::Address;
use super::mad::Mad;
use crate::address::Guids;
use crate::device::{Device, PortSetting, Slots};
use crate::gids::GidTables;
use crate::packet::{PortId, MAX_CARDS, PORTS};
use crate::plain::{Flag, Plain};

/// Event channels of a net.
pub const CHANNELS: usize = 4096;
/// Identifiers of a net, connections that no program has seen yet included. They are used as 16-bit numbers.
pub const IDS: usize = 8192;
/// Events that no program has taken yet.
pub const EVENTS: usize = 8192;
/// Memberships in multicast groups.
pub const GROUPS: usize = 512;
/// Bytes of what an event says of its connection (`rdma_ucm_event_resp.param`).
pub const PARAM: usize = 304;

/// Response time-out that the manager asks of its peer, and gives: 4.096 us * 2^20, as Linux does.
pub const RESPONSE_TIMEOUT: u8 = 20;

/// How far an identifier is, for its program: the states of Linux' `rdma_cm_state`.
pub mod state {
    /// New.
    pub const IDLE: u8 = 0;
    /// Has an address and a port.
    pub const BOUND: u8 = 1;
    /// Knows its way to the destination.
    pub const RESOLVED: u8 = 2;
    /// Knows the path's properties too.
    pub const ROUTED: u8 = 3;
    /// Connecting, connected, or asked to.
    pub const CONNECT: u8 = 4;
    /// No longer connected.
    pub const DISCONNECT: u8 = 5;
    /// Takes requests.
    pub const LISTEN: u8 = 6;
    /// Waits until the destination has answered on the link.
    pub const QUERY: u8 = 7;
}

/// How far a connection is, by the messages exchanged: volume 1, 12.9.7.
pub mod comm {
    /// No message.
    pub const IDLE: u8 = 0;
    /// A REQ was sent.
    pub const REQ_SENT: u8 = 1;
    /// And its receiver asked for patience.
    pub const MRA_REQ_RCVD: u8 = 2;
    /// A REQ came.
    pub const REQ_RCVD: u8 = 3;
    /// A REP was sent.
    pub const REP_SENT: u8 = 4;
    /// And its receiver asked for patience.
    pub const MRA_REP_RCVD: u8 = 5;
    /// A REP came.
    pub const REP_RCVD: u8 = 6;
    /// Connected.
    pub const ESTABLISHED: u8 = 7;
    /// A DREQ was sent.
    pub const DREQ_SENT: u8 = 8;
    /// A DREQ came.
    pub const DREQ_RCVD: u8 = 9;
    /// Packets of the connection may still be on their way.
    pub const TIMEWAIT: u8 = 10;
    /// A SIDR_REQ was sent.
    pub const SIDR_REQ_SENT: u8 = 11;
    /// A SIDR_REQ came.
    pub const SIDR_REQ_RCVD: u8 = 12;
}

/// Kinds of QPs (`ibv_qp_type`).
pub mod qp_type {
    /// Reliable connection.
    pub const RC: u8 = 2;
    /// Unreliable connection.
    pub const UC: u8 = 3;
    /// Datagrams.
    pub const UD: u8 = 4;
}

/// An open event channel.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Channel {
    /// In use.
    pub used: Flag,
    /// May bind ports below 1024.
    pub privileged: Flag,
    /// The process that opened it.
    pub member: u16,
    /// Function of card 0 whose interrupt tells that process of events.
    pub function: u16,
}

/// The way of a connection's packets.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Way {
    /// There is one: the identifier has a port of a card.
    pub known: Flag,
    /// The own GID, of the port's table.
    pub sgid_index: u8,
    /// IP type of service.
    pub traffic_class: u8,
    /// Of the connection's packets: the UDP source port follows from it.
    pub flow_label: u32,
    /// The own port.
    pub from: PortId,
    /// The peer's.
    pub to: PortId,
    /// The peer's GID.
    pub dgid: [u8; 16],
}

impl Way {
    /// Whether packets that have come by the way `back` come from where this one leads: outside of the segment that is an
    /// address, within it a port.
    pub fn leads_to(&self, back: &Way) -> bool {
        let same = self.known.get() && (self.from, self.to) == (back.from, back.to);
        same && (self.to != PortId::NOBODY || self.dgid == back.dgid)
    }
}

/// An identifier, `rdma_cm_id`, with the connection that it names.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Id {
    /// In use.
    pub used: Flag,
    /// A connection that its program has not been told of.
    pub unseen: Flag,
    /// `state`.
    pub state: u8,
    /// `comm`.
    pub comm: u8,
    /// `qp_type`.
    pub qp_type: u8,
    /// `RDMA_OPTION_ID_TOS`.
    pub tos: u8,
    /// `RDMA_OPTION_ID_ACK_TIMEOUT`.
    pub ack_timeout: u8,
    /// The program said so.
    pub ack_timeout_set: Flag,
    /// How long a packet of its path lives: 4.096 us * 2^lifetime.
    pub lifetime: u8,
    /// `RDMA_OPTION_ID_REUSEADDR`.
    pub reuse: Flag,
    /// Only for addresses of its own family.
    pub afonly: Flag,
    /// The program said so.
    pub afonly_set: Flag,
    /// The QP has a shared receive queue.
    pub srq: Flag,
    /// The MTU, as in IB headers.
    pub mtu: u8,
    /// READs and atomics that the QP may have outstanding as a responder.
    pub responder_resources: u8,
    /// And as a requester.
    pub initiator_depth: u8,
    /// Retries of the QP.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
    /// `timeout` of the QP.
    pub qp_timeout: u8,
    /// How long it waits for an answer of its peer (ms).
    pub timeout: u32,
    /// Sent again so many times.
    pub tries: u8,
    /// At most.
    pub max_tries: u8,
    /// The channel of its events.
    pub channel: u16,
    /// `RDMA_PS_...`.
    pub space: u16,
    /// Grows with each use of the place.
    pub generation: u32,
    /// Events that its program has taken.
    pub reported: u32,
    /// Of a listener: connections that may wait.
    pub backlog: u32,
    /// The program's name for it.
    pub uid: u64,
    /// Own address.
    pub source: Address,
    /// The peer's.
    pub destination: Address,
    /// Where packets go.
    pub way: Way,
    /// PSN at which the peer starts.
    pub rq_psn: u32,
    /// PSN at which the own QP starts.
    pub sq_psn: u32,
    /// Own QP.
    pub qpn: u32,
    /// The peer's.
    pub remote_qpn: u32,
    /// Q_Key of datagrams; 0: not chosen yet.
    pub qkey: u32,
    /// The peer's card.
    pub remote_guid: u64,
    /// Of the message that the next reply answers.
    pub transaction: u64,
    /// The service that it asked for, or that was asked for.
    pub service: u64,
    /// How long it waits for an answer (ns).
    pub patience: u64,
    /// The message that was sent last.
    pub message: Mad,
}

/// An event that waits for its program.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Queued {
    /// Its turn; 0: the place is free.
    pub turn: u64,
    /// Of this channel.
    pub channel: u16,
    /// About this identifier, which counts it.
    pub id: u16,
    /// The connection that it brings, or 0.
    pub new: u16,
    /// The membership that it is about, or 0.
    pub group: u16,
    /// `RDMA_CM_EVENT_...`.
    pub kind: u32,
    /// An errno value, negative, or a reason.
    pub status: i32,
}

/// A membership in a multicast group.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Group {
    /// In use.
    pub used: Flag,
    /// Of this identifier.
    pub id: u16,
    /// Events that the program has taken.
    pub reported: u32,
    /// The program's name for it.
    pub uid: u64,
}

/// The connection manager of a net. Zero bytes are one that nobody has used.
#[derive(Plain)]
#[repr(C)]
pub struct Cm {
    /// Events so far.
    pub turn: u64,
    /// Response time-out that is asked for, less than [`RESPONSE_TIMEOUT`] by this.
    pub hurry: u8,
    /// In the names of connections.
    pub salt: u32,
    /// No identifier stops waiting earlier (ns); 0: none waits. Read without the cards.
    pub soonest: u64,
    /// Next port to try where a program leaves the choice.
    pub next_port: u16,
    /// PSN of each port's QP 1.
    pub psn: [[u32; PORTS]; MAX_CARDS],
    /// Places in use.
    pub slots: Places,
    /// Places of channels.
    pub channels: [Channel; CHANNELS],
    /// By identifier: port space and port, 0 for none.
    pub bound: [u32; IDS],
    /// By identifier: the peer's name of the connection.
    pub remote: [u32; IDS],
    /// By identifier: when it stops waiting (ns), 0 for never.
    pub deadline: [u64; IDS],
    /// Identifiers; place 0 is not used.
    pub ids: [Id; IDS],
    /// Events that wait.
    pub queue: [Queued; EVENTS],
    /// And what they say.
    pub params: [[u8; PARAM]; EVENTS],
    /// Memberships; place 0 is not used.
    pub groups: [Group; GROUPS],
}

impl Cm {
    /// Ports that programs listen on.
    pub fn listening(&self) -> Vec<u16> {
        let listens = |&slot: &usize| self.ids[slot].used.get() && self.ids[slot].state == state::LISTEN;
        self.slots.ids.range().filter(listens).map(|slot| self.bound[slot] as u16).collect()
    }
}

/// Which places of each table may be in use.
#[derive(Clone, Copy, Default, Plain)]
#[repr(C)]
pub struct Places {
    /// Channels.
    pub channels: Slots<CHANNELS>,
    /// Identifiers.
    pub ids: Slots<IDS>,
    /// Events.
    pub events: Slots<EVENTS>,
    /// Memberships.
    pub groups: Slots<GROUPS>,
}

/// Which ports lead outside of the segment: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutsidePorts(pub u32);

impl OutsidePorts {
    fn bit(port: PortId) -> Option<u32> {
        let here = usize::from(port.card) < MAX_CARDS && usize::from(port.port) < PORTS;
        here.then(|| 1 << (usize::from(port.card) * PORTS + usize::from(port.port)))
    }

    /// With this one.
    pub fn insert(&mut self, port: PortId) {
        self.0 |= OutsidePorts::bit(port).unwrap_or(0);
    }

    /// Whether it is one of them.
    pub fn contains(self, port: PortId) -> bool {
        OutsidePorts::bit(port).is_some_and(|bit| self.0 & bit != 0)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = PortId> {
        let port = |bit: usize| PortId { card: (bit / PORTS) as u16, port: (bit % PORTS) as u8 };
        (0..MAX_CARDS * PORTS).map(port).filter(move |&port| self.contains(port))
    }
}

/// The manager at work: its state, and what is around it.
pub struct Manager<'a, E> {
    /// The state.
    pub cm: &'a mut Cm,
    /// Cards of the net.
    pub cards: u16,
    /// Those of them whose ports count what leaves.
    pub devices: &'a [Device],
    /// GUIDs of the cards.
    pub guids: Guids,
    /// GIDs of their ports.
    pub gids: &'a GidTables,
    /// How their ports are set.
    pub port: PortSetting,
    /// Ports whose medium is outside of the segment.
    pub outside: OutsidePorts,
    /// What the cards run in.
    pub env: &'a mut E,
}
