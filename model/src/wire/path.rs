//! All that precedes the BTH: where a packet comes from and goes to.

use super::{Ipv4, Ipv6, Udp};

/// Ethernet, IP and UDP of a packet, or Ethernet and GRH, without what follows from its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// Source MAC address.
    pub src_mac: [u8; 6],
    /// Destination MAC address.
    pub dst_mac: [u8; 6],
    /// Tag control information of an 802.1Q tag, if tagged.
    pub vlan: Option<u16>,
    /// The IP header, or the global route header.
    pub network: Network,
    /// UDP source port; 0 in RoCE version 1.
    pub udp_sport: u16,
}

/// What follows the Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Both GIDs are IPv4-mapped addresses.
    V4(Ipv4),
    /// Any other GIDs.
    V6(Ipv6),
    /// RoCE version 1 (annex A16): a global route header, with GIDs of any kind, and neither IP nor UDP.
    Grh(Ipv6),
}

impl Default for Network {
    fn default() -> Self {
        Self::V4(Ipv4::default())
    }
}

/// What an IPv4 address as a GID begins with.
const V4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// The IPv4 address that a GID of the form `::ffff:a.b.c.d` means.
#[inline]
pub fn gid_to_ipv4(gid: &[u8; 16]) -> Option<[u8; 4]> {
    let [prefix @ .., a, b, c, d] = gid;
    (*prefix == V4_MAPPED).then_some([*a, *b, *c, *d])
}

/// The GID `::ffff:a.b.c.d` of an IPv4 address.
#[inline]
pub fn ipv4_to_gid(address: [u8; 4]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..12].copy_from_slice(&V4_MAPPED);
    gid[12..].copy_from_slice(&address);
    gid
}

/// The MAC address of a multicast GID (RFC 1112, RFC 2464), `None` for a unicast one.
pub fn multicast_mac(gid: &[u8; 16]) -> Option<[u8; 6]> {
    match gid_to_ipv4(gid) {
        Some([a, b, c, d]) => (a >> 4 == 14).then_some([0x01, 0x00, 0x5e, b & 0x7f, c, d]),
        None => (gid[0] == 0xff).then_some([0x33, 0x33, gid[12], gid[13], gid[14], gid[15]]),
    }
}

impl Network {
    /// From GIDs and the fields of a global route: IPv4 if both GIDs are IPv4-mapped.
    pub fn from_gids(
        src: &[u8; 16],
        dst: &[u8; 16],
        traffic_class: u8,
        flow_label: u32,
        hop_limit: u8,
    ) -> Self {
        match (gid_to_ipv4(src), gid_to_ipv4(dst)) {
            (Some(src), Some(dst)) => {
                Self::V4(Ipv4 { src, dst, tos: traffic_class, ttl: hop_limit, id: 0, dont_fragment: true })
            }
            _ => Self::V6(Ipv6::of_gids(src, dst, traffic_class, flow_label, hop_limit)),
        }
    }

    /// The same in a global route header.
    pub fn in_grh(src: &[u8; 16], dst: &[u8; 16], traffic_class: u8, flow_label: u32, hop_limit: u8) -> Self {
        Self::Grh(Ipv6::of_gids(src, dst, traffic_class, flow_label, hop_limit))
    }

    /// Size of the IP header, or the global route header.
    #[inline]
    pub const fn header_len(&self) -> usize {
        match self {
            Self::V4(_) => Ipv4::BYTES,
            Self::V6(_) | Self::Grh(_) => Ipv6::BYTES,
        }
    }

    /// Size of the UDP header, if there is one.
    #[inline]
    pub const fn udp_len(&self) -> usize {
        match self {
            Self::Grh(_) => 0,
            _ => Udp::BYTES,
        }
    }

    /// The IP identification, where there is one.
    pub const fn id(&self) -> Option<u16> {
        match self {
            Self::V4(ip) => Some(ip.id),
            Self::V6(_) | Self::Grh(_) => None,
        }
    }

    /// Sets the IP identification, where there is one.
    pub fn set_id(&mut self, id: u16) {
        if let Self::V4(ip) = self {
            ip.id = id;
        }
    }

    /// Explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion met.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.ecn(),
            Self::V6(ip) => ip.ecn(),
            // It has none (A17.9.1 is of version 2).
            Self::Grh(_) => 0,
        }
    }

    /// Changes it.
    #[inline]
    pub fn set_ecn(&mut self, ecn: u8) {
        let class = match self {
            Self::V4(ip) => &mut ip.tos,
            Self::V6(ip) => &mut ip.traffic_class,
            Self::Grh(_) => return,
        };
        *class = *class & !3 | ecn & 3;
    }

    /// The sender's GID.
    #[inline]
    pub fn src_gid(&self) -> [u8; 16] {
        match self {
            Self::V4(ip) => ipv4_to_gid(ip.src),
            Self::V6(ip) | Self::Grh(ip) => ip.src,
        }
    }

    /// The receiver's GID.
    #[inline]
    pub fn dst_gid(&self) -> [u8; 16] {
        match self {
            Self::V4(ip) => ipv4_to_gid(ip.dst),
            Self::V6(ip) | Self::Grh(ip) => ip.dst,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 1];
    const V6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x56, 0x42, 0xff, 0xfe, 0, 0, 0];

    #[test]
    fn gids_choose_the_ip_version() {
        let v4 = Network::from_gids(&V4, &V4, 1, 2, 3);
        assert!(matches!(v4, Network::V4(Ipv4 { src: [198, 18, 0, 1], tos: 1, ttl: 3, .. })));
        assert_eq!((v4.src_gid(), v4.dst_gid()), (V4, V4));
        for (src, dst) in [(V6, V6), (V4, V6), (V6, V4)] {
            let v6 = Network::from_gids(&src, &dst, 1, 2, 3);
            assert!(matches!(v6, Network::V6(Ipv6 { flow_label: 2, hop_limit: 3, .. })));
            assert_eq!((v6.src_gid(), v6.dst_gid()), (src, dst));
        }
    }

    #[test]
    fn multicast_macs() {
        assert_eq!(multicast_mac(&V4), None);
        assert_eq!(multicast_mac(&V6), None);
        let group = ipv4_to_gid([224, 129, 2, 3]);
        assert_eq!(multicast_mac(&group), Some([0x01, 0x00, 0x5e, 1, 2, 3]));
        let mut group = V6;
        group[0] = 0xff;
        assert_eq!(multicast_mac(&group), Some([0x33, 0x33, 0xfe, 0, 0, 0]));
    }
}
