//! What travels between two cards inside a segment: a run of consecutive packets of one message.
//!
//! A [`Packet`] with `count == 1` is exactly one RoCEv2 packet. A larger `count` is a *train*: that
//! many consecutive packets of one message, full MTU each but the last, handed over as one (as
//! segmentation offload does between a kernel and its NIC). Ports that leave the machine, capture
//! and fault injection split trains; nothing else may depend on how a message was cut.

use crate::dma::Addr;
use crate::plain::plain;

/// The operation that a packet belongs to, with its place in the message given by
/// [`Packet::first`] and [`Packet::last`]. Together they are the BTH opcode (IB spec 9.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// SEND, with or without immediate data or invalidate.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// CmpSwap request.
    CompareSwap,
    /// FetchAdd request.
    FetchAdd,
    /// Atomic acknowledge.
    AtomicAck,
    /// Acknowledge (ACK, NAK or RNR NAK by its syndrome).
    Ack,
}

/// The transport service of the packet (BTH opcode bits 7..5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// What a SEND or WRITE carries in its last packet beside the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Extra {
    /// Nothing.
    None,
    /// Immediate data (ImmDt).
    Immediate,
    /// An R_Key to invalidate (IETH).
    Invalidate,
}

/// Where the payload of a packet lies until it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Payload {
    /// No payload.
    None,
    /// In the sender's memory, one contiguous range (read at delivery; the sender's WQE is not
    /// complete before, of whatever transport).
    Memory(Addr, u32),
    /// Gathered by [`Env::stash`](crate::env::Env::stash).
    Stash(u32, u32),
}

impl Payload {
    /// Bytes.
    pub fn len(&self) -> usize {
        match *self {
            Payload::None => 0,
            Payload::Memory(_, n) | Payload::Stash(_, n) => n as usize,
        }
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload from byte `n` on.
    pub fn skip(&self, n: usize) -> (Payload, usize) {
        match *self {
            Payload::Memory(a, len) => (Payload::Memory(a.add(n as u64), len.saturating_sub(n as u32)), 0),
            other => (other, n),
        }
    }
}

/// Ports of a card.
pub const PORTS: usize = 2;

/// A card's port on the segment's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct PortId {
    /// Card, from 0.
    pub card: u8,
    /// Port, from 0.
    pub port: u8,
}

impl PortId {
    /// Every port of the segment (a multicast destination).
    pub const ALL: PortId = PortId { card: 0xff, port: 0xff };
    /// No port: a MAC address that nobody has.
    pub const NOBODY: PortId = PortId { card: 0xfe, port: 0xfe };

    /// The MAC address of this port: 02:56:42:00:card:port.
    pub fn mac(self) -> [u8; 6] {
        [2, 0x56, 0x42, 0, self.card, self.port]
    }

    /// The port that has a MAC address, if the address is one of a segment's cards.
    pub fn from_mac(mac: [u8; 6]) -> PortId {
        match mac {
            [2, 0x56, 0x42, 0, card, port] if card < 0xfe => PortId { card, port },
            [0x33, 0x33, ..] | [0x01, 0, 0x5e, ..] | [0xff, ..] => PortId::ALL,
            _ => PortId::NOBODY,
        }
    }
}

/// One packet or a train of them. See the module.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Transport service.
    pub transport: Transport,
    /// Operation.
    pub kind: Kind,
    /// The (first) packet is the first of its message.
    pub first: bool,
    /// The (last) packet is the last of its message.
    pub last: bool,
    /// BTH AckReq of the last packet.
    pub ack_req: bool,
    /// BTH SE.
    pub solicited: bool,
    /// Carried by IPv6 instead of IPv4.
    pub ipv6: bool,
    /// ImmDt or IETH in the last packet.
    pub extra: Extra,
    /// AETH syndrome (ACK, READ response first/last/only, atomic acknowledge).
    pub syndrome: u8,
    /// From.
    pub src: PortId,
    /// To.
    pub dst: PortId,
    /// BTH destination QP (24 bits).
    pub dest_qpn: u32,
    /// Source QP: DETH for UD; known from the connection otherwise.
    pub src_qpn: u32,
    /// BTH PSN of the first packet (24 bits).
    pub psn: u32,
    /// Packets in this train, at least 1.
    pub count: u32,
    /// Immediate data (wire bits) or the key to invalidate.
    pub imm: u32,
    /// DETH Q_Key.
    pub qkey: u32,
    /// AETH MSN (24 bits).
    pub msn: u32,
    /// RETH/AtomicETH R_Key.
    pub rkey: u32,
    /// RETH/AtomicETH virtual address.
    pub va: u64,
    /// RETH DMA length.
    pub dma_len: u32,
    /// AtomicETH swap or add.
    pub swap_add: u64,
    /// AtomicETH compare; AtomicAckETH original value.
    pub compare: u64,
    /// Sender's GID index (UD: the source address of the GRH).
    pub sgid_index: u8,
    /// IP traffic class (UD).
    pub traffic_class: u8,
    /// IP hop limit (UD).
    pub hop_limit: u8,
    /// Destination GID (UD).
    pub dgid: [u8; 16],
    /// The payload came with the WQE: it need not be fetched.
    pub inline: bool,
    /// Payload.
    pub payload: Payload,
}

impl Packet {
    /// A packet without payload or extension headers, from nobody to nobody.
    pub const BLANK: Packet = Packet {
        transport: Transport::Rc,
        kind: Kind::Ack,
        first: true,
        last: true,
        ack_req: false,
        solicited: false,
        ipv6: false,
        extra: Extra::None,
        syndrome: 0,
        src: PortId::NOBODY,
        dst: PortId::NOBODY,
        dest_qpn: 0,
        src_qpn: 0,
        psn: 0,
        count: 1,
        imm: 0,
        qkey: 0,
        msn: 0,
        rkey: 0,
        va: 0,
        dma_len: 0,
        swap_add: 0,
        compare: 0,
        sgid_index: 0,
        traffic_class: 0,
        hop_limit: 0,
        dgid: [0; 16],
        inline: false,
        payload: Payload::None,
    };

    /// Bytes of the frames from the Ethernet header to the ICRC, with padding, without FCS; `payload` is
    /// the payload's length.
    #[inline(always)]
    pub fn wire_bytes(&self, payload: u32) -> u64 {
        // Ethernet 14, IP 20 or 40, UDP 8, BTH 12, ICRC 4.
        let each = if self.ipv6 { 78 } else { 58 };
        let once = match self.kind {
            Kind::Send if self.transport == Transport::Ud => 8,
            Kind::Write if self.first => 16,
            Kind::ReadRequest => 16,
            Kind::CompareSwap | Kind::FetchAdd => 28,
            // The first and the last one have an AETH.
            Kind::ReadResponse if self.count == 1 => 4 * u64::from(self.first || self.last),
            Kind::ReadResponse => 4 * (u64::from(self.first) + u64::from(self.last)),
            Kind::Ack => 4,
            Kind::AtomicAck => 12,
            _ => 0,
        };
        let extra = if self.extra == Extra::None { 0 } else { 4 };
        let payload = (payload as u64 + 3) & !3;
        self.count as u64 * each + once + extra + payload
    }
}

/// AETH syndromes (IB spec 9.7.5.1.2).
pub mod aeth {
    /// ACK without end-to-end credits (credit count 31: invalid).
    pub const ACK: u8 = 0x1f;
    /// RNR NAK; the low five bits are the timer code.
    pub const RNR: u8 = 0x20;
    /// NAK: PSN sequence error.
    pub const NAK_SEQUENCE: u8 = 0x60;
    /// NAK: invalid request.
    pub const NAK_INVALID_REQUEST: u8 = 0x61;
    /// NAK: remote access error.
    pub const NAK_ACCESS: u8 = 0x62;
    /// NAK: remote operational error.
    pub const NAK_OPERATION: u8 = 0x63;
}

plain! {
    PortId { card, port }
}
