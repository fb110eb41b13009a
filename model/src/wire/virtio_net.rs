//! What the kernel says of a frame that it has not finished, or is to finish: struct virtio_net_hdr (linux/virtio_net.h; virtio 1.2,
//! 5.1.6), before each frame of a TAP interface or a packet socket that asks for it.

use super::sum::checksum;

/// The header, in the machine's order of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioNetHeader {
    /// [`NEEDS_CSUM`](Self::NEEDS_CSUM).
    pub flags: u8,
    /// How it is to be cut into frames: one of the `GSO_` constants, perhaps with [`GSO_ECN`](Self::GSO_ECN); 0: it is a frame.
    pub gso_type: u8,
    /// Bytes of its headers, a hint.
    pub hdr_len: u16,
    /// Most bytes of data in a frame.
    pub gso_size: u16,
    /// Where what the checksum covers begins.
    pub csum_start: u16,
    /// Where the checksum is, from there.
    pub csum_offset: u16,
}

impl VirtioNetHeader {
    /// Bytes of the header.
    pub const BYTES: usize = 10;
    /// The checksum is to be filled in; it has the sum of the pseudo-header in its place.
    pub const NEEDS_CSUM: u8 = 1;
    /// A message of TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// A message of TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// Datagrams of UDP of one length, but for the last.
    pub const GSO_UDP_L4: u8 = 5;
    /// It has a mark of congestion.
    pub const GSO_ECN: u8 = 0x80;

    /// That of these bytes.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> VirtioNetHeader {
        let [flags, gso_type, ..] = *bytes;
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        VirtioNetHeader {
            flags,
            gso_type,
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let words = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset].map(u16::to_ne_bytes);
        let [[a, b], [c, d], [e, f], [g, h]] = words;
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// How it is to be cut, without the mark of congestion.
    pub fn gso(&self) -> u8 {
        self.gso_type & !Self::GSO_ECN
    }

    /// Fills in the checksum of a frame, if that is to be done. False if there is no such place.
    pub fn finish(&self, frame: &mut [u8]) -> bool {
        if self.flags & Self::NEEDS_CSUM == 0 {
            return true;
        }
        let start = usize::from(self.csum_start);
        let at = start + usize::from(self.csum_offset);
        if at + 2 > frame.len() {
            return false;
        }
        // 0 would mean that there is none.
        let sum = match checksum(&frame[start..]) {
            0 => 0xffff,
            sum => sum,
        };
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_filled_in_where_the_header_says() {
        // Sixteen bits from 4 on; the pseudo-header's sum is 1.
        let mut frame = [9, 9, 9, 9, 0x12, 0x34, 0, 1, 0xff];
        let header = VirtioNetHeader { csum_start: 4, csum_offset: 2, ..VirtioNetHeader::default() };
        let before = frame;
        assert!(header.finish(&mut frame));
        assert_eq!(frame, before, "it is right");
        let header = VirtioNetHeader { flags: VirtioNetHeader::NEEDS_CSUM, ..header };
        assert!(header.finish(&mut frame));
        // 0x1234 + 1 + 0xff00 = 0x11135, which folds to 0x1136.
        assert_eq!(frame[6..8], (!0x1136u16).to_be_bytes());
        assert!(!VirtioNetHeader { csum_offset: 4, ..header }.finish(&mut frame), "beyond the end");
        assert_eq!(VirtioNetHeader::decode(&header.encode()), header);
    }
}
