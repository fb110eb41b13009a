//! What a BTH opcode is made of: transport, operation, position in the message, extra.
#![allow(unsafe_code)]

use std::fmt;

use crate::plain::{Checked, Plain};

/// Transport service: the upper three bits of an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Plain)]
pub struct Transport(pub u8);

impl Transport {
    /// Reliable connection.
    pub const RC: Self = Self(0);
    /// Unreliable connection.
    pub const UC: Self = Self(1);
    /// Reliable datagram.
    pub const RD: Self = Self(2);
    /// Unreliable datagram.
    pub const UD: Self = Self(3);
    /// Congestion notification.
    pub const CNP: Self = Self(4);
    /// Extended reliable connection.
    pub const XRC: Self = Self(5);

    /// Whether requests are answered: RC and XRC, of those that the model has.
    #[inline(always)]
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::RC | Self::XRC)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RC => f.write_str("RC"),
            Self::UC => f.write_str("UC"),
            Self::RD => f.write_str("RD"),
            Self::UD => f.write_str("UD"),
            Self::CNP => f.write_str("CNP"),
            Self::XRC => f.write_str("XRC"),
            Self(other) => write!(f, "transport {other}"),
        }
    }
}

/// What a packet is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Checked)]
#[repr(u8)]
pub enum Operation {
    /// SEND, with or without immediate data or invalidation.
    Send,
    /// RDMA WRITE, with or without immediate data.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledgement, positive or negative.
    Acknowledge,
    /// Response to an atomic operation.
    AtomicAcknowledge,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// Notification that packets of the opposite direction met congestion (CNP).
    CongestionNotification,
}

/// The place of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Position {
    /// From "nothing before it" and "nothing after it".
    #[inline]
    pub const fn new(first: bool, last: bool) -> Self {
        match (first, last) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }
}

/// What the last packet of a SEND carries besides data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Checked)]
#[repr(u8)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// Immediate data.
    Immediate,
    /// A key to invalidate.
    Invalidate,
}
