//! The fields of a frame that rules ask for.

use fpga_regs::FlowContext;

use crate::plain::plain;
use crate::wire::arp::ETHERTYPE_ARP;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_SERVICE, ETHERTYPE_VLAN, MOST_TAGS};
use crate::wire::ipv4::{PROTOCOL_TCP, PROTOCOL_UDP};
use crate::wire::Ethernet;

/// Bytes of a frame that are looked at: more than any usual headers take.
pub const LOOKED_AT: usize = 192;

/// Most IPv6 extension headers that are passed.
const MOST_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const OPTIONS: u8 = 60;

/// Where each field is in [`Fields`].
const DMAC: usize = 0;
const SMAC: usize = 6;
const ETHER_TYPE: usize = 12;
const VLAN: usize = 14;
pub(super) const SRC_IP: usize = 16;
pub(super) const DST_IP: usize = 32;
const FLOW_LABEL: usize = 48;
pub(super) const SRC_PORT: usize = 52;
pub(super) const DST_PORT: usize = 54;
pub(super) const PROTOCOL: usize = 56;
const CLASS: usize = 57;
const HOPS: usize = 58;
pub(super) const VERSION: usize = 59;
/// What the frame has: 1 if it is there.
const TAGGED: usize = 60;
pub(super) const PORTS: usize = 61;
/// 1 for a part of a packet. Rules take the first part by its ports; hashes take no part by them, so that all go to one
/// queue.
pub(super) const FRAGMENTED: usize = 62;

/// The fields of a frame, or of a rule, or its masks: numbers in the order of the wire, what is not there zero. A frame
/// is one of a rule if it is the rule's value under the mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Fields {
    words: [u64; 8],
}

impl Fields {
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        for (n, byte) in bytes.into_iter().enumerate() {
            let (word, shift) = ((at + n) / 8, (at + n) % 8 * 8);
            self.words[word] = self.words[word] & !(0xff << shift) | u64::from(byte) << shift;
        }
    }

    /// The fields of a frame. Any bytes have some.
    pub fn of(frame: &[u8]) -> Fields {
        let mut fields = Fields::default();
        // As far as there are headers that make sense.
        let _ = fields.read(&frame[..frame.len().min(LOOKED_AT)]);
        fields
    }

    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let (addresses, mut rest) = frame.split_at_checked(Ethernet::BYTES - 2)?;
        self.put(DMAC, *addresses.first_chunk::<6>()?);
        self.put(SMAC, *addresses.last_chunk::<6>()?);
        let mut ether_type;
        (ether_type, rest) = rest.split_first_chunk::<2>()?;
        for tag in 0..MOST_TAGS {
            if !matches!(u16::from_be_bytes(*ether_type), ETHERTYPE_VLAN | ETHERTYPE_SERVICE) {
                break;
            }
            let tci;
            (tci, rest) = rest.split_first_chunk::<2>()?;
            if tag == 0 {
                self.put(VLAN, *tci);
                self.put(TAGGED, [1]);
            }
            (ether_type, rest) = rest.split_first_chunk::<2>()?;
        }
        self.put(ETHER_TYPE, *ether_type);
        match u16::from_be_bytes(*ether_type) {
            ETHERTYPE_IPV4 => self.read_ipv4(rest),
            ETHERTYPE_IPV6 => self.read_ipv6(rest),
            _ => None,
        }
    }

    fn read_ipv4(&mut self, packet: &[u8]) -> Option<()> {
        let header = packet.first_chunk::<20>()?;
        let length = usize::from(header[0] & 15) * 4;
        if header[0] >> 4 != 4 || length < header.len() {
            return None;
        }
        self.put(VERSION, [4]);
        self.put(CLASS, [header[1]]);
        self.put(HOPS, [header[8]]);
        self.put(PROTOCOL, [header[9]]);
        self.put(SRC_IP + 12, *header[12..].first_chunk::<4>()?);
        self.put(DST_IP + 12, *header[16..].first_chunk::<4>()?);
        // More fragments, and the offset.
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        self.put(FRAGMENTED, [(fragment != 0).into()]);
        let first = fragment & 0x1fff == 0;
        self.read_ports(header[9], packet.get(length..).filter(|_| first)?)
    }

    fn read_ipv6(&mut self, packet: &[u8]) -> Option<()> {
        let (header, mut rest) = packet.split_first_chunk::<40>()?;
        let [a, b, c, d, ..] = *header;
        if a >> 4 != 6 {
            return None;
        }
        self.put(VERSION, [6]);
        self.put(CLASS, [a << 4 | b >> 4]);
        self.put(FLOW_LABEL, [0, b & 15, c, d]);
        self.put(HOPS, [header[7]]);
        self.put(SRC_IP, *header[8..].first_chunk::<16>()?);
        self.put(DST_IP, *header[24..].first_chunk::<16>()?);
        let mut next = header[6];
        self.put(PROTOCOL, [next]);
        for _ in 0..MOST_EXTENSIONS {
            let length = match next {
                HOP_BY_HOP | ROUTING | OPTIONS => 8 + usize::from(*rest.get(1)?) * 8,
                FRAGMENT => 8,
                _ => break,
            };
            let (extension, after) = rest.split_at_checked(length)?;
            let mut first = true;
            if next == FRAGMENT {
                // The offset, two reserved bits, more fragments. Without either the packet is whole (RFC 6946).
                let fragment = u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9;
                if fragment != 0 {
                    self.put(FRAGMENTED, [1]);
                }
                first = fragment >> 3 == 0;
            }
            (next, rest) = (extension[0], after);
            self.put(PROTOCOL, [next]);
            if !first {
                return None;
            }
        }
        self.read_ports(next, rest)
    }

    fn read_ports(&mut self, protocol: u8, header: &[u8]) -> Option<()> {
        if !matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP) {
            return None;
        }
        let [a, b, c, d] = *header.first_chunk::<4>()?;
        self.put(SRC_PORT, [a, b]);
        self.put(DST_PORT, [c, d]);
        self.put(PORTS, [1]);
        Some(())
    }

    /// The value and the mask of a rule. What a frame need not have to match is in neither.
    pub fn of_rule(rule: &FlowContext) -> (Fields, Fields) {
        let (mut value, mut mask) = (Fields::default(), Fields::default());
        value.put(DMAC, rule.dmac());
        mask.put(DMAC, rule.dmac_mask());
        value.put(SMAC, rule.smac());
        mask.put(SMAC, rule.smac_mask());
        value.put(ETHER_TYPE, rule.ether_type().to_be_bytes());
        mask.put(ETHER_TYPE, rule.ether_type_mask().to_be_bytes());
        if rule.vlan_tci_mask() != 0 {
            value.put(VLAN, rule.vlan_tci().to_be_bytes());
            mask.put(VLAN, rule.vlan_tci_mask().to_be_bytes());
            value.put(TAGGED, [1]);
            mask.put(TAGGED, [1]);
        }
        if rule.ip_version() != 0 {
            value.put(VERSION, [rule.ip_version()]);
            mask.put(VERSION, [0xff]);
            value.put(SRC_IP, rule.src_ip());
            mask.put(SRC_IP, rule.src_ip_mask());
            value.put(DST_IP, rule.dst_ip());
            mask.put(DST_IP, rule.dst_ip_mask());
            value.put(FLOW_LABEL, rule.flow_label().to_be_bytes());
            mask.put(FLOW_LABEL, rule.flow_label_mask().to_be_bytes());
            value.put(PROTOCOL, [rule.protocol()]);
            mask.put(PROTOCOL, [rule.protocol_mask()]);
            value.put(CLASS, [rule.traffic_class()]);
            mask.put(CLASS, [rule.traffic_class_mask()]);
            value.put(HOPS, [rule.hop_limit()]);
            mask.put(HOPS, [rule.hop_limit_mask()]);
            if rule.src_port_mask() | rule.dst_port_mask() != 0 {
                value.put(SRC_PORT, rule.src_port().to_be_bytes());
                mask.put(SRC_PORT, rule.src_port_mask().to_be_bytes());
                value.put(DST_PORT, rule.dst_port().to_be_bytes());
                mask.put(DST_PORT, rule.dst_port_mask().to_be_bytes());
                value.put(PORTS, [1]);
                mask.put(PORTS, [1]);
            }
        }
        (value.under(&mask), mask)
    }

    /// These fields under a mask.
    pub fn under(&self, mask: &Fields) -> Fields {
        Fields { words: std::array::from_fn(|n| self.words[n] & mask.words[n]) }
    }

    /// A number that the fields of few others have, for `of`.
    pub fn hash(&self, of: u64) -> u64 {
        let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.words.iter().fold(of, mix).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// `N` bytes at one of the places above.
    pub(super) fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|n| self.words[(at + n) / 8].to_le_bytes()[(at + n) % 8])
    }

    /// The destination address.
    pub fn dmac(&self) -> [u8; 6] {
        let [a, b, c, d, e, f, ..] = self.words[0].to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// Whether the destination address is one of a group.
    pub fn is_multicast(&self) -> bool {
        self.dmac()[0] & 1 != 0
    }

    /// Whether it is one of ARP, tagged or not.
    pub fn is_arp(&self) -> bool {
        (self.words[ETHER_TYPE / 8] >> (ETHER_TYPE % 8 * 8)) as u16 == ETHERTYPE_ARP.swap_bytes()
    }
}

plain! {
    Fields { words }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with these headers after the addresses.
    fn frame(after: &[&[u8]]) -> Vec<u8> {
        let mut frame = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        after.iter().for_each(|part| frame.extend_from_slice(part));
        frame
    }

    fn ipv4(protocol: u8, fragment: u16, ports: &[u8]) -> Vec<u8> {
        let [high, low] = fragment.to_be_bytes();
        let mut packet = vec![0x46, 0xb8, 0, 0, 0, 0, high, low, 64, protocol, 0, 0];
        packet.extend([198, 18, 0, 1, 198, 18, 0, 2, 1, 1, 1, 0]);
        packet.extend(ports);
        packet
    }

    fn rule() -> FlowContext {
        FlowContext::new().with_port(1)
    }

    fn takes(rule: FlowContext, frame: &[u8]) -> bool {
        let (value, mask) = Fields::of_rule(&rule);
        Fields::of(frame).under(&mask) == value
    }

    #[test]
    fn each_field_decides() {
        let ports = [0x12, 0x34, 0x10, 0xe1];
        let tagged = frame(&[&[0x81, 0, 0xa0, 0x6b, 8, 0], &ipv4(17, 0, &ports)]);
        let mut src_ip = [0; 16];
        src_ip[12..].copy_from_slice(&[198, 18, 0, 1]);
        let all = rule()
            .with_dmac([1, 2, 3, 4, 5, 6])
            .with_dmac_mask([0xff; 6])
            .with_smac([7, 8, 9, 10, 11, 12])
            .with_smac_mask([0xff; 6])
            .with_ether_type(0x800)
            .with_ether_type_mask(0xffff)
            .with_vlan_tci(0x6b)
            .with_vlan_tci_mask(0xfff)
            .with_ip_version(4)
            .with_src_ip(src_ip)
            .with_src_ip_mask([0xff; 16])
            .with_traffic_class(0xb8)
            .with_traffic_class_mask(0xff)
            .with_hop_limit(64)
            .with_hop_limit_mask(0xff)
            .with_protocol(17)
            .with_protocol_mask(0xff)
            .with_src_port(0x1234)
            .with_src_port_mask(0xffff)
            .with_dst_port(4321)
            .with_dst_port_mask(0xffff);
        assert!(takes(all, &tagged));
        for other in [
            all.with_dmac([1, 2, 3, 4, 5, 7]),
            all.with_smac([7, 8, 9, 10, 11, 13]),
            all.with_ether_type(0x86dd),
            all.with_vlan_tci(0x6c),
            all.with_ip_version(6),
            all.with_src_ip([0; 16]),
            all.with_traffic_class(0),
            all.with_hop_limit(1),
            all.with_protocol(6),
            all.with_src_port(1),
            all.with_dst_port(1),
        ] {
            assert!(!takes(other, &tagged), "{other:?}");
        }
        assert!(takes(all.with_vlan_tci(0xf06b), &tagged), "not of the mask");
        let plain = frame(&[&[8, 0], &ipv4(17, 0, &ports)]);
        assert!(!takes(all, &plain) && takes(all.with_vlan_tci_mask(0), &plain));
    }

    #[test]
    fn what_a_frame_does_not_have_is_not_zero() {
        let untagged = frame(&[&[8, 6]]);
        assert!(!takes(rule().with_vlan_tci_mask(0xfff), &untagged));
        let no_port = rule().with_ip_version(4).with_dst_port_mask(0xffff);
        assert!(!takes(no_port, &frame(&[&[8, 0], &ipv4(1, 0, &[0; 8])])), "ICMP");
        assert!(takes(no_port, &frame(&[&[8, 0], &ipv4(17, 0x2000, &[0; 8])])), "a first fragment");
        assert!(!takes(no_port, &frame(&[&[8, 0], &ipv4(17, 1, &[0; 8])])), "a later one");
    }

    #[test]
    fn headers_are_found_behind_tags_and_extensions() {
        let mut packet = vec![0x6a, 0xb1, 0x23, 0x45, 0, 0, HOP_BY_HOP, 9];
        packet.extend([0xaa; 32]);
        packet.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([PROTOCOL_TCP, 0, 0, 1, 0, 0, 0, 7]);
        packet.extend([0, 80, 1, 187]);
        let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x86, 0xdd];
        let frame = frame(&[&tags, &packet]);
        let asks = rule()
            .with_vlan_tci(5)
            .with_vlan_tci_mask(0xffff)
            .with_ether_type(0x86dd)
            .with_ether_type_mask(0xffff)
            .with_ip_version(6)
            .with_dst_ip([0xaa; 16])
            .with_dst_ip_mask([0xff; 16])
            .with_flow_label(0x12345)
            .with_flow_label_mask(0xf_ffff)
            .with_traffic_class(0xab)
            .with_traffic_class_mask(0xff)
            .with_hop_limit(9)
            .with_hop_limit_mask(0xff)
            .with_protocol(PROTOCOL_TCP)
            .with_protocol_mask(0xff)
            .with_dst_port(443)
            .with_dst_port_mask(0xffff);
        assert!(takes(asks, &frame));
    }

    proptest! {
        #[test]
        fn any_bytes_have_fields(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let fields = Fields::of(&bytes);
            let all = Fields { words: [u64::MAX; 8] };
            prop_assert_eq!(fields.under(&all), fields);
        }

        /// Headers that are nearly right, cut anywhere, with lengths that lie.
        #[test]
        fn nearly_right_bytes_have_fields(
            kind in 0..4usize,
            noise in proptest::collection::vec((0..120usize, any::<u8>()), 0..6),
            cut in 0..130usize,
        ) {
            let start: &[u8] = [&[8u8, 0][..], &[0x86, 0xdd], &[0x81, 0, 0, 1, 8, 0], &[0x88, 0xa8, 0, 1]][kind];
            let mut bytes = frame(&[start, &[0x45; 100]]);
            for (at, byte) in noise {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            bytes.truncate(cut);
            let fields = Fields::of(&bytes);
            if bytes.len() >= 6 {
                prop_assert!(bytes.len() < 12 || fields.dmac()[..] == bytes[..6]);
            }
        }
    }
}
