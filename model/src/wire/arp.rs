//! Address resolution of IPv4 over Ethernet (RFC 826).

use super::bytes::{array, get16, put, put16};

/// EtherType of ARP.
pub const ETHERTYPE_ARP: u16 = 0x0806;

const ETHERNET: u16 = 1;
const IPV4: u16 = 0x0800;

/// A request or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Asks; otherwise answers.
    pub request: bool,
    /// Who sends it.
    pub sender_mac: [u8; 6],
    /// The sender's address.
    pub sender: [u8; 4],
    /// Who is asked for, in an answer; zero in a request.
    pub target_mac: [u8; 6],
    /// Whose Ethernet address is asked for, or to whom it is told.
    pub target: [u8; 4],
}

impl Arp {
    /// Size of the packet.
    pub const BYTES: usize = 28;

    /// Reads a packet; none if it is not of IPv4 over Ethernet, or of another operation.
    pub fn decode(b: &[u8; Self::BYTES]) -> Option<Arp> {
        if get16(b, 0) != ETHERNET || get16(b, 2) != IPV4 || b[4..6] != [6, 4] {
            return None;
        }
        let request = match get16(b, 6) {
            1 => true,
            2 => false,
            _ => return None,
        };
        Some(Arp {
            request,
            sender_mac: array(b, 8),
            sender: array(b, 14),
            target_mac: array(b, 18),
            target: array(b, 24),
        })
    }

    /// Writes the packet.
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        put16(out, 0, ETHERNET);
        put16(out, 2, IPV4);
        put(out, 4, &[6, 4]);
        put16(out, 6, if self.request { 1 } else { 2 });
        put(out, 8, &self.sender_mac);
        put(out, 14, &self.sender);
        put(out, 18, &self.target_mac);
        put(out, 24, &self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of Linux 6.12.
    #[test]
    fn a_request_and_its_answer() {
        let request = Arp {
            request: true,
            sender_mac: [2, 0, 0, 0, 0, 0x64],
            sender: [198, 18, 0, 100],
            target_mac: [0; 6],
            target: [198, 18, 0, 1],
        };
        let mut bytes = [0xee; Arp::BYTES];
        request.encode(&mut bytes);
        assert_eq!(
            bytes,
            [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0x64, 198, 18, 0, 100, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1]
        );
        assert_eq!(Arp::decode(&bytes), Some(request));
        bytes[7] = 2;
        assert_eq!(Arp::decode(&bytes), Some(Arp { request: false, ..request }));
        for (at, wrong) in [(7, 3), (1, 6), (2, 0x86), (4, 8), (5, 16)] {
            let mut bytes = bytes;
            bytes[at] = wrong;
            assert_eq!(Arp::decode(&bytes), None);
        }
    }
}
