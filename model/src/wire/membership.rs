//! Who receives multicast groups: IGMP version 2 of IPv4 (RFC 2236) and MLD version 1 of IPv6 (RFC 2710). Routers and
//! switches of later versions understand these (RFC 3376, 7; RFC 3810, 8).

use super::bytes::{get16, put, put16};
use super::path::{gid_to_ipv4, ipv4_to_gid};
use super::sum::{checksum, fold, sum};

const IGMP: u8 = 2;
const IGMP_QUERY: u8 = 0x11;
const IGMP_REPORT: u8 = 0x16;
const IGMP_LEAVE: u8 = 0x17;
const ICMPV6: u8 = 58;
const MLD_QUERY: u8 = 130;
const MLD_REPORT: u8 = 131;
const MLD_DONE: u8 = 132;
const IPV6: usize = 40;
/// The IPv4 header of a membership, with the option that routers are to look at the packet (RFC 2113).
const IPV4: usize = 24;
const ROUTER_ALERT: [u8; 4] = [148, 4, 0, 0];
/// The same of IPv6 (RFC 2711): the hop-by-hop options of MLD.
const HOP_BY_HOP: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];
/// Internetwork control (RFC 2474, 4.2.2.2), as Linux marks IGMP.
const CONTROL: u8 = 0xc0;
const ALL_ROUTERS_V4: [u8; 4] = [224, 0, 0, 2];
const ALL_ROUTERS_V6: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// What a query of IGMP version 1 means, which says no time (RFC 2236, 4).
const WITHIN: u64 = 10_000_000_000;

/// A host receives a group, or does no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// The host's address: for a group of IPv6 the link-local one.
    pub source: [u8; 16],
    /// The group, as a GID.
    pub group: [u8; 16],
    /// It does no more.
    pub leaves: bool,
}

impl Membership {
    /// Bytes of the longest one, from the IP header on.
    pub const BYTES: usize = IPV6 + HOP_BY_HOP.len() + 24;

    /// Where it is sent to: the group, or all routers.
    pub fn destination(&self) -> [u8; 16] {
        match (self.leaves, gid_to_ipv4(&self.group)) {
            (false, _) => self.group,
            (true, Some(_)) => ipv4_to_gid(ALL_ROUTERS_V4),
            (true, None) => ALL_ROUTERS_V6,
        }
    }

    /// Writes it from the IP header on; its bytes.
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) -> usize {
        *out = [0; Self::BYTES];
        let destination = self.destination();
        if let Some(group) = gid_to_ipv4(&self.group) {
            let len = IPV4 + 8;
            (out[0], out[1]) = (0x40 | (IPV4 / 4) as u8, CONTROL);
            put16(out, 2, len as u16);
            // It is not to be cut into fragments.
            (out[6], out[8], out[9]) = (0x40, 1, IGMP);
            put(out, 12, &self.source[12..]);
            put(out, 16, &destination[12..]);
            put(out, 20, &ROUTER_ALERT);
            let of_header = checksum(&out[..IPV4]);
            put16(out, 10, of_header);
            out[IPV4] = if self.leaves { IGMP_LEAVE } else { IGMP_REPORT };
            put(out, IPV4 + 4, &group);
            let of_message = checksum(&out[IPV4..len]);
            put16(out, IPV4 + 2, of_message);
            return len;
        }
        out[0] = 6 << 4;
        put16(out, 4, (Self::BYTES - IPV6) as u16);
        out[7] = 1;
        put(out, 8, &self.source);
        put(out, 24, &destination);
        put(out, IPV6, &HOP_BY_HOP);
        let at = IPV6 + HOP_BY_HOP.len();
        out[at] = if self.leaves { MLD_DONE } else { MLD_REPORT };
        put(out, at + 8, &self.group);
        let of_message = !mld_sum(&out[8..IPV6], &out[at..]);
        put16(out, at + 2, of_message);
        Self::BYTES
    }
}

/// A router or a switch asks who receives groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The one that it asks for, as a GID; `None`: all of them.
    pub group: Option<[u8; 16]>,
    /// It waits for so long (ns).
    pub within: u64,
}

impl Query {
    /// Reads one of any version from its IP header on; none if it is something else, or damaged.
    pub fn decode(packet: &[u8]) -> Option<Query> {
        match packet.first()? >> 4 {
            4 => Query::igmp(packet),
            6 => Query::mld(packet),
            _ => None,
        }
    }

    fn igmp(packet: &[u8]) -> Option<Query> {
        let ip: &[u8; 20] = packet.first_chunk()?;
        let (header, message) = packet
            .get(..usize::from(get16(ip, 2)))?
            .split_at_checked(usize::from(ip[0] & 15) * 4)
            .filter(|(header, _)| header.len() >= 20)?;
        let query: &[u8; 8] = message.first_chunk()?;
        if ip[9] != IGMP || query[0] != IGMP_QUERY || checksum(header) != 0 || checksum(message) != 0 {
            return None;
        }
        let within = match (message.len(), query[1]) {
            (8, 0) => WITHIN,
            (8, tenths) => 100_000_000 * u64::from(tenths),
            (_, code) => 100_000_000 * scaled(code.into(), 4),
        };
        let group = query[4..].first_chunk().copied().filter(|group| *group != [0; 4]);
        Some(Query { group: group.map(ipv4_to_gid), within })
    }

    fn mld(packet: &[u8]) -> Option<Query> {
        let (ip, rest) = packet.split_first_chunk::<IPV6>()?;
        let rest = rest.get(..usize::from(get16(ip, 4)))?;
        let &[next, units] = rest.first_chunk()?;
        let (_, message) = rest.split_at_checked(8 + usize::from(units) * 8)?;
        let query: &[u8; 24] = message.first_chunk()?;
        // Of hop-by-hop options, and from a link-local address.
        let of_link = ip[6] == 0 && ip[7] == 1 && ip[8] == 0xfe && ip[9] & 0xc0 == 0x80;
        if !of_link || next != ICMPV6 || query[0] != MLD_QUERY || mld_sum(&ip[8..], message) != 0xffff {
            return None;
        }
        let within = 1_000_000
            * match (message.len(), get16(query, 4)) {
                (24, milliseconds) => milliseconds.into(),
                (_, code) => scaled(code, 12),
            };
        let group = query[8..].first_chunk().copied();
        Some(Query { group: group.filter(|group| *group != [0; 16]), within })
    }
}

/// A time, which the last versions, whose queries are longer, write with an exponent of three bits and so many of the mantissa if its highest bit is set
/// (RFC 3376, 4.1.1; RFC 3810, 5.1.3).
fn scaled(code: u16, mantissa: u32) -> u64 {
    let code = u64::from(code);
    match code >> (mantissa + 3) {
        0 => code,
        _ => (1 << mantissa | code & ((1 << mantissa) - 1)) << ((code >> mantissa & 7) + 3),
    }
}

/// The one's complement sum of a message and its pseudo-header (RFC 8200, 8.1), of these addresses; all ones if it has its
/// checksum.
fn mld_sum(addresses: &[u8], message: &[u8]) -> u16 {
    fold(sum(addresses) + sum(message) + message.len() as u64 + u64::from(ICMPV6))
}

#[cfg(test)]
#[path = "membership_tests.rs"]
mod tests;
