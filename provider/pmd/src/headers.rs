//! Where the card finds the headers of a frame; and checksums that it does not fill in, as the program says that they are
//! elsewhere.

use std::ops::Range;

use crate::abi::mbuf::{Lengths, TX_IP_CKSUM, TX_L4_MASK, TX_TCP_CKSUM, TX_UDP_CKSUM, TX_VLAN};

/// Bytes of an Ethernet header, and of one with as many VLAN tags as the card passes.
const ETHERNET: usize = 14;
const MOST_TAGGED: usize = 22;
const TAG: usize = 4;
/// Bytes of an IPv6 header.
const IPV6: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where checksums are in their headers.
const IPV4_PLACE: usize = 10;
const TCP_PLACE: usize = 16;
const UDP_PLACE: usize = 6;
/// What follows a header of IPv6: options for each hop or the destination; a part of a packet.
const HOP_BY_HOP: u8 = 0;
const OPTIONS: u8 = 60;
const FRAGMENT: u8 = 44;
/// Headers of options that the card passes.
const MOST_OPTIONS: usize = 8;

/// What the card finds in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    /// Where the header of IP begins.
    ip: usize,
    /// Where it ends, with its options.
    l4: usize,
    /// What follows it; also of IPv4, `FRAGMENT` is a part of a packet.
    protocol: u8,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// What the card finds: IP behind at most two VLAN tags, and what is behind options.
fn find(frame: &[u8]) -> Option<Found> {
    let mut ip = ETHERNET;
    while ip < MOST_TAGGED && matches!(word(frame, ip - 2)?, 0x8100 | 0x88a8) {
        ip += TAG;
    }
    let packet = frame.get(ip..)?;
    match (word(frame, ip - 2)?, packet.first()? >> 4) {
        (0x0800, 4) => {
            let length = usize::from(packet[0] & 15) * 4;
            let whole = word(packet, 6)? & 0x3fff == 0;
            let protocol = if whole { *packet.get(9)? } else { FRAGMENT };
            (length >= 20).then_some(Found { ip, l4: ip + length, protocol })
        }
        (0x86dd, 6) => {
            let (mut protocol, mut length) = (*packet.get(6)?, IPV6);
            for _ in 0..MOST_OPTIONS {
                if matches!(protocol, HOP_BY_HOP | OPTIONS) {
                    let options = packet.get(length..length + 2)?;
                    (protocol, length) = (options[0], length + 8 + usize::from(options[1]) * 8);
                }
            }
            Some(Found { ip, l4: ip + length, protocol })
        }
        _ => None,
    }
}

/// Whether these are headers up to that of TCP and no more. The card refuses to cut behind others, and then all that is in its
/// queue.
pub fn are_of_tcp(headers: &[u8]) -> bool {
    let length_is_right = |tcp: &[u8]| tcp.len() >= 20 && usize::from(tcp[12] >> 4) * 4 == tcp.len();
    find(headers)
        .is_some_and(|found| found.protocol == TCP && headers.get(found.l4..).is_some_and(length_is_right))
}

/// Whether the card fills in the checksums that are asked for where a program says that they are. One that does not say leaves it
/// to the card. The card looks when it has put in the tag that is asked for, and passes no third one.
pub fn card_fills(frame: &[u8], asked: u64, &Lengths { l2, l3, .. }: &Lengths) -> bool {
    let has_l4 = |found: Found| found.l4 == l2 + l3 && matches!(found.protocol, TCP | UDP);
    let most = if asked & TX_VLAN == 0 { MOST_TAGGED } else { MOST_TAGGED - TAG };
    let is_there =
        |found: Found| found.ip == l2 && found.ip <= most && (asked & TX_L4_MASK == 0 || has_l4(found));
    l2 == 0 || find(frame).is_some_and(is_there)
}

/// The sum of words (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into());
    bytes.chunks(2).map(word).sum()
}

/// Puts the checksum of a part of a packet, with the sum of a pseudo-header, where its place is in the part. In that of UDP zero
/// says that there is none.
fn put(packet: &mut [u8], part: Range<usize>, at: usize, pseudo: u64) -> Option<()> {
    let part = packet.get_mut(part)?;
    part.get_mut(at..at + 2)?.fill(0);
    let mut sum = pseudo + sum(part);
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    let value = if sum == 0xffff && at == UDP_PLACE { 0xffff } else { !(sum as u16) };
    part[at..at + 2].copy_from_slice(&value.to_be_bytes());
    Some(())
}

/// Fills in the checksums that are asked for where a program says that they are, with the addresses of the IP header that is
/// there. `None`: they are not there, or lengths lie, and the frame may be as it was.
pub fn fill(frame: &mut [u8], asked: u64, &Lengths { l2, l3, .. }: &Lengths) -> Option<()> {
    let packet = frame.get_mut(l2..)?;
    let (addresses, end): (Range<usize>, usize) = match packet.first()? >> 4 {
        4 => (12..20, word(packet, 2)?.into()),
        6 => (8..IPV6, IPV6 + usize::from(word(packet, 4)?)),
        _ => return None,
    };
    if asked & TX_IP_CKSUM != 0 {
        put(packet, 0..l3, IPV4_PLACE, 0)?;
    }
    let (protocol, at) = match asked & TX_L4_MASK {
        TX_TCP_CKSUM => (TCP, TCP_PLACE),
        TX_UDP_CKSUM => (UDP, UDP_PLACE),
        _ => return Some(()),
    };
    let pseudo = sum(packet.get(addresses)?) + u64::from(protocol) + end.checked_sub(l3)? as u64;
    put(packet, l3..end, at, pseudo)
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
