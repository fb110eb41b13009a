//! Neighbour discovery of IPv6 (RFC 4861): what ARP is for IPv4. Messages are built and read with their IPv6 header.

use super::bytes::{array, get16, put16};
use super::sum::{self, fold};

const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// A router has not forwarded the packet: what comes from elsewhere is not believed.
const HOPS: u8 = 255;
const IPV6: usize = 40;
/// Of an advertisement: it answers a question, and what was known before is no longer true.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// Options that carry an Ethernet address: of the source of a question, of the target of an answer.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// A question for a neighbour's Ethernet address, or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discovery {
    /// Asks; otherwise answers.
    pub request: bool,
    /// The IPv6 address that it comes from. Unspecified where a host asks whether an address is free.
    pub source: [u8; 16],
    /// The IPv6 address that it goes to.
    pub destination: [u8; 16],
    /// Whose Ethernet address is meant.
    pub target: [u8; 16],
    /// The Ethernet address of who asks, or of the target.
    pub mac: Option<[u8; 6]>,
    /// Of an answer: it takes the place of another address that was known before. One for somebody else (a proxy's) does not.
    pub overrides: bool,
}

/// The group that a host which has `address` listens to for such questions (RFC 4291, 2.7.1).
pub fn solicited_node(address: &[u8; 16]) -> [u8; 16] {
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(&address[13..]);
    group
}

impl Discovery {
    /// Bytes of a message with an Ethernet address, from the IPv6 header on.
    pub const BYTES: usize = IPV6 + 32;

    /// Reads a message from its IPv6 header on; none if it is something else, or damaged, or from elsewhere.
    pub fn decode(packet: &[u8]) -> Option<Discovery> {
        let (ip, rest) = packet.split_first_chunk::<IPV6>()?;
        let body = rest.get(..usize::from(get16(ip, 4)))?;
        let (fixed, mut options) = body.split_first_chunk::<24>()?;
        let request = match fixed[0] {
            SOLICITATION => true,
            ADVERTISEMENT => false,
            _ => return None,
        };
        let wrong = ip[0] >> 4 != 6 || ip[6] != ICMPV6 || ip[7] != HOPS || fixed[1] != 0;
        if wrong || sum(ip, body) != 0xffff {
            return None;
        }
        let mut mac = None;
        while let Some(([kind, units], _)) = options.split_first_chunk::<2>() {
            let (option, next) =
                options.split_at_checked(usize::from(*units) * 8).filter(|o| !o.0.is_empty())?;
            if *kind == if request { SOURCE } else { TARGET } && *units == 1 {
                mac = option[2..].try_into().ok();
            }
            options = next;
        }
        let (source, destination) = (array(ip, 8), array(ip, 24));
        let overrides = !request && fixed[4] & OVERRIDE != 0;
        Some(Discovery { request, source, destination, target: array(fixed, 8), mac, overrides })
    }

    /// Writes the message of a sender with the Ethernet address `mac`, whatever [`Discovery::mac`] is.
    pub fn encode(&self, mac: [u8; 6], out: &mut [u8; Self::BYTES]) {
        *out = [0; Self::BYTES];
        out[0] = 6 << 4;
        put16(out, 4, 32);
        (out[6], out[7]) = (ICMPV6, HOPS);
        out[8..24].copy_from_slice(&self.source);
        out[24..40].copy_from_slice(&self.destination);
        out[40] = if self.request { SOLICITATION } else { ADVERTISEMENT };
        if !self.request {
            let multicast = self.destination[0] == 0xff;
            out[44] = if self.overrides { OVERRIDE } else { 0 } | if multicast { 0 } else { SOLICITED };
        }
        out[48..64].copy_from_slice(&self.target);
        (out[64], out[65]) = (if self.request { SOURCE } else { TARGET }, 1);
        out[66..].copy_from_slice(&mac);
        let (ip, body) = out.split_at(IPV6);
        let checksum = !sum(ip, body);
        put16(out, 42, checksum);
    }
}

/// The one's complement sum of a message and its pseudo-header (RFC 8200, 8.1); all ones if it has its checksum.
fn sum(ip: &[u8], body: &[u8]) -> u16 {
    fold(sum::sum(&ip[8..40]) + sum::sum(body) + body.len() as u64 + u64::from(ICMPV6))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fd56:42::100 asks for fd56:42::1, as Linux 6.12 sent it, after the Ethernet header.
    #[rustfmt::skip]
    const ASKED: [u8; Discovery::BYTES] = [
        0x60, 0, 0, 0, 0, 0x20, 0x3a, 0xff,
        0xfd, 0x56, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0,
        0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1,
        0x87, 0, 0x7b, 7, 0, 0, 0, 0, 0xfd, 0x56, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        1, 1, 2, 0, 0, 0, 0, 0x64,
    ];
    const ASKER: [u8; 6] = [2, 0, 0, 0, 0, 0x64];

    fn asked() -> Discovery {
        let address = |end: [u8; 2]| {
            let mut address = [0xfd, 0x56, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            address[14..].copy_from_slice(&end);
            address
        };
        let (source, target) = (address([1, 0]), address([0, 1]));
        Discovery {
            request: true,
            source,
            destination: solicited_node(&target),
            target,
            mac: Some(ASKER),
            overrides: false,
        }
    }

    #[test]
    fn questions_and_answers_come_back() {
        let question = asked();
        let mut bytes = [0; Discovery::BYTES];
        question.encode(ASKER, &mut bytes);
        assert_eq!(bytes, ASKED);
        assert_eq!(Discovery::decode(&bytes), Some(question));
        for overrides in [true, false] {
            let answer = Discovery {
                request: false,
                source: question.target,
                destination: question.source,
                mac: Some([2, 0, 0, 0, 0, 1]),
                overrides,
                ..question
            };
            answer.encode([2, 0, 0, 0, 0, 1], &mut bytes);
            assert_eq!(Discovery::decode(&bytes), Some(answer));
        }
    }

    #[test]
    fn what_is_damaged_or_forwarded_is_not_believed() {
        let good = ASKED;
        for at in 0..good.len() {
            let mut bytes = good;
            bytes[at] ^= 0x10;
            // The header's traffic class and flow label are not checked.
            let same = (1..4).contains(&at);
            assert_eq!(Discovery::decode(&bytes).is_some(), same, "byte {at}");
        }
        for len in 0..good.len() {
            assert_eq!(Discovery::decode(&good[..len]), None);
        }
    }
}
