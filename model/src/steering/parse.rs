//! The fields of a frame that rules ask for.

use fpga_regs::{FlowContext, FrameKind, FrameTags};

use crate::plain::plain;
use crate::wire::arp::ETHERTYPE_ARP;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_SERVICE, ETHERTYPE_VLAN, MOST_TAGS};
use crate::wire::ipv4::{PROTOCOL_TCP, PROTOCOL_UDP};
use crate::wire::ipv6::{FRAGMENT, HOP_BY_HOP, MOST_EXTENSIONS, OPTIONS, ROUTING};

/// Bytes of a frame that are looked at: more than any usual headers take.
const LOOKED_AT: usize = 192;

/// Where each field is in [`Fields`].
const DMAC: usize = 0;
const SMAC: usize = 6;
const ETHER_TYPE: usize = 12;
const VLAN: usize = 14;
pub(super) const SRC_IP: usize = 16;
pub(super) const DST_IP: usize = 32;
const FLOW_LABEL: usize = 48;
pub(super) const SRC_PORT: usize = 52;
const DST_PORT: usize = 54;
pub(super) const PROTOCOL: usize = 56;
const CLASS: usize = 57;
const HOPS: usize = 58;
pub(super) const VERSION: usize = 59;
/// Its VLAN tags: [`FrameTags`].
const TAGS: usize = 60;
/// 1 if the frame has ports.
pub(super) const PORTS: usize = 61;
/// 1 for a part of a packet. Rules take the first part by its ports; hashes take no part by them, so that all go to one
/// queue.
pub(super) const FRAGMENTED: usize = 62;

/// Bytes of them.
const FIELDS: usize = 64;

/// The fields of a frame, or of a rule, or its masks: numbers in the order of the wire, what is not there zero. A frame
/// is one of a rule if it is the rule's value under the mask.
#[derive(Clone, Copy, Debug, Eq)]
#[repr(C, align(8))]
pub struct Fields {
    bytes: [u8; FIELDS],
}

impl PartialEq for Fields {
    /// By words, without a call.
    #[inline]
    fn eq(&self, other: &Fields) -> bool {
        self.words().zip(other.words()).fold(0, |differ, (own, other)| differ | own ^ other) == 0
    }
}

impl Default for Fields {
    /// Zero.
    fn default() -> Fields {
        Fields { bytes: [0; FIELDS] }
    }
}

/// What is read of a frame, until all of it is: each in a place of its own, so that the words of [`Fields`] are written once.
#[derive(Default)]
struct Read {
    addresses: [u8; 12],
    ether_type: [u8; 2],
    vlan: [u8; 2],
    tags: FrameTags,
    src_ip: [u64; 2],
    dst_ip: [u64; 2],
    flow_label: [u8; 4],
    ports: [u8; 4],
    has_ports: bool,
    protocol: u8,
    class: u8,
    hops: u8,
    version: u8,
    fragmented: bool,
}

/// The words of an IPv6 address, in the order of the wire.
#[inline(always)]
fn words_of(address: &[u8; 16]) -> [u64; 2] {
    let word = |at: usize| address[at..].first_chunk().map_or(0, |&word| u64::from_le_bytes(word));
    [word(0), word(8)]
}

impl Read {
    #[inline(always)]
    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let (addresses, mut rest) = frame.split_first_chunk()?;
        self.addresses = *addresses;
        let mut ether_type;
        (ether_type, rest) = rest.split_first_chunk::<2>()?;
        for tag in 0..MOST_TAGS {
            let kind = match u16::from_be_bytes(*ether_type) {
                ETHERTYPE_VLAN => FrameTags::default(),
                ETHERTYPE_SERVICE => FrameTags::SERVICE,
                _ => break,
            };
            let tci;
            (tci, rest) = rest.split_first_chunk::<2>()?;
            if tag == 0 {
                self.vlan = *tci;
                self.tags = FrameTags::ANY | kind;
            } else {
                self.tags |= FrameTags::SECOND;
            }
            (ether_type, rest) = rest.split_first_chunk::<2>()?;
        }
        self.ether_type = *ether_type;
        match u16::from_be_bytes(*ether_type) {
            ETHERTYPE_IPV4 => self.read_ipv4(rest),
            ETHERTYPE_IPV6 => self.read_ipv6(rest),
            _ => None,
        }
    }

    #[inline(always)]
    fn read_ipv4(&mut self, packet: &[u8]) -> Option<()> {
        let header = packet.first_chunk::<20>()?;
        let length = usize::from(header[0] & 15) * 4;
        if header[0] >> 4 != 4 || length < header.len() {
            return None;
        }
        (self.version, self.class, self.hops, self.protocol) = (4, header[1], header[8], header[9]);
        let address = |at: usize| {
            [0, u64::from(u32::from_le_bytes(*header[at..].first_chunk().unwrap_or(&[0; 4]))) << 32]
        };
        (self.src_ip, self.dst_ip) = (address(12), address(16));
        // More fragments, and the offset.
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        self.fragmented = fragment != 0;
        let first = fragment & 0x1fff == 0;
        self.read_ports(packet.get(length..).filter(|_| first)?)
    }

    fn read_ipv6(&mut self, packet: &[u8]) -> Option<()> {
        let (header, mut rest) = packet.split_first_chunk::<40>()?;
        let [a, b, c, d, ..] = *header;
        if a >> 4 != 6 {
            return None;
        }
        (self.version, self.class, self.hops) = (6, a << 4 | b >> 4, header[7]);
        self.flow_label = [0, b & 15, c, d];
        self.src_ip = words_of(header[8..].first_chunk()?);
        self.dst_ip = words_of(header[24..].first_chunk()?);
        self.protocol = header[6];
        for _ in 0..MOST_EXTENSIONS {
            let length = match self.protocol {
                HOP_BY_HOP | ROUTING | OPTIONS => 8 + usize::from(*rest.get(1)?) * 8,
                FRAGMENT => 8,
                _ => break,
            };
            let (extension, after) = rest.split_at_checked(length)?;
            let mut first = true;
            if self.protocol == FRAGMENT {
                // The offset, two reserved bits, more fragments. Without either the packet is whole (RFC 6946).
                let fragment = u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9;
                self.fragmented |= fragment != 0;
                first = fragment >> 3 == 0;
            }
            (self.protocol, rest) = (extension[0], after);
            if !first {
                return None;
            }
        }
        self.read_ports(rest)
    }

    #[inline(always)]
    fn read_ports(&mut self, header: &[u8]) -> Option<()> {
        if matches!(self.protocol, PROTOCOL_TCP | PROTOCOL_UDP) {
            self.ports = *header.first_chunk()?;
            self.has_ports = true;
        }
        Some(())
    }

    #[inline(always)]
    fn fields(&self) -> Fields {
        let Read { addresses: a, ether_type: [e, f], vlan: [t, u], flow_label: [g, h, i, j], .. } = *self;
        let [k, l, m, n] = self.ports;
        let last = [self.protocol, self.class, self.hops, self.version];
        let flags = [self.tags.0, self.has_ports.into(), self.fragmented.into(), 0];
        let words = [
            u64::from_le_bytes([a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]]),
            u64::from_le_bytes([a[8], a[9], a[10], a[11], e, f, t, u]),
            self.src_ip[0],
            self.src_ip[1],
            self.dst_ip[0],
            self.dst_ip[1],
            u64::from_le_bytes([g, h, i, j, k, l, m, n]),
            u64::from(u32::from_le_bytes(last)) | u64::from(u32::from_le_bytes(flags)) << 32,
        ];
        let mut fields = Fields::default();
        fields
            .bytes
            .chunks_exact_mut(8)
            .zip(words)
            .for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        fields
    }
}

impl Fields {
    #[inline(always)]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&bytes);
    }

    /// The fields of a frame. Any bytes have some.
    #[inline(always)]
    pub fn of(frame: &[u8]) -> Fields {
        let mut read = Read::default();
        // As far as there are headers that make sense.
        let _ = read.read(&frame[..frame.len().min(LOOKED_AT)]);
        read.fields()
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
        // Who asks for a field of the tag wants one.
        let tagged = if rule.vlan_tci_mask() == 0 { FrameTags::default() } else { FrameTags::ANY };
        value.put(VLAN, rule.vlan_tci().to_be_bytes());
        mask.put(VLAN, rule.vlan_tci_mask().to_be_bytes());
        value.put(TAGS, [(rule.tags() | tagged).0]);
        mask.put(TAGS, [(rule.tags_mask() | tagged).0]);
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

    /// The mask of the fields that count even if no rule asks for them: where a frame goes, and what the kernel gets a copy of.
    pub fn always() -> Fields {
        let mut fields = Fields::default();
        fields.put(DMAC, [0xff; 6]);
        fields.put(ETHER_TYPE, [0xff; 2]);
        fields
    }

    /// The mask of the fields that hashes may be of.
    pub fn hashed() -> Fields {
        let mut fields = Fields::default();
        fields.put(SRC_IP, [0xff; 32]);
        fields.put(SRC_PORT, [0xff; 4]);
        [PROTOCOL, VERSION, PORTS, FRAGMENTED].into_iter().for_each(|field| fields.put(field, [0xff]));
        fields
    }

    /// A mask of the fields of either.
    pub fn union(&self, other: &Fields) -> Fields {
        let mut both = *self;
        both.bytes.iter_mut().zip(other.bytes).for_each(|(byte, other)| *byte |= other);
        both
    }

    /// These fields under a mask.
    #[inline]
    pub fn under(&self, mask: &Fields) -> Fields {
        let mut under = *self;
        under.bytes.iter_mut().zip(mask.bytes).for_each(|(byte, mask)| *byte &= mask);
        under
    }

    /// What all frames of a conversation have, which stay in order (IEEE 802.1AX 6.2.4): addresses, and ports where all
    /// parts of a packet have them.
    pub fn conversation(&self) -> Fields {
        let mut fields = *self;
        let [_, ports, fragmented] = self.get(TAGS);
        if ports == 0 || fragmented != 0 {
            fields.put(SRC_PORT, [0; 4]);
        }
        fields.put(VLAN, [self.bytes[VLAN] & 0xf, self.bytes[VLAN + 1]]);
        fields.put(FLOW_LABEL, [0; 4]);
        fields.put(CLASS, [0; 2]);
        fields.put(TAGS, [0; FIELDS - TAGS]);
        fields
    }

    /// A number that the fields of few others have, for `of`: its upper bits.
    #[inline]
    pub fn hash(&self, of: u64) -> u64 {
        // Odd, and as many as there are words: each product is found by itself.
        const FACTORS: [u64; FIELDS / 8] = [
            0x9e37_79b9_7f4a_7c15,
            0xbf58_476d_1ce4_e5b9,
            0x94d0_49bb_1331_11eb,
            0xd6e8_feb8_6659_fd93,
            0xa076_1d64_78bd_642f,
            0xe703_7ed1_a0b4_28db,
            0x8ebc_6af0_9c88_c6e3,
            0x5899_65cc_7537_4cc3,
        ];
        let products =
            self.words().zip(FACTORS).map(|(word, factor)| (word ^ word >> 32).wrapping_mul(factor));
        let sum = products.fold(of, u64::wrapping_add);
        (sum ^ sum >> 29).wrapping_mul(FACTORS[0])
    }

    #[inline]
    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes))
    }

    /// `N` bytes at one of the places above.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[at..at + N]);
        field
    }

    /// What kind of frame it is.
    pub fn kind(&self) -> FrameKind {
        let [protocol, _, _, version, _, ports, fragmented] = self.get(PROTOCOL);
        let any = match version {
            4 => FrameKind::IPV4,
            6 => FrameKind::IPV6,
            _ => return FrameKind::OTHER,
        };
        // The others of the same version follow it.
        let behind = match (fragmented != 0, ports != 0, protocol) {
            (true, ..) => 1,
            (false, true, PROTOCOL_TCP) => 2,
            (false, true, _) => 3,
            _ => 0,
        };
        FrameKind(any.0 + behind)
    }

    /// The destination address.
    pub fn dmac(&self) -> [u8; 6] {
        self.get(DMAC)
    }

    /// Whether the destination address is one of a group.
    pub fn is_multicast(&self) -> bool {
        self.dmac()[0] & 1 != 0
    }

    /// Its first tag, if that is one of 802.1Q.
    pub fn tag(&self) -> Option<u16> {
        let [tags] = self.get(TAGS);
        let tags = FrameTags(tags);
        let of_1q = tags.contains(FrameTags::ANY) && !tags.contains(FrameTags::SERVICE);
        of_1q.then(|| u16::from_be_bytes(self.get(VLAN)))
    }

    /// Whether it is one of ARP, tagged or not.
    pub fn is_arp(&self) -> bool {
        self.get(ETHER_TYPE) == ETHERTYPE_ARP.to_be_bytes()
    }
}

plain! {
    Fields { bytes }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
