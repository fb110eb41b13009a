//! Invariant CRC (annexes A16.4.3 and A17.3.3): the last four bytes of a packet of RoCE.
//!
//! A CRC-32 over what no switch or router may change. The fields that they may change count
//! as all ones, and eight bytes of ones stand for the local route header that RoCE lacks.

use super::{Bth, Ipv4, Ipv6, Udp};
use crc32fast::Hasher;

/// Size of the ICRC.
pub const BYTES: usize = 4;

/// CRC-32 of the eight bytes of ones that every packet's ICRC begins with.
const ONES: u32 = 0x2144_df1c;

/// Bytes of the longest headers up to the BTH, and of what behind them is summed up together with them.
const LONGEST_HEAD: usize = Ipv6::BYTES + Udp::BYTES + Bth::BYTES;
const SHORT: usize = 64;

/// What the sum is of, as far as it is copied: what may change in it is all ones.
type Row = [u8; LONGEST_HEAD + SHORT];

/// The ICRC of an IPv4 packet, given its parts: `rest` is all between BTH and ICRC.
#[inline]
pub fn ipv4(ip: &[u8; Ipv4::BYTES], udp: &[u8; Udp::BYTES], bth: &[u8; Bth::BYTES], rest: &[u8]) -> u32 {
    let mut row: Row = [0; size_of::<Row>()];
    row[..Ipv4::BYTES].copy_from_slice(ip);
    row[1] = 0xff; // type of service
    row[8] = 0xff; // time to live
    row[10] = 0xff; // header checksum
    row[11] = 0xff;
    transport(row, Ipv4::BYTES, (udp, bth, rest))
}

/// The ICRC of an IPv6 packet, given its parts: `rest` is all between BTH and ICRC.
#[inline]
pub fn ipv6(ip: &[u8; Ipv6::BYTES], udp: &[u8; Udp::BYTES], bth: &[u8; Bth::BYTES], rest: &[u8]) -> u32 {
    transport(with_route(ip), Ipv6::BYTES, (udp, bth, rest))
}

/// The ICRC of a RoCEv1 packet, given its parts: `rest` is all between BTH and ICRC.
#[inline]
pub fn grh(grh: &[u8; Ipv6::BYTES], bth: &[u8; Bth::BYTES], rest: &[u8]) -> u32 {
    sum(with_route(grh), Ipv6::BYTES, (bth, rest))
}

/// Begins with an IPv6 header, or a global route header.
#[inline]
fn with_route(head: &[u8; Ipv6::BYTES]) -> Row {
    let mut row: Row = [0; size_of::<Row>()];
    row[..Ipv6::BYTES].copy_from_slice(head);
    row[0] |= 0x0f; // traffic class and flow label
    row[1] = 0xff;
    row[2] = 0xff;
    row[3] = 0xff;
    row[7] = 0xff; // hop limit
    row
}

/// Goes on with the UDP header.
#[inline(always)]
fn transport(
    mut row: Row,
    udp_at: usize,
    (udp, bth, rest): (&[u8; Udp::BYTES], &[u8; Bth::BYTES], &[u8]),
) -> u32 {
    row[udp_at..][..Udp::BYTES].copy_from_slice(udp);
    row[udp_at + 6] = 0xff; // UDP checksum
    row[udp_at + 7] = 0xff;
    sum(row, udp_at + Udp::BYTES, (bth, rest))
}

/// Goes on with the BTH, and ends.
#[inline(always)]
fn sum(mut row: Row, bth_at: usize, (bth, rest): (&[u8; Bth::BYTES], &[u8])) -> u32 {
    let head = bth_at + Bth::BYTES;
    row[bth_at..head].copy_from_slice(bth);
    row[bth_at + 4] = 0xff; // resv8a: FECN, BECN and reserved bits
    let mut crc = Hasher::new_with_initial(ONES);
    if rest.len() <= SHORT {
        // The end of an update takes as long as all of so few bytes.
        row[head..][..rest.len()].copy_from_slice(rest);
        crc.update(&row[..head + rest.len()]);
    } else {
        crc.update(&row[..head]);
        crc.update(rest);
    }
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_value_is_the_crc_of_eight_bytes_of_ones() {
        assert_eq!(crc32fast::hash(&[0xff; 8]), ONES);
    }

    #[test]
    fn packets_of_any_length_are_summed_up_as_one_row_of_bytes() {
        let (ip, udp, bth) = ([0xff; Ipv4::BYTES], [0xff; Udp::BYTES], [0xff; Bth::BYTES]);
        let rest: Vec<u8> = (0..=255).collect();
        for length in 0..rest.len() {
            let mut row = vec![0xff; 8 + Ipv4::BYTES + Udp::BYTES + Bth::BYTES];
            row.extend(&rest[..length]);
            assert_eq!(ipv4(&ip, &udp, &bth, &rest[..length]), crc32fast::hash(&row), "{length} bytes");
        }
    }

    #[test]
    fn fields_that_routers_change_do_not_count() {
        let (v4, v6) = ([0; Ipv4::BYTES], [0; Ipv6::BYTES]);
        let (udp, bth) = ([0; Udp::BYTES], [0; Bth::BYTES]);
        let sum4 = ipv4(&v4, &udp, &bth, b"rest");
        let sum6 = ipv6(&v6, &udp, &bth, b"rest");

        let counts = |at: usize, masked: &[usize]| !masked.contains(&at);
        for at in 0..Ipv4::BYTES {
            let mut ip = v4;
            ip[at] ^= 1;
            let changed = ipv4(&ip, &udp, &bth, b"rest") != sum4;
            assert_eq!(changed, counts(at, &[1, 8, 10, 11]), "IPv4 byte {at}");
        }
        for at in 0..Ipv6::BYTES {
            let mut ip = v6;
            ip[at] ^= 1;
            let changed = ipv6(&ip, &udp, &bth, b"rest") != sum6;
            assert_eq!(changed, counts(at, &[0, 1, 2, 3, 7]), "IPv6 byte {at}");
        }
        let mut other_version = v6;
        other_version[0] ^= 0x10;
        assert_ne!(ipv6(&other_version, &udp, &bth, b"rest"), sum6);
        for at in 0..Udp::BYTES {
            let mut udp = udp;
            udp[at] ^= 1;
            let changed = ipv4(&v4, &udp, &bth, b"rest") != sum4;
            assert_eq!(changed, counts(at, &[6, 7]), "UDP byte {at}");
        }
        for at in 0..Bth::BYTES {
            let mut bth = bth;
            bth[at] ^= 1;
            let changed = ipv6(&v6, &udp, &bth, b"rest") != sum6;
            assert_eq!(changed, counts(at, &[4]), "BTH byte {at}");
        }
    }
}
