//! BTH opcodes (table 38): the transport in the upper three bits, the operation in the lower
//! five, and which headers follow.

use std::fmt;

use super::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Ieth, ImmDt, Reth, Xrceth};
use super::{Extra, Operation, Position, Transport};

/// Opcode of a base transport header. Any byte is a value; [`BthOpcode::is_known`] says whether
/// the model can make sense of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct BthOpcode(pub u8);

const FIRST: u16 = 1 << 0;
const MIDDLE: u16 = 1 << 1;
const LAST: u16 = 1 << 2;
const ONLY: u16 = 1 << 3;
const DETH: u16 = 1 << 4;
const RETH: u16 = 1 << 5;
const ATOMIC_ETH: u16 = 1 << 6;
const AETH: u16 = 1 << 7;
const ATOMIC_ACK_ETH: u16 = 1 << 8;
const IMM: u16 = 1 << 9;
const IETH: u16 = 1 << 10;
const PAYLOAD: u16 = 1 << 11;
const RESPONSE: u16 = 1 << 12;
const XRCETH: u16 = 1 << 13;
const NOTIFICATION: u16 = 1 << 14;

/// Bytes of a CNP between its BTH and its ICRC: reserved, zero (A17.9.3).
pub(crate) const CNP_RESERVED: usize = 16;

/// The operations of RC in the order of their numbers, and their flags.
const OPERATIONS: [(&str, u16); 24] = [
    ("SEND_FIRST", FIRST | PAYLOAD),
    ("SEND_MIDDLE", MIDDLE | PAYLOAD),
    ("SEND_LAST", LAST | PAYLOAD),
    ("SEND_LAST_WITH_IMM", LAST | IMM | PAYLOAD),
    ("SEND_ONLY", ONLY | PAYLOAD),
    ("SEND_ONLY_WITH_IMM", ONLY | IMM | PAYLOAD),
    ("WRITE_FIRST", FIRST | RETH | PAYLOAD),
    ("WRITE_MIDDLE", MIDDLE | PAYLOAD),
    ("WRITE_LAST", LAST | PAYLOAD),
    ("WRITE_LAST_WITH_IMM", LAST | IMM | PAYLOAD),
    ("WRITE_ONLY", ONLY | RETH | PAYLOAD),
    ("WRITE_ONLY_WITH_IMM", ONLY | RETH | IMM | PAYLOAD),
    ("READ_REQUEST", ONLY | RETH),
    ("READ_RESPONSE_FIRST", FIRST | AETH | PAYLOAD | RESPONSE),
    ("READ_RESPONSE_MIDDLE", MIDDLE | PAYLOAD | RESPONSE),
    ("READ_RESPONSE_LAST", LAST | AETH | PAYLOAD | RESPONSE),
    ("READ_RESPONSE_ONLY", ONLY | AETH | PAYLOAD | RESPONSE),
    ("ACKNOWLEDGE", ONLY | AETH | RESPONSE),
    ("ATOMIC_ACKNOWLEDGE", ONLY | AETH | ATOMIC_ACK_ETH | RESPONSE),
    ("COMPARE_SWAP", ONLY | ATOMIC_ETH),
    ("FETCH_ADD", ONLY | ATOMIC_ETH),
    ("RESERVED", 0),
    ("SEND_LAST_WITH_INV", LAST | IETH | PAYLOAD),
    ("SEND_ONLY_WITH_INV", ONLY | IETH | PAYLOAD),
];

const fn flags_of(opcode: u8) -> u16 {
    let operation = opcode & 0x1f;
    let flags = match (operation as usize) < OPERATIONS.len() {
        true => OPERATIONS[operation as usize].1,
        false => 0,
    };
    match Transport(opcode >> 5) {
        Transport::RC => flags,
        Transport::XRC if flags == 0 || flags & RESPONSE != 0 => flags,
        Transport::XRC => flags | XRCETH,
        Transport::UC if operation <= 0x0b => flags,
        Transport::UD if operation == 0x04 || operation == 0x05 => flags | DETH,
        _ if opcode == BthOpcode::CNP.0 => ONLY | RESPONSE | NOTIFICATION,
        _ => 0,
    }
}

const fn length_of(flags: u16) -> u8 {
    let parts = [
        (DETH, Deth::BYTES),
        (XRCETH, Xrceth::BYTES),
        (RETH, Reth::BYTES),
        (ATOMIC_ETH, AtomicEth::BYTES),
        (AETH, Aeth::BYTES),
        (ATOMIC_ACK_ETH, AtomicAckEth::BYTES),
        (IMM, ImmDt::BYTES),
        (IETH, Ieth::BYTES),
        (NOTIFICATION, CNP_RESERVED),
    ];
    let mut length = Bth::BYTES;
    let mut i = 0;
    while i < parts.len() {
        if flags & parts[i].0 != 0 {
            length += parts[i].1;
        }
        i += 1;
    }
    length as u8
}

/// Flags and length of BTH with extended headers, by opcode.
static TABLE: [(u16, u8); 256] = {
    let mut table = [(0, 0); 256];
    let mut opcode = 0;
    while opcode < table.len() {
        let flags = flags_of(opcode as u8);
        table[opcode] = (flags, length_of(flags));
        opcode += 1;
    }
    table
};

impl BthOpcode {
    /// RC READ request.
    pub const RC_READ_REQUEST: Self = Self(0x0c);
    /// RC acknowledgement.
    pub const RC_ACKNOWLEDGE: Self = Self(0x11);
    /// RC response to an atomic operation.
    pub const RC_ATOMIC_ACKNOWLEDGE: Self = Self(0x12);
    /// RC compare and swap.
    pub const RC_COMPARE_SWAP: Self = Self(0x13);
    /// RC fetch and add.
    pub const RC_FETCH_ADD: Self = Self(0x14);
    /// UD SEND.
    pub const UD_SEND_ONLY: Self = Self(0x64);
    /// Congestion notification packet (annex A17.9.3).
    pub const CNP: Self = Self(0x81);

    /// The opcode of a packet; `extra` is ignored unless the packet is the last of a SEND or WRITE.
    #[inline]
    pub fn new(transport: Transport, operation: Operation, position: Position, extra: Extra) -> Self {
        match operation {
            Operation::Send => Self::send(transport, position, extra),
            Operation::Write => Self::write(transport, position, extra == Extra::Immediate),
            Operation::ReadRequest => Self::RC_READ_REQUEST.of(transport),
            Operation::ReadResponse => Self::read_response(position).of(transport),
            Operation::CompareSwap => Self::RC_COMPARE_SWAP.of(transport),
            Operation::FetchAdd => Self::RC_FETCH_ADD.of(transport),
            Operation::AtomicAcknowledge => Self::RC_ATOMIC_ACKNOWLEDGE.of(transport),
            Operation::Acknowledge => Self::RC_ACKNOWLEDGE.of(transport),
            Operation::CongestionNotification => Self::CNP,
        }
    }

    /// The same operation of RC or XRC.
    #[inline]
    const fn of(self, transport: Transport) -> Self {
        Self(transport.0 << 5 | self.0 & 0x1f)
    }

    /// A packet of a SEND. `extra` counts in the last packet only.
    #[inline]
    pub const fn send(transport: Transport, position: Position, extra: Extra) -> Self {
        let operation = match (position, extra) {
            (Position::First, _) => 0x00,
            (Position::Middle, _) => 0x01,
            (Position::Last, Extra::None) => 0x02,
            (Position::Last, Extra::Immediate) => 0x03,
            (Position::Last, Extra::Invalidate) => 0x16,
            (Position::Only, Extra::None) => 0x04,
            (Position::Only, Extra::Immediate) => 0x05,
            (Position::Only, Extra::Invalidate) => 0x17,
        };
        Self(transport.0 << 5 | operation)
    }

    /// A packet of a WRITE. `immediate` counts in the last packet only.
    #[inline]
    pub const fn write(transport: Transport, position: Position, immediate: bool) -> Self {
        let operation = match (position, immediate) {
            (Position::First, _) => 0x06,
            (Position::Middle, _) => 0x07,
            (Position::Last, false) => 0x08,
            (Position::Last, true) => 0x09,
            (Position::Only, false) => 0x0a,
            (Position::Only, true) => 0x0b,
        };
        Self(transport.0 << 5 | operation)
    }

    /// A packet of the response to an RC READ.
    #[inline]
    pub const fn read_response(position: Position) -> Self {
        Self(match position {
            Position::First => 0x0d,
            Position::Middle => 0x0e,
            Position::Last => 0x0f,
            Position::Only => 0x10,
        })
    }

    #[inline(always)]
    fn has(self, flags: u16) -> bool {
        TABLE[usize::from(self.0)].0 & flags != 0
    }

    /// The transport service.
    #[inline]
    pub const fn transport(self) -> Transport {
        Transport(self.0 >> 5)
    }

    /// The operation, if the opcode is known.
    #[inline]
    pub fn operation(self) -> Option<Operation> {
        if !self.is_known() {
            return None;
        }
        if self.is_notification() {
            return Some(Operation::CongestionNotification);
        }
        match self.0 & 0x1f {
            0x00..=0x05 | 0x16 | 0x17 => Some(Operation::Send),
            0x06..=0x0b => Some(Operation::Write),
            0x0c => Some(Operation::ReadRequest),
            0x0d..=0x10 => Some(Operation::ReadResponse),
            0x11 => Some(Operation::Acknowledge),
            0x12 => Some(Operation::AtomicAcknowledge),
            0x13 => Some(Operation::CompareSwap),
            0x14 => Some(Operation::FetchAdd),
            _ => None,
        }
    }

    /// Whether this is an opcode of RC, UC, UD or XRC.
    #[inline]
    pub fn is_known(self) -> bool {
        TABLE[usize::from(self.0)].0 != 0
    }

    /// Bytes of the BTH and the extended headers.
    #[inline]
    pub fn header_len(self) -> usize {
        usize::from(TABLE[usize::from(self.0)].1)
    }
}

macro_rules! predicates {
    ($($(#[doc = $doc:literal])+ $name:ident: $flags:expr,)+) => {
        impl BthOpcode {$(
            $(#[doc = $doc])+
            #[inline]
            pub fn $name(self) -> bool {
                self.has($flags)
            }
        )+}
    };
}

predicates! {
    /// First of several packets.
    is_first: FIRST,
    /// Neither first nor last.
    is_middle: MIDDLE,
    /// Last of several packets.
    is_last: LAST,
    /// The only packet of its message.
    is_only: ONLY,
    /// First or only.
    starts_message: FIRST | ONLY,
    /// Last or only.
    ends_message: LAST | ONLY,
    /// Goes from responder to requester.
    is_response: RESPONSE,
    /// A datagram header follows.
    has_deth: DETH,
    /// An XRC header follows.
    has_xrceth: XRCETH,
    /// An RDMA header follows.
    has_reth: RETH,
    /// An atomic header follows.
    has_atomic_eth: ATOMIC_ETH,
    /// An acknowledgement header follows.
    has_aeth: AETH,
    /// An atomic acknowledgement header follows.
    has_atomic_ack_eth: ATOMIC_ACK_ETH,
    /// Immediate data follows.
    has_imm: IMM,
    /// A key to invalidate follows.
    has_ieth: IETH,
    /// A congestion notification.
    is_notification: NOTIFICATION,
    /// May carry payload.
    has_payload: PAYLOAD,
}

impl fmt::Display for BthOpcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::CNP {
            f.write_str("CNP")
        } else if self.is_known() {
            let (name, _) = OPERATIONS[usize::from(self.0 & 0x1f)];
            write!(f, "{}_{name}", self.transport())
        } else {
            write!(f, "0x{:02x}", self.0)
        }
    }
}

#[cfg(test)]
#[path = "opcode_tests.rs"]
mod tests;
