//! Why a received frame is dropped.

use super::BthOpcode;

/// Why a received frame is not a packet of RoCE that the card can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DropReason {
    /// The frame ends within its headers.
    #[error("frame ends within {0}")]
    TooShort(&'static str),
    /// Neither IPv4 nor IPv6, nor RoCE version 1.
    #[error("EtherType 0x{0:04x}")]
    EtherType(u16),
    /// The IP version does not fit the EtherType.
    #[error("IP version {0} does not fit the EtherType")]
    IpVersion(u8),
    /// The IP length is less than its header or more than the frame.
    #[error("IP length does not fit the frame")]
    IpLength,
    /// IPv4 options, which RoCEv2 does not allow.
    #[error("IPv4 options")]
    IpOptions,
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    IpChecksum,
    /// A fragment.
    #[error("IPv4 fragment")]
    Fragment,
    /// Not UDP.
    #[error("IP protocol {0}")]
    Protocol(u8),
    /// Not RoCEv2's UDP port.
    #[error("UDP port {0}")]
    UdpPort(u16),
    /// The UDP length differs from what IP says.
    #[error("UDP length does not fit the IP length")]
    UdpLength,
    /// The ICRC is wrong: the packet was damaged.
    #[error("wrong ICRC")]
    Icrc,
    /// A transport header version other than 0.
    #[error("transport header version {0}")]
    TransportVersion(u8),
    /// An opcode that is reserved or of a transport that the card does not have.
    #[error("unknown BTH opcode {0}")]
    Opcode(BthOpcode),
    /// The payload with its pad is not a multiple of four, or shorter than its pad.
    #[error("payload length does not fit the pad count")]
    Pad,
    /// Payload after an opcode that has none.
    #[error("payload after {0}")]
    UnexpectedPayload(BthOpcode),
}
