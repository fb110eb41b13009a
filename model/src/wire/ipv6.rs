//! IPv6 header, without extension headers; and the global route header of RoCE version 1, which is laid out alike.

use super::bytes::{array, get16, get32, put, put16, put32};
use super::DropReason;

/// Next header of a global route header: a transport header of InfiniBand (volume 1, 8.3).
pub const NEXT_BTH: u8 = 0x1b;

/// Headers behind the first (RFC 8200 4): options for each hop, a route, a part of a packet, options for the destination.
pub const HOP_BY_HOP: u8 = 0;
/// See above.
pub const ROUTING: u8 = 43;
/// See above.
pub const FRAGMENT: u8 = 44;
/// See above.
pub const OPTIONS: u8 = 60;
/// Most of them that are passed.
pub const MOST_EXTENSIONS: usize = 8;

/// The protocol that follows the first header, whose next one is `next`, and options behind it, and their bytes. Behind other headers
/// TCP and UDP are not looked for: a part of a packet has no checksum, and a route may end at another address.
#[inline]
pub fn behind_options(next: u8, rest: &[u8]) -> Option<(u8, usize)> {
    let (mut next, mut at) = (next, 0);
    for _ in 0..MOST_EXTENSIONS {
        if !matches!(next, HOP_BY_HOP | OPTIONS) {
            break;
        }
        let header = rest.get(at..)?;
        (next, at) = (*header.first()?, at + 8 + usize::from(*header.get(1)?) * 8);
    }
    (at <= rest.len()).then_some((next, at))
}

/// What is free to choose in the IPv6 header of a RoCEv2 packet, or in the global route header of a RoCEv1 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ipv6 {
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
    /// Traffic class: DSCP in the upper six bits, ECN in the lower two.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
}

impl Ipv6 {
    /// Size of the header.
    pub const BYTES: usize = 40;

    /// From GIDs and the fields of a global route.
    pub fn of_gids(
        src: &[u8; 16],
        dst: &[u8; 16],
        traffic_class: u8,
        flow_label: u32,
        hop_limit: u8,
    ) -> Self {
        Self { src: *src, dst: *dst, traffic_class, flow_label: flow_label & 0x000f_ffff, hop_limit }
    }

    /// Explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion met.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class & 3
    }

    /// Writes the header of a packet with `payload` bytes after it, which begin with a header of this kind:
    /// [`PROTOCOL_UDP`](super::ipv4::PROTOCOL_UDP) or [`NEXT_BTH`].
    #[inline]
    pub fn encode(&self, next: u8, payload: u16, out: &mut [u8; Self::BYTES]) {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        put32(out, 0, first);
        put16(out, 4, payload);
        out[6] = next;
        out[7] = self.hop_limit;
        put(out, 8, &self.src);
        put(out, 24, &self.dst);
    }

    /// Checks the header, which a header of the kind `next` must follow, and returns it with the number of bytes after it.
    #[inline]
    pub fn decode(next: u8, b: &[u8; Self::BYTES]) -> Result<(Self, usize), DropReason> {
        if b[0] >> 4 != 6 {
            return Err(DropReason::IpVersion(b[0] >> 4));
        }
        if b[6] != next {
            return Err(DropReason::Protocol(b[6]));
        }
        let first = get32(b, 0);
        let header = Self {
            src: array(b, 8),
            dst: array(b, 24),
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0x000f_ffff,
            hop_limit: b[7],
        };
        Ok((header, usize::from(get16(b, 4))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ipv4::PROTOCOL_UDP;
    use super::*;

    #[test]
    fn first_word_is_packed() {
        let header =
            Ipv6 { src: [1; 16], dst: [2; 16], traffic_class: 0xab, flow_label: 0xc_def0, hop_limit: 7 };
        let mut out = [0; Ipv6::BYTES];
        header.encode(PROTOCOL_UDP, 0x1234, &mut out);
        assert_eq!(out[..8], [0x6a, 0xbc, 0xde, 0xf0, 0x12, 0x34, 17, 7]);
        assert_eq!(Ipv6::decode(PROTOCOL_UDP, &out), Ok((header, 0x1234)));
        assert_eq!(header.ecn(), 3);
        out[6] = 44;
        assert_eq!(Ipv6::decode(PROTOCOL_UDP, &out), Err(DropReason::Protocol(44)));
        out[0] = 0x4a;
        assert_eq!(Ipv6::decode(PROTOCOL_UDP, &out), Err(DropReason::IpVersion(4)));
    }
}
