//! The checksums of a frame's headers: of IPv4, and of TCP or UDP (RFC 768, RFC 9293, RFC 8200 8.1).

use super::ethernet::{
    Ethernet, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_SERVICE, ETHERTYPE_VLAN, MOST_TAGS,
};
use super::ipv4::{PROTOCOL_TCP, PROTOCOL_UDP};
use super::ipv6::behind_options;
use super::sum::{fold, sum, sum_of};

#[inline(always)]
pub(super) fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of an IPv6 header.
const IPV6: usize = 40;

/// Which checksums of a frame are right, or to be filled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksums {
    /// Of the IPv4 header.
    pub ip: bool,
    /// Of TCP or UDP.
    pub l4: bool,
}

/// Where a frame has checksums: behind at most two VLAN tags, in a packet that is whole.
struct Headers {
    /// Where the IP header is.
    ip: usize,
    /// Bytes of it if it is of IPv4, which has a checksum; else 0.
    ipv4: usize,
    l4: Option<L4>,
}

/// A header of TCP or UDP, and what follows it.
struct L4 {
    start: usize,
    end: usize,
    protocol: u8,
}

impl Checksums {
    /// Those that are right. One that a frame does not have is not; UDP over IPv4 without a checksum has a right one.
    pub fn right(frame: &[u8]) -> Checksums {
        let Some(headers) = Headers::find(frame) else { return Checksums::default() };
        let is_right = |l4: &L4| match l4.is_unused(frame) {
            true => headers.is_ipv4(),
            false => headers.sum_with_pseudo(frame, l4) == 0xffff,
        };
        Checksums {
            ip: headers.is_ipv4() && headers.sum_of_ipv4(frame) == 0xffff,
            l4: headers.l4.as_ref().is_some_and(is_right),
        }
    }

    /// Fills them in, as far as the frame has them. What is in their places does not count.
    pub fn fill(self, frame: &mut [u8]) {
        let Some(headers) = Headers::find(frame) else { return };
        if self.ip && headers.is_ipv4() {
            put16(frame, headers.ip + 10, 0);
            put16(frame, headers.ip + 10, !headers.sum_of_ipv4(frame));
        }
        if let Some(l4) = headers.l4.as_ref().filter(|_| self.l4) {
            put16(frame, l4.field(), 0);
            let value = !headers.sum_with_pseudo(frame, l4);
            // Zero says that UDP has none.
            let zero = value == 0 && l4.protocol == PROTOCOL_UDP;
            put16(frame, l4.field(), if zero { 0xffff } else { value });
        }
    }
}

/// A checksum of TCP or UDP that is left to who gets the frame next: it has the sum of the pseudo-header in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Where what it covers begins.
    pub start: usize,
    /// Where it is.
    pub field: usize,
    /// The sum of the pseudo-header.
    pub pseudo: u16,
}

impl Partial {
    /// That of a frame; `None` if it has none.
    pub fn of(frame: &[u8]) -> Option<Partial> {
        let headers = Headers::find(frame)?;
        let l4 = headers.l4.as_ref()?;
        (!l4.is_unused(frame)).then(|| Partial {
            start: l4.start,
            field: l4.field(),
            pseudo: fold(headers.pseudo(frame, l4)),
        })
    }
}

/// The EtherType of a frame behind at most two VLAN tags, and where what it names begins.
#[inline(always)]
pub(super) fn ip_header(frame: &[u8]) -> Option<(u16, usize)> {
    const MOST_BYTES: usize = Ethernet::BYTES + MOST_TAGS * Ethernet::TAG_BYTES;
    let word = |at: usize| frame.get(at..at + 2).map(|bytes| get16(bytes, 0));
    let mut at = Ethernet::BYTES;
    let mut ether_type = word(at - 2)?;
    while matches!(ether_type, ETHERTYPE_VLAN | ETHERTYPE_SERVICE) && at < MOST_BYTES {
        at += Ethernet::TAG_BYTES;
        ether_type = word(at - 2)?;
    }
    Some((ether_type, at))
}

impl Headers {
    #[inline(always)]
    fn find(frame: &[u8]) -> Option<Headers> {
        let (ether_type, ip) = ip_header(frame)?;
        let packet = frame.get(ip..)?;
        let (ipv4, protocol, start, end) = match ether_type {
            ETHERTYPE_IPV4 => {
                let header = packet.first_chunk::<IPV4>()?;
                let length = usize::from(header[0] & 15) * 4;
                if header[0] >> 4 != 4 || length < IPV4 || packet.len() < length {
                    return None;
                }
                let whole = get16(header, 6) & 0x3fff == 0;
                // A part of a packet has no header that is looked at.
                let end = if whole { usize::from(get16(header, 2)) } else { 0 };
                (length, header[9], length, end)
            }
            ETHERTYPE_IPV6 => {
                let (header, rest) = packet.split_first_chunk::<IPV6>()?;
                if header[0] >> 4 != 6 {
                    return None;
                }
                let length = usize::from(get16(header, 4));
                let (protocol, options) =
                    rest.get(..length).and_then(|rest| behind_options(header[6], rest)).unwrap_or_default();
                (0, protocol, IPV6 + options, IPV6 + length)
            }
            _ => return None,
        };
        let l4 = packet.get(start..end).and_then(|bytes| L4::find(bytes, protocol, ip + start));
        Some(Headers { ip, ipv4, l4 })
    }

    #[inline(always)]
    fn is_ipv4(&self) -> bool {
        self.ipv4 != 0
    }

    /// The sum of the IPv4 header.
    #[inline(always)]
    fn sum_of_ipv4(&self, frame: &[u8]) -> u16 {
        // Nearly all have no options, and a sum of so many bytes needs no loop.
        let (header, options) = frame[self.ip..][..self.ipv4].split_at(IPV4);
        let sum = sum_of(header);
        if options.is_empty() {
            sum as u16
        } else {
            fold(sum + sum_of(options))
        }
    }

    /// The sum of the pseudo-header.
    #[inline(always)]
    fn pseudo(&self, frame: &[u8], l4: &L4) -> u64 {
        let ip = &frame[self.ip..];
        let addresses = if self.is_ipv4() { sum(&ip[12..20]) } else { sum(&ip[8..40]) };
        addresses + u64::from(l4.protocol) + (l4.end - l4.start) as u64
    }

    /// The sum of that, and of what follows.
    #[inline(always)]
    fn sum_with_pseudo(&self, frame: &[u8], l4: &L4) -> u16 {
        fold(self.pseudo(frame, l4) + sum(&frame[l4.start..l4.end]))
    }
}

impl L4 {
    /// That of the body of a packet, which is at `start` of the frame.
    #[inline(always)]
    fn find(body: &[u8], protocol: u8, start: usize) -> Option<L4> {
        let (header, length) = match protocol {
            PROTOCOL_TCP => (20, body.len()),
            PROTOCOL_UDP => (8, usize::from(get16(body.first_chunk::<8>()?, 4))),
            _ => return None,
        };
        (header..=body.len()).contains(&length).then_some(L4 { start, end: start + length, protocol })
    }

    /// Where the checksum is.
    #[inline(always)]
    fn field(&self) -> usize {
        self.start + if self.protocol == PROTOCOL_TCP { 16 } else { 6 }
    }

    /// UDP may have none.
    #[inline(always)]
    fn is_unused(&self, frame: &[u8]) -> bool {
        self.protocol == PROTOCOL_UDP && get16(frame, self.field()) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::sum::checksum;
    use super::*;

    /// From port 1 to 2, without checksums.
    fn frame(tags: usize, ipv6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut l4 = match protocol {
            PROTOCOL_TCP => {
                [&[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 16, 0, 0, 0, 0, 0], payload].concat()
            }
            _ => [&[0, 1, 0, 2, 0, 8 + payload.len() as u8, 0, 0], payload].concat(),
        };
        let mut frame = vec![2; 12];
        (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 7]));
        if ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, l4.len() as u8, protocol, 64]);
            frame.extend((0..32).map(|n| n * 7));
        } else {
            let length = 20 + l4.len() as u8;
            frame.extend([
                8, 0, 0x45, 0, 0, length, 0, 0, 0, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2,
            ]);
        }
        frame.append(&mut l4);
        // The MAC's padding is no part of it.
        frame.resize(frame.len().max(60), 0xee);
        frame
    }

    const BOTH: Checksums = Checksums { ip: true, l4: true };

    /// The sums of RFC 791 and RFC 768, written out.
    #[test]
    fn a_datagram_by_hand() {
        let mut udp = frame(0, false, PROTOCOL_UDP, b"abc");
        BOTH.fill(&mut udp);
        let header = 0x4500 + 31 + 0x4011 + 0xc612u32 + 1 + 0xc612 + 2;
        let folded = (header & 0xffff) + (header >> 16);
        assert_eq!(get16(&udp, 24), !(folded as u16));
        let segment = 0xc612u32 + 1 + 0xc612 + 2 + 17 + 11 + 1 + 2 + 11 + 0x6162 + 0x6300;
        let folded = (segment & 0xffff) + (segment >> 16);
        assert_eq!(get16(&udp, 40), !(folded as u16));
    }

    /// TCP and UDP behind headers of options, as the kernel sends them for `IPV6_HOPOPTS` and `IPV6_DSTOPTS`.
    #[test]
    fn options_of_ipv6_are_passed() {
        use super::super::ipv6::{HOP_BY_HOP, OPTIONS};
        for protocol in [PROTOCOL_TCP, PROTOCOL_UDP] {
            let plain = frame(0, true, protocol, b"abc");
            let mut right = plain.clone();
            BOTH.fill(&mut right);
            let field = if protocol == PROTOCOL_TCP { 16 } else { 6 };
            let options = [&[OPTIONS, 0, 1, 4, 0, 0, 0, 0][..], &[protocol, 1], &[1; 14]].concat();
            let mut long = plain.clone();
            long.splice(54..54, options.iter().copied());
            long[20] = HOP_BY_HOP;
            long[19] += options.len() as u8;
            BOTH.fill(&mut long);
            let at = 54 + options.len() + field;
            assert_eq!(long[at..at + 2], right[54 + field..][..2], "the pseudo-header is the same");
            assert_eq!(Checksums::right(&long), Checksums { ip: false, l4: true });
            for (byte, why) in [(44, "a part of a packet"), (43, "a route")] {
                let mut other = long.clone();
                other[54] = byte;
                assert_eq!(Checksums::right(&other), Checksums::default(), "{why}");
            }
            long[55] = 255;
            assert_eq!(Checksums::right(&long), Checksums::default(), "a header beyond the packet");
        }
    }

    /// Who completes it only sums up what it covers.
    #[test]
    fn a_partial_checksum_is_completed_by_a_sum() {
        for (tags, ipv6, protocol) in [(0, false, PROTOCOL_TCP), (1, true, PROTOCOL_UDP)] {
            let mut made = frame(tags, ipv6, protocol, b"abc");
            assert_eq!(Partial::of(&made).is_none(), protocol == PROTOCOL_UDP, "UDP without one");
            BOTH.fill(&mut made);
            let Partial { start, field, pseudo } = Partial::of(&made).expect("a checksum");
            let end = start + if protocol == PROTOCOL_TCP { 23 } else { 11 };
            let right = get16(&made, field);
            put16(&mut made, field, pseudo);
            assert_eq!(checksum(&made[start..end]), right);
        }
    }

    #[test]
    fn what_is_filled_in_is_right_and_any_damage_is_seen() {
        for tags in 0..=2 {
            for ipv6 in [false, true] {
                for protocol in [PROTOCOL_TCP, PROTOCOL_UDP] {
                    for payload in [&b""[..], b"a", b"abc", &[0xff; 101]] {
                        let mut made = frame(tags, ipv6, protocol, payload);
                        let all = Checksums { ip: !ipv6, l4: true };
                        BOTH.fill(&mut made);
                        assert_eq!(
                            Checksums::right(&made),
                            all,
                            "{tags} {ipv6} {protocol} {}",
                            payload.len()
                        );
                        let last = 14 + 4 * tags + if ipv6 { 40 } else { 20 } + payload.len();
                        let last = last + if protocol == PROTOCOL_TCP { 19 } else { 7 };
                        made[last] ^= 1;
                        assert_eq!(Checksums::right(&made), Checksums { l4: false, ..all });
                        made[last] ^= 1;
                        if !ipv6 {
                            // The time to live.
                            made[14 + 4 * tags + 8] -= 1;
                            assert_eq!(Checksums::right(&made), Checksums { ip: false, l4: true });
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn udp_may_have_none_over_ipv4() {
        for ipv6 in [false, true] {
            let made = frame(0, ipv6, PROTOCOL_UDP, b"x");
            assert_eq!(Checksums::right(&made).l4, !ipv6);
        }
    }

    #[test]
    fn one_is_filled_in_without_the_other() {
        let blank = frame(0, false, PROTOCOL_TCP, b"x");
        for only in
            [Checksums { ip: true, l4: false }, Checksums { ip: false, l4: true }, Checksums::default()]
        {
            let mut made = blank.clone();
            only.fill(&mut made);
            assert_eq!(Checksums::right(&made), only);
            assert_eq!(made == blank, only == Checksums::default());
        }
    }

    /// Fragments, other protocols, lengths that lie, and frames cut anywhere have none, and nothing is written.
    #[test]
    fn what_is_not_there_is_left_alone() {
        let whole = frame(1, false, PROTOCOL_UDP, b"abcd");
        let changed = |at: usize, byte: u8| {
            let mut frame = whole.clone();
            frame[at] = byte;
            frame
        };
        let ip = 18;
        for (frame, has_ip) in [
            (changed(ip + 6, 0x20), true),
            (changed(ip + 7, 1), true),
            (changed(ip + 9, 47), true),
            (changed(ip + 3, 200), true),
            (changed(ip + 25, 7), true),
            (changed(ip + 25, 40), true),
            (changed(ip, 0x44), false),
            (changed(ip, 0x65), false),
            (changed(17, 6), false),
        ] {
            let mut filled = frame.clone();
            BOTH.fill(&mut filled);
            assert_eq!(Checksums::right(&filled), Checksums { ip: has_ip, l4: false }, "{frame:x?}");
            assert_eq!(filled[ip + 20..], frame[ip + 20..]);
        }
        for cut in 0..whole.len() {
            let mut frame = whole[..cut].to_vec();
            BOTH.fill(&mut frame);
            assert_eq!(Checksums::right(&frame).l4, cut >= ip + 32, "{cut}");
        }
    }
}
