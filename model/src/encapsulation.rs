//! What a packet is in below its transport headers: the version of RoCE and of IP, and an 802.1Q tag.

use crate::plain::Plain;
use crate::wire::{icrc, Bth, Ethernet, Ipv4, Ipv6, Network, Path, Udp};

/// The encapsulation of a packet. Zero is RoCEv2 in IPv4, without a tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Encapsulation {
    /// Tag control information in the lowest 16 bits, then the flags.
    bits: u32,
}

/// The bits of a VLAN's number.
const VLAN: u32 = 0xfff;
/// There is a tag.
const TAGGED: u32 = 1 << 16;
/// Carried by IPv6 instead of IPv4.
const IPV6: u32 = 1 << 17;
/// RoCE version 1.
const V1: u32 = 1 << 18;

impl Encapsulation {
    /// RoCEv2 in IPv4.
    pub const UDP_IPV4: Self = Self { bits: 0 };
    /// RoCEv2 in IPv6.
    pub const UDP_IPV6: Self = Self { bits: IPV6 };

    /// Of packets with this link, see [`Self::link`], and for a destination with an address of IPv6 or IPv4.
    pub const fn of_link(link: u32, ipv6: bool, priority: u8) -> Self {
        let encapsulation = Self { bits: if link & V1 == 0 && ipv6 { IPV6 } else { link & V1 } };
        match (link & VLAN) as u16 {
            0 => encapsulation,
            vlan => encapsulation.with_tag((priority as u16 & 7) << 13 | vlan),
        }
    }

    /// Of a packet that came by a path.
    pub fn of_path(path: &Path) -> Self {
        let version = match path.network {
            Network::V4(_) => 0,
            Network::V6(_) => IPV6,
            Network::Grh(_) => V1,
        };
        let encapsulation = Self { bits: version };
        path.vlan.map_or(encapsulation, |tci| encapsulation.with_tag(tci))
    }

    /// The same with this tag control information.
    pub const fn with_tag(self, tci: u16) -> Self {
        Self { bits: self.bits & !0xffff | TAGGED | tci as u32 }
    }

    /// Tag control information, if there is a tag.
    pub const fn tag(self) -> Option<u16> {
        if self.bits & TAGGED != 0 {
            Some(self.bits as u16)
        } else {
            None
        }
    }

    /// Priority of the tag.
    pub const fn priority(self) -> Option<u8> {
        match self.tag() {
            Some(tci) => Some((tci >> 13) as u8),
            None => None,
        }
    }

    /// Whether it is RoCEv2 in IPv6.
    #[inline(always)]
    pub const fn is_ipv6(self) -> bool {
        self.bits & IPV6 != 0
    }

    /// Whether it is RoCE version 1.
    #[inline(always)]
    pub const fn is_v1(self) -> bool {
        self.bits & V1 != 0
    }

    /// The [`link`](Self::link) of a version of RoCE and a VLAN; 0: in none.
    pub const fn link_of(v1: bool, vlan: u16) -> u32 {
        vlan as u32 & VLAN | if v1 { V1 } else { 0 }
    }

    /// What both ends must have alike: the version of RoCE, and the VLAN. A tag without a VLAN's number only has a priority
    /// (802.1Q 6.9). Zero is RoCEv2 outside of VLANs.
    #[inline(always)]
    pub const fn link(self) -> u32 {
        self.bits & (V1 | VLAN)
    }

    /// Bytes from the Ethernet header to the BTH, and of the ICRC: of each frame beside what follows from its content.
    #[inline(always)]
    pub const fn overhead(self) -> u64 {
        let network = match self.bits & (V1 | IPV6) {
            0 => Ipv4::BYTES + Udp::BYTES,
            IPV6 => Ipv6::BYTES + Udp::BYTES,
            _ => Ipv6::BYTES,
        };
        let tag = if self.bits & TAGGED != 0 { Ethernet::TAG_BYTES } else { 0 };
        (Ethernet::BYTES + tag + network + Bth::BYTES + icrc::BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_takes_its_bytes() {
        let of = |v1, vlan, ipv6| Encapsulation::of_link(Encapsulation::link_of(v1, vlan), ipv6, 5);
        assert_eq!(
            (of(false, 0, false), of(false, 0, true)),
            (Encapsulation::UDP_IPV4, Encapsulation::UDP_IPV6)
        );
        let tagged = of(false, 107, false);
        assert_eq!((tagged.tag(), tagged.priority(), tagged.link()), (Some(5 << 13 | 107), Some(5), 107));
        let first = of(true, 107, true);
        assert!(first.is_v1() && !first.is_ipv6() && first.link() != tagged.link());
        // Ethernet, IP, UDP, BTH and ICRC; a tag; a GRH instead of IP and UDP.
        let bytes =
            [Encapsulation::UDP_IPV4, Encapsulation::UDP_IPV6, tagged, first].map(Encapsulation::overhead);
        let expected = [14 + 20 + 8 + 12 + 4, 14 + 40 + 8 + 12 + 4, 18 + 20 + 8 + 12 + 4, 18 + 40 + 12 + 4];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_priority_is_no_vlan() {
        let encapsulation = Encapsulation::UDP_IPV4.with_tag(3 << 13);
        assert_eq!((encapsulation.link(), encapsulation.priority()), (0, Some(3)));
    }
}
