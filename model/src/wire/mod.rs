//! RoCEv2 on the wire: its headers, and [`frame`] that puts them together.
//!
//! Every header is a plain `Copy` struct whose `decode` takes an array of exactly its size
//! and whose `encode` fills one, so a length is checked once, where the array is cut off the
//! frame. Field names are those of the InfiniBand specification, volume 1, chapter 9 (annex
//! A17 for RoCEv2). Reserved bits are sent as zero and ignored on receipt.
//!
//! | file | one idea |
//! |---|---|
//! | [`frame`], [`headers`], [`path`] | a whole frame; its transport headers; its Ethernet and IP addresses |
//! | [`ethernet`], [`ipv4`], [`ipv6`], [`udp`] | the headers of the network |
//! | [`arp`], [`ndp`] | which Ethernet address an IP address has |
//! | [`membership`] | who receives a multicast group: IGMP and MLD |
//! | [`bth`], [`extended_headers`] | the headers of the transport |
//! | [`sum`], [`checksum`], [`segments`], [`virtio_net`] | the Internet checksum; those of IPv4, TCP and UDP; a message that is cut into frames; what the kernel leaves to others of both |
//! | [`icrc`], [`identification`] | the check sum of RoCE, and the IP identification that it was computed with |
//! | [`opcode`], [`operation`], [`syndrome`], [`psn`] | what the fields mean |
//! | `drop_reason`, `bytes` | why a frame is dropped; big-endian fields |

pub mod arp;
pub mod bth;
mod bytes;
pub mod checksum;
pub mod ethernet;
pub mod extended_headers;
pub mod frame;
pub mod headers;
pub mod icrc;
pub mod identification;
pub mod ipv4;
pub mod ipv6;
pub mod membership;
pub mod ndp;
pub mod opcode;
pub mod operation;
pub mod path;
pub mod psn;
pub mod segments;
pub mod sum;
pub mod syndrome;
pub mod udp;
pub mod virtio_net;

#[cfg(test)]
#[path = "../../corpus/mod.rs"]
pub(crate) mod corpus;
mod drop_reason;
#[cfg(test)]
mod frame_tests;

pub use arp::Arp;
pub use bth::Bth;
pub use drop_reason::DropReason;
pub use ethernet::Ethernet;
pub use extended_headers::{Aeth, AtomicAckEth, AtomicEth, Deth, Ieth, ImmDt, Reth, Xrceth};
pub use frame::{EncodeError, Frame, Icrc};
pub use headers::Headers;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use membership::{Membership, Query};
pub use ndp::Discovery;
pub use opcode::BthOpcode;
pub use operation::{Extra, Operation, Position, Transport};
pub use path::{Network, Path};
pub use syndrome::{NakCode, RnrTimer, Syndrome, SyndromeKind};
pub use udp::Udp;
