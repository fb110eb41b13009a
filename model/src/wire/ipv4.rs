//! IPv4 header without options, the only form that RoCEv2 uses (annex A17).

use super::bytes::{array, get16, put, put16};
use super::sum::checksum;
use super::DropReason;

/// IP protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// The IP protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// What is free to choose in the IPv4 header of a RoCEv2 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ipv4 {
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// Type of service: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// Identification. The ICRC covers it.
    pub id: u16,
    /// The DF flag; RoCEv2 is sent with it.
    pub dont_fragment: bool,
}

impl Ipv4 {
    /// Size of the header.
    pub const BYTES: usize = 20;

    /// Explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion met.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// Writes the header of a packet with `payload` bytes (UDP header included) after it.
    #[inline]
    pub fn encode(&self, payload: u16, out: &mut [u8; Self::BYTES]) {
        out[0] = 0x45;
        out[1] = self.tos;
        put16(out, 2, payload.saturating_add(Self::BYTES as u16));
        put16(out, 4, self.id);
        put16(out, 6, if self.dont_fragment { DONT_FRAGMENT } else { 0 });
        out[8] = self.ttl;
        out[9] = PROTOCOL_UDP;
        put16(out, 10, 0);
        put(out, 12, &self.src);
        put(out, 16, &self.dst);
        let sum = checksum(out);
        put16(out, 10, sum);
    }

    /// Checks everything in the header and returns it with the number of bytes after it.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Result<(Self, usize), DropReason> {
        if b[0] >> 4 != 4 {
            return Err(DropReason::IpVersion(b[0] >> 4));
        }
        if b[0] & 15 < 5 {
            return Err(DropReason::IpLength);
        }
        if b[9] != PROTOCOL_UDP {
            return Err(DropReason::Protocol(b[9]));
        }
        if b[0] & 15 != 5 {
            return Err(DropReason::IpOptions);
        }
        if checksum(b) != 0 {
            return Err(DropReason::IpChecksum);
        }
        let fragment = get16(b, 6);
        if fragment & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0 {
            return Err(DropReason::Fragment);
        }
        let payload = usize::from(get16(b, 2)).checked_sub(Self::BYTES).ok_or(DropReason::IpLength)?;
        let header = Self {
            src: array(b, 12),
            dst: array(b, 16),
            tos: b[1],
            ttl: b[8],
            id: get16(b, 4),
            dont_fragment: fragment & DONT_FRAGMENT != 0,
        };
        Ok((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example header of RFC 1071 write-ups, whose checksum is 0xb861.
    #[test]
    fn known_checksum() {
        let header = Ipv4 {
            src: [192, 168, 0, 1],
            dst: [192, 168, 0, 199],
            tos: 0,
            ttl: 64,
            id: 0,
            dont_fragment: true,
        };
        let mut out = [0; Ipv4::BYTES];
        header.encode(0x73 - 20, &mut out);
        assert_eq!(out[10..12], [0xb8, 0x61]);
        assert_eq!(Ipv4::decode(&out), Ok((header, 0x73 - 20)));
    }

    #[test]
    fn each_defect_has_its_reason() {
        let mut good = [0; Ipv4::BYTES];
        Ipv4::default().encode(100, &mut good);
        let with = |at: usize, value: u8| {
            let mut b = good;
            b[at] = value;
            put16(&mut b, 10, 0);
            let sum = checksum(&b);
            put16(&mut b, 10, sum);
            Ipv4::decode(&b).map(|_| ())
        };
        assert_eq!(with(0, 0x45), Ok(()));
        assert_eq!(with(0, 0x65), Err(DropReason::IpVersion(6)));
        assert_eq!(with(0, 0x44), Err(DropReason::IpLength));
        assert_eq!(with(0, 0x46), Err(DropReason::IpOptions));
        assert_eq!(with(9, 6), Err(DropReason::Protocol(6)));
        assert_eq!(with(6, 0x20), Err(DropReason::Fragment));
        assert_eq!(with(7, 1), Err(DropReason::Fragment));
        assert_eq!(with(3, 19), Err(DropReason::IpLength));
        good[8] ^= 1;
        assert_eq!(Ipv4::decode(&good), Err(DropReason::IpChecksum));
    }
}
