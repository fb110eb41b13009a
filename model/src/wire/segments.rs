//! A message of TCP or UDP that is cut into frames: what the headers of each say (TSO, UDP GSO).

use super::checksum::{get16, ip_header, put16, Checksums};
use super::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use super::ipv4::{PROTOCOL_TCP, PROTOCOL_UDP};
use super::ipv6::behind_options;

/// Flags of TCP (RFC 9293 3.1, RFC 3168 6.1).
const FIN: u8 = 1;
const PSH: u8 = 1 << 3;
const CWR: u8 = 1 << 7;
/// Bytes of the IPv6 header, and of that of UDP.
const IPV6: usize = 40;
const UDP: usize = 8;

/// Where the headers of a message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// The IP header.
    ip: usize,
    is_ipv4: bool,
    /// The header of TCP or UDP.
    l4: usize,
    is_tcp: bool,
    /// The data.
    data: usize,
}

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its place among the frames, from 0.
    pub nth: u32,
    /// Bytes of the message before it.
    pub offset: u32,
    /// It is the last one.
    pub last: bool,
}

impl Template {
    /// Of headers of TCP that are all of `header`; `None` for others.
    pub fn of(header: &[u8]) -> Option<Template> {
        Template::find(header).filter(|found| found.is_tcp && found.data == header.len())
    }

    /// Of a message that begins with headers of Ethernet with at most two tags, of IPv4 that is no fragment or of IPv6 with no other
    /// extension headers than options, and of TCP or UDP; `None` for others.
    pub fn find(message: &[u8]) -> Option<Template> {
        let (ether_type, ip) = ip_header(message)?;
        let packet = message.get(ip..)?;
        let (is_ipv4, length, protocol) = match (ether_type, packet.first()? >> 4) {
            (ETHERTYPE_IPV4, 4) if packet.len() >= 20 => {
                let length = usize::from(packet[0] & 15) * 4;
                let whole = get16(packet, 6) & 0x3fff == 0;
                (true, length, Some(packet[9]).filter(|_| length >= 20 && whole)?)
            }
            (ETHERTYPE_IPV6, 6) => {
                let (protocol, options) = behind_options(*packet.get(6)?, packet.get(IPV6..)?)?;
                (false, IPV6 + options, protocol)
            }
            _ => return None,
        };
        let header = packet.get(length..)?;
        let bytes = match protocol {
            PROTOCOL_TCP => Some(usize::from(header.get(12)? >> 4) * 4).filter(|&bytes| bytes >= 20)?,
            PROTOCOL_UDP => UDP,
            _ => return None,
        };
        let l4 = ip + length;
        let found = Template { ip, is_ipv4, l4, is_tcp: protocol == PROTOCOL_TCP, data: l4 + bytes };
        (found.data <= message.len()).then_some(found)
    }

    /// Makes a frame of one that begins with these headers, and has the data of a part.
    pub fn finish(&self, frame: &mut [u8], part: Part) {
        let Template { ip, is_ipv4, l4, is_tcp, .. } = *self;
        let packet = frame.len() - ip;
        if is_ipv4 {
            put16(frame, ip + 2, packet as u16);
            put16(frame, ip + 4, get16(frame, ip + 4).wrapping_add(part.nth as u16));
        } else {
            put16(frame, ip + 4, (packet - IPV6) as u16);
        }
        if is_tcp {
            next_of_tcp(&mut frame[l4..], part);
        } else {
            put16(frame, l4 + 4, (ip + packet - l4) as u16);
        }
        Checksums { ip: true, l4: true }.fill(frame);
    }

    /// Bytes of the headers.
    pub fn bytes(&self) -> usize {
        self.data
    }
}

fn next_of_tcp(header: &mut [u8], part: Part) {
    if let Some(sequence) = header[4..].first_chunk_mut::<4>() {
        *sequence = u32::from_be_bytes(*sequence).wrapping_add(part.offset).to_be_bytes();
    }
    if part.nth != 0 {
        header[13] &= !CWR;
    }
    if !part.last {
        header[13] &= !(FIN | PSH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers with all flags of TCP, from sequence number 2^32 - 100 and identification 65535 on.
    fn header(tags: usize, ipv6: bool, options: usize) -> Vec<u8> {
        let mut header = vec![2; 12];
        (0..tags).for_each(|_| header.extend([0x81, 0, 0, 7]));
        if ipv6 {
            header.extend([0x86, 0xdd, 0x60, 0, 0, 0, 9, 9, PROTOCOL_TCP, 64]);
            header.extend([7; 32]);
        } else {
            header.extend([8, 0, 0x45, 0, 9, 9, 0xff, 0xff, 0x40, 0, 64, PROTOCOL_TCP, 9, 9]);
            header.extend([198, 18, 0, 1, 198, 18, 0, 2]);
        }
        header.extend([0, 1, 0, 2]);
        header.extend(100u32.wrapping_neg().to_be_bytes());
        header.extend([0, 0, 0, 0, 0x50 + (options as u8) * 4, 0xff, 16, 0, 9, 9, 0, 0]);
        header.resize(header.len() + options, 1);
        header
    }

    #[test]
    fn each_part_has_its_numbers_and_right_checksums() {
        for (tags, ipv6, options) in [(0, false, 0), (1, false, 12), (0, true, 0), (2, true, 40)] {
            let header = header(tags, ipv6, options);
            let template = Template::of(&header).expect("headers of TCP");
            assert_eq!(template.bytes(), header.len());
            for part in [
                Part { nth: 0, offset: 0, last: false },
                Part { nth: 1, offset: 101, last: false },
                Part { nth: 2, offset: 202, last: true },
                Part { nth: 0, offset: 0, last: true },
            ] {
                let mut frame = [&header[..], &[0xab; 101]].concat();
                template.finish(&mut frame, part);
                let ip = 14 + 4 * tags;
                let tcp = ip + if ipv6 { 40 } else { 20 };
                let length = (frame.len() - ip) as u16;
                if ipv6 {
                    assert_eq!(get16(&frame, ip + 4), length - 40);
                } else {
                    let identification = 0xffffu16.wrapping_add(part.nth as u16);
                    assert_eq!((get16(&frame, ip + 2), get16(&frame, ip + 4)), (length, identification));
                }
                let sequence = u32::from_be_bytes(*frame[tcp + 4..].first_chunk().expect("4 bytes"));
                assert_eq!(sequence, part.offset.wrapping_sub(100));
                let lost = if part.nth == 0 { 0 } else { 0x80 } | if part.last { 0 } else { 9 };
                assert_eq!(frame[tcp + 13], !lost);
                assert_eq!(Checksums::right(&frame), Checksums { ip: !ipv6, l4: true });
                assert_eq!(frame[header.len()..], [0xab; 101]);
            }
        }
    }

    #[test]
    fn other_headers_are_refused() {
        let good = header(1, false, 4);
        let ip = 18;
        let changed = |at: usize, byte: u8| {
            let mut header = good.clone();
            header[at] = byte;
            header
        };
        for (why, header) in [
            ("UDP", changed(ip + 9, 17)),
            ("a fragment", changed(ip + 6, 0x20)),
            ("a later fragment", changed(ip + 7, 1)),
            ("another version", changed(ip, 0x65)),
            ("a short IP header", changed(ip, 0x44)),
            ("a long IP header", changed(ip, 0x4f)),
            ("a short TCP header", changed(ip + 32, 0x50)),
            ("a long TCP header", changed(ip + 32, 0x70)),
            ("not IP", changed(17, 6)),
        ] {
            assert_eq!(Template::of(&header), None, "{why}");
        }
        for cut in 0..good.len() {
            assert_eq!(Template::of(&good[..cut]), None, "{cut} bytes");
        }
        let mut tags = header(2, false, 0);
        tags.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(Template::of(&tags), None, "three tags");
        let mut extension = header(0, true, 0);
        extension[20] = 44;
        assert_eq!(Template::of(&extension), None, "a part of a packet");
    }

    #[test]
    fn options_of_ipv6_are_in_each_part() {
        let mut header = header(0, true, 12);
        header[20] = 60;
        header.splice(54..54, [PROTOCOL_TCP, 1].into_iter().chain([1; 14]));
        let template = Template::of(&header).expect("headers of TCP");
        for nth in 0..2 {
            let mut frame = [&header[..], &[0xab; 100]].concat();
            template.finish(&mut frame, Part { nth, offset: nth * 100, last: nth != 0 });
            assert_eq!(get16(&frame, 18), 16 + 32 + 100);
            assert_eq!(Checksums::right(&frame), Checksums { ip: false, l4: true });
            assert_eq!(frame[54..70], header[54..70]);
        }
    }
}
