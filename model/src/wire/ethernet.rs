//! Ethernet II header and 802.1Q tag.

use super::bytes::{get16, put, put16};

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of RoCE version 1 (annex A16).
pub const ETHERTYPE_ROCE: u16 = 0x8915;
/// Tag protocol identifier of an 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of a service tag (802.1ad).
pub const ETHERTYPE_SERVICE: u16 = 0x88a8;
/// Most tags of a frame that are passed to find what is behind them.
pub const MOST_TAGS: usize = 2;

/// Bytes of the shortest frame without its check sequence. The sender's MAC pads shorter ones with zeros (IEEE 802.3 4.2.8).
pub const MIN_FRAME: usize = 60;

/// Bytes of the two addresses, behind which tags are.
pub const ADDRESSES: usize = 12;

/// Inserts an 802.1Q tag into a frame, whose last [`Ethernet::TAG_BYTES`] bytes are room for it.
pub fn insert_tag(frame: &mut [u8], tci: u16) {
    insert_tag_of(frame, ETHERTYPE_VLAN, tci);
}

/// As [`insert_tag`], a tag of this EtherType.
pub fn insert_tag_of(frame: &mut [u8], kind: u16, tci: u16) {
    let behind = ADDRESSES + Ethernet::TAG_BYTES;
    frame.copy_within(ADDRESSES..frame.len() - Ethernet::TAG_BYTES, behind);
    frame[ADDRESSES..ADDRESSES + 2].copy_from_slice(&kind.to_be_bytes());
    frame[ADDRESSES + 2..behind].copy_from_slice(&tci.to_be_bytes());
}

/// Ethernet header, with at most one 802.1Q tag and without frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ethernet {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// Tag control information (priority, drop eligible, VLAN id), if tagged.
    pub vlan: Option<u16>,
    /// EtherType of the payload, after the tag.
    pub ethertype: u16,
}

impl Ethernet {
    /// Size without a tag.
    pub const BYTES: usize = 14;
    /// Size of the tag.
    pub const TAG_BYTES: usize = 4;

    /// Size on the wire.
    #[inline]
    pub const fn header_len(&self) -> usize {
        Self::BYTES + if self.vlan.is_some() { Self::TAG_BYTES } else { 0 }
    }

    /// Splits the header off a frame; `None` if the frame is too short.
    #[inline]
    pub fn decode(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (b, rest) = frame.split_first_chunk::<{ Self::BYTES }>()?;
        let mut header = Self {
            dst: [b[0], b[1], b[2], b[3], b[4], b[5]],
            src: [b[6], b[7], b[8], b[9], b[10], b[11]],
            vlan: None,
            ethertype: get16(b, 12),
        };
        if header.ethertype != ETHERTYPE_VLAN {
            return Some((header, rest));
        }
        let (tag, rest) = rest.split_first_chunk::<{ Self::TAG_BYTES }>()?;
        header.vlan = Some(get16(tag, 0));
        header.ethertype = get16(tag, 2);
        Some((header, rest))
    }

    /// Writes the header at the start of `out` and returns the rest; `None` if it is too short.
    #[inline]
    pub fn encode<'a>(&self, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (b, rest) = out.split_first_chunk_mut::<{ Self::BYTES }>()?;
        put(b, 0, &self.dst);
        put(b, 6, &self.src);
        let Some(tci) = self.vlan else {
            put16(b, 12, self.ethertype);
            return Some(rest);
        };
        put16(b, 12, ETHERTYPE_VLAN);
        let (tag, rest) = rest.split_first_chunk_mut::<{ Self::TAG_BYTES }>()?;
        put16(tag, 0, tci);
        put16(tag, 2, self.ethertype);
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tagged_and_untagged() {
        let mut header = Ethernet {
            dst: [1, 2, 3, 4, 5, 6],
            src: [7, 8, 9, 10, 11, 12],
            vlan: None,
            ethertype: ETHERTYPE_IPV4,
        };
        let mut out = [0xee; 20];
        assert_eq!(header.encode(&mut out).unwrap().len(), 6);
        assert_eq!(out[..14], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0]);
        assert_eq!(Ethernet::decode(&out).unwrap().0, header);

        header.vlan = Some(0x6064);
        assert_eq!(header.encode(&mut out).unwrap().len(), 2);
        assert_eq!(out[12..18], [0x81, 0, 0x60, 0x64, 8, 0]);
        assert_eq!(Ethernet::decode(&out).unwrap().0, header);
        assert_eq!(header.header_len(), 18);

        assert!(Ethernet::decode(&out[..17]).is_none());
        assert!(header.encode(&mut out[..17]).is_none());
    }
}
