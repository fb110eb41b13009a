//! What travels between two cards inside a segment: a run of consecutive packets of one message.
//!
//! A [`Packet`] with `count == 1` is exactly one packet of RoCE. A larger `count` is a *train*: that
//! many consecutive packets of one message, full MTU each but the last, handed over as one (as
//! segmentation offload does between a kernel and its NIC). Ports that leave the machine, capture
//! and fault injection split trains; nothing else may depend on how a message was cut.
#![allow(unsafe_code)]

use crate::dma::{Addr, Pages};
use crate::encapsulation::Encapsulation;
use crate::plain::{Checked, Plain};
use crate::wire::opcode::CNP_RESERVED;
use crate::wire::{psn, Aeth, AtomicAckEth, AtomicEth, Deth, Ieth, Reth, Xrceth};
use crate::wire::{BthOpcode, Extra, Operation, Position, Syndrome, Transport};

/// Where the payload of a packet is until it is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Payload {
    /// No payload.
    None,
    /// In the sender's memory, one contiguous range (read at delivery; the sender's WQE is not
    /// complete before, of whatever transport).
    Memory(Addr, u32),
    /// Gathered by [`Env::gather`](crate::env::Env::gather).
    Stash(u32, u32),
    /// In the sender's memory as `Memory`, so many bytes of pages ([`Env::TAKES_PAGES`](crate::env::Env::TAKES_PAGES)).
    Pages(u32, Pages),
}

impl Payload {
    /// Bytes.
    pub fn len(&self) -> usize {
        match *self {
            Payload::None => 0,
            Payload::Memory(_, n) | Payload::Stash(_, n) | Payload::Pages(n, _) => n as usize,
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
            Payload::Pages(len, pages) => {
                let from = pages.from + n as u64;
                (Payload::Pages(len.saturating_sub(n as u32), Pages { from, ..pages }), 0)
            }
            other => (other, n),
        }
    }
}

/// ECN code point of a packet that met congestion (RFC 3168).
pub const CONGESTION: u8 = 3;
/// ECN code point of one that has not, and can say so.
pub const NOT_CONGESTED: u8 = 2;

/// Ports of a card.
pub const PORTS: usize = 2;

/// Most cards of a segment that processes share.
pub const MAX_CARDS: usize = 16;

/// Most cards of a net in one process, as `verbena sim` plays them.
pub const MOST_CARDS: usize = 4096;

/// A card's port on the segment's wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Plain)]
#[repr(C)]
pub struct PortId {
    /// Card, from 0.
    pub card: u16,
    /// Port, from 0.
    pub port: u8,
}

impl PortId {
    /// Every port of the segment (a multicast destination).
    pub const ALL: PortId = PortId { card: 0xffff, port: 0xff };
    /// No port: a MAC address of no card.
    pub const NOBODY: PortId = PortId { card: 0xfffe, port: 0xfe };

    /// All ports of so many cards.
    pub fn of_cards(cards: u16) -> impl Iterator<Item = PortId> {
        (0..cards).flat_map(|card| (0..PORTS as u8).map(move |port| PortId { card, port }))
    }

    /// The MAC address of this port: 02:56:42:00:card:port. The port is the last bit; the seven above it are the card's number
    /// from 256 on.
    pub fn mac(self) -> [u8; 6] {
        let [high, low] = self.card.to_be_bytes();
        [2, 0x56, 0x42, 0, low, high << 1 | self.port]
    }

    /// The port that has a MAC address, if the address is one of a segment's cards.
    pub fn from_mac(mac: [u8; 6]) -> PortId {
        match mac {
            [2, 0x56, 0x42, 0, low, last] if usize::from(last >> 1) << 8 < MOST_CARDS => {
                PortId { card: u16::from_be_bytes([last >> 1, low]), port: last & 1 }
            }
            [0x33, 0x33, ..] | [0x01, 0, 0x5e, ..] | [0xff, ..] => PortId::ALL,
            _ => PortId::NOBODY,
        }
    }
}

/// One packet or a train of them. See the module.
#[derive(Clone, Copy, Debug, Checked)]
pub struct Packet {
    /// Transport service.
    pub transport: Transport,
    /// Operation; with the transport, `first`, `last` and `extra` it gives the BTH opcode (IB spec 9.2.1).
    pub operation: Operation,
    /// The (first) packet is the first of its message.
    pub first: bool,
    /// The (last) packet is the last of its message.
    pub last: bool,
    /// BTH AckReq of the last packet.
    pub ack_req: bool,
    /// BTH SE.
    pub solicited: bool,
    /// Its version of RoCE and of IP, and its tag.
    pub encapsulation: Encapsulation,
    /// ImmDt or IETH in the last packet.
    pub extra: Extra,
    /// AETH syndrome (ACK, READ response first/last/only, atomic acknowledge).
    pub syndrome: Syndrome,
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
    /// XRCETH shared receive queue (24 bits; requests of XRC).
    pub srqn: u32,
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
    /// IP traffic class (UD).
    pub traffic_class: u8,
    /// IP hop limit (UD).
    pub hop_limit: u8,
    /// Explicit congestion notification: 0, or the code point that its IP header has instead of its traffic class's.
    pub ecn: u8,
    /// Source GID (UD: the source address of the GRH).
    pub sgid: [u8; 16],
    /// Destination GID (UD).
    pub dgid: [u8; 16],
    /// In a NAK of a sequence error: so many packets are missing, and what followed is kept; 0: nothing is. See
    /// [`crate::wire::Bth::missing`].
    pub missing: u8,
    /// The payload came with the WQE: it need not be fetched.
    pub inline: bool,
    /// Payload.
    pub payload: Payload,
}

impl Packet {
    /// A packet without payload or extension headers, without source and destination.
    pub const BLANK: Packet = Packet {
        transport: Transport::RC,
        operation: Operation::Acknowledge,
        first: true,
        last: true,
        ack_req: false,
        solicited: false,
        encapsulation: Encapsulation::UDP_IPV4,
        extra: Extra::None,
        syndrome: Syndrome(0),
        src: PortId::NOBODY,
        dst: PortId::NOBODY,
        dest_qpn: 0,
        src_qpn: 0,
        psn: 0,
        count: 1,
        imm: 0,
        qkey: 0,
        srqn: 0,
        msn: 0,
        rkey: 0,
        va: 0,
        dma_len: 0,
        swap_add: 0,
        compare: 0,
        traffic_class: 0,
        hop_limit: 0,
        ecn: 0,
        sgid: [0; 16],
        dgid: [0; 16],
        missing: 0,
        inline: false,
        payload: Payload::None,
    };

    /// Bytes of the frames from the Ethernet header to the ICRC, with padding, without FCS; `payload` is
    /// the payload's length.
    #[inline(always)]
    pub fn wire_bytes(&self, payload: u32) -> u64 {
        let once = match self.operation {
            Operation::Send if self.transport == Transport::UD => Deth::BYTES,
            Operation::Write if self.first => Reth::BYTES,
            Operation::ReadRequest => Reth::BYTES,
            Operation::CompareSwap | Operation::FetchAdd => AtomicEth::BYTES,
            // The first and the last one have an AETH.
            Operation::ReadResponse if self.count == 1 => Aeth::BYTES * usize::from(self.first || self.last),
            Operation::ReadResponse => Aeth::BYTES * (usize::from(self.first) + usize::from(self.last)),
            Operation::Acknowledge => Aeth::BYTES,
            Operation::AtomicAcknowledge => Aeth::BYTES + AtomicAckEth::BYTES,
            Operation::CongestionNotification => CNP_RESERVED,
            _ => 0,
        };
        let extra = if self.extra == Extra::None { 0 } else { Ieth::BYTES };
        let payload = (payload as u64 + 3) & !3;
        let mut each = self.encapsulation.overhead();
        if self.transport == Transport::XRC && !self.is_answer() {
            each += Xrceth::BYTES as u64;
        }
        self.count as u64 * each + (once + extra) as u64 + payload
    }

    /// Whether the responder side of a QP sends it.
    #[inline(always)]
    pub const fn is_answer(&self) -> bool {
        matches!(
            self.operation,
            Operation::Acknowledge | Operation::ReadResponse | Operation::AtomicAcknowledge
        )
    }

    /// Whether it is a whole Ethernet frame, all of which is its payload. No packet of RoCE is of this transport.
    #[inline(always)]
    pub const fn is_frame(&self) -> bool {
        self.transport.0 == Transport::RD.0
    }

    /// Whether it tells of congestion, and nothing else.
    #[inline(always)]
    pub fn is_notification(&self) -> bool {
        self.operation == Operation::CongestionNotification
    }

    /// The BTH opcode of a single packet.
    pub fn opcode(&self) -> BthOpcode {
        let position = Position::new(self.first, self.last);
        BthOpcode::new(self.transport, self.operation, position, self.extra)
    }

    /// A train becomes its packet `n`, from 0. Fields that its frame has no header for are zero. The payload remains
    /// the train's.
    pub fn become_nth(&mut self, n: u32) {
        let end = n + 1 == self.count;
        self.psn = psn::add(self.psn, n);
        self.count = 1;
        self.first &= n == 0;
        self.last &= end;
        self.ack_req &= end;
        self.solicited &= self.last;
        if !self.last {
            self.extra = Extra::None;
        }
        let opcode = self.opcode();
        if self.extra == Extra::None {
            self.imm = 0;
        }
        if !opcode.has_aeth() {
            self.syndrome = Syndrome(0);
            self.msn = 0;
        }
        if !opcode.has_reth() {
            self.dma_len = 0;
            if !opcode.has_atomic_eth() {
                self.va = 0;
                self.rkey = 0;
            }
        }
    }
}

// SAFETY: a `repr(u32)` begins with the number of its variant, of which shared memory has three (not `Pages`); the rest is
// integers.
unsafe impl Checked for Payload {
    #[inline(always)]
    unsafe fn is_one(at: *const Payload) -> bool {
        // SAFETY: as the caller promises.
        unsafe { at.cast::<u32>().read() <= 2 }
    }
}
