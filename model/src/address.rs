//! The addresses of a segment's cards: MAC, GIDs at the start, GUIDs. All follow from the card's number, but for what others
//! meet outside of the segment.

use std::net::IpAddr;

use crate::packet::{PortId, MOST_CARDS, PORTS};
use crate::plain::Plain;
use crate::wire::path::{gid_to_ipv4, ipv4_to_gid};

/// A GID: an IPv6 address, or an IPv4 address as `::ffff:a.b.c.d`.
pub type Gid = [u8; 16];

/// The GID of an IP address.
pub fn gid_of(address: IpAddr) -> Gid {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The IP address that a GID is.
pub fn ip_of(gid: Gid) -> IpAddr {
    IpAddr::V6(gid.into()).to_canonical()
}

/// The Ethernet address that a GID outside of the segment resolves to: which one it truly has is the medium's business.
pub const OUTSIDE_MAC: [u8; 6] = [2, 0x56, 0x42, 0xff, 0, 0];

/// Name of a port's network interface.
pub fn interface_name(port: PortId) -> String {
    format!("verbena{}p{}", port.card, port.port + 1)
}

/// A MAC address as text.
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// EUI-64 of a MAC address (RFC 4291 appendix A).
fn eui64(mac: [u8; 6]) -> [u8; 8] {
    [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]
}

/// The link-local IPv6 address of a MAC address (RFC 4291 2.5.6).
pub fn link_local(mac: [u8; 6]) -> Gid {
    let mut gid = [0; 16];
    gid[..2].copy_from_slice(&[0xfe, 0x80]);
    gid[8..].copy_from_slice(&eui64(mac));
    gid
}

/// The GUIDs of a net's cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Plain)]
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
        0 => link_local(port.mac()),
        1 => {
            let at = u32::from(port.card) + 1;
            let [_, second, third, fourth] =
                ((at >> 8) << 9 | u32::from(port.port) << 8 | at & 0xff).to_be_bytes();
            ipv4_to_gid([198, 18 + second, third, fourth])
        }
        _ => [0; 16],
    }
}

/// The port that has a GID at the start.
pub(crate) fn fixed_owner(wanted: &Gid) -> Option<PortId> {
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
