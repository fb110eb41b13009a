//! The fields of a frame that rules ask for.

use fpga_regs::{FlowContext, FrameKind, FrameTags};

use crate::plain::Plain;
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
/// 1 if the frame has ports. Behind it is 1 for a part of a packet.
pub(super) const PORTS: usize = 61;

/// Bytes of them.
const FIELDS: usize = 64;

/// The fields of a frame, or of a rule, or its masks: numbers in the order of the wire, what is not there zero. A frame
/// is one of a rule if it is the rule's value under the mask.
///
/// They are words, of which the first byte is the lowest, so that what has just been read stays in registers: a load that
/// spans recent stores is not forwarded and stalls until all before them are done, also those to lines of other cores.
#[derive(Clone, Copy, Debug, Default, Eq, Plain)]
#[repr(C)]
pub struct Fields {
    words: [u64; FIELDS / 8],
}

impl PartialEq for Fields {
    /// By words, without a call.
    #[inline]
    fn eq(&self, other: &Fields) -> bool {
        self.words.iter().zip(other.words).fold(0, |differ, (own, other)| differ | own ^ other) == 0
    }
}

/// What is read of a frame, until all of it is: bytes in the order of the wire, of which the first is the lowest.
#[derive(Default)]
struct Read {
    addresses: (u64, u32),
    ether_type: u16,
    vlan: u16,
    tags: FrameTags,
    src_ip: [u64; 2],
    dst_ip: [u64; 2],
    flow_label: u32,
    ports: u32,
    has_ports: bool,
    protocol: u8,
    class: u8,
    hops: u8,
    version: u8,
    fragmented: bool,
}

/// Eight bytes of a header that has them.
#[inline(always)]
fn word(header: &[u8], at: usize) -> u64 {
    header[at..].first_chunk().map_or(0, |&word| u64::from_le_bytes(word))
}

/// Four bytes of a header that has them.
#[inline(always)]
fn half(header: &[u8], at: usize) -> u32 {
    header[at..].first_chunk().map_or(0, |&half| u32::from_le_bytes(half))
}

impl Read {
    #[inline(always)]
    fn read(&mut self, frame: &[u8]) -> Option<()> {
        let (addresses, mut rest) = frame.split_first_chunk::<12>()?;
        self.addresses = (word(addresses, 0), half(addresses, 8));
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
                self.vlan = u16::from_le_bytes(*tci);
                self.tags = FrameTags::ANY | kind;
            } else {
                self.tags |= FrameTags::SECOND;
            }
            (ether_type, rest) = rest.split_first_chunk::<2>()?;
        }
        self.ether_type = u16::from_le_bytes(*ether_type);
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
        let address = |at: usize| [0, u64::from(half(header, at)) << 32];
        (self.src_ip, self.dst_ip) = (address(12), address(16));
        // More fragments, or an offset.
        self.fragmented = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        self.read_ports(packet.get(length..)?)
    }

    // Inlined, as its caller, so that nothing of `self` has to be in memory.
    #[inline(always)]
    fn read_ipv6(&mut self, packet: &[u8]) -> Option<()> {
        let (header, mut rest) = packet.split_first_chunk::<40>()?;
        let [a, b, c, d, ..] = *header;
        if a >> 4 != 6 {
            return None;
        }
        (self.version, self.class, self.hops) = (6, a << 4 | b >> 4, header[7]);
        self.flow_label = u32::from_le_bytes([0, b & 15, c, d]);
        self.src_ip = [word(header, 8), word(header, 16)];
        self.dst_ip = [word(header, 24), word(header, 32)];
        self.protocol = header[6];
        for _ in 0..MOST_EXTENSIONS {
            let length = match self.protocol {
                HOP_BY_HOP | ROUTING | OPTIONS => 8 + usize::from(*rest.get(1)?) * 8,
                FRAGMENT => 8,
                _ => break,
            };
            let (extension, after) = rest.split_at_checked(length)?;
            if self.protocol == FRAGMENT {
                // The offset, two reserved bits, more fragments. Without either the packet is whole (RFC 6946).
                self.fragmented = u16::from_be_bytes([extension[2], extension[3]]) & 0xfff9 != 0;
            }
            (self.protocol, rest) = (extension[0], after);
            if self.fragmented {
                break;
            }
        }
        self.read_ports(rest)
    }

    /// Of a whole packet. The first fragment has them too, but the others have not: read as one without, it goes to the same
    /// queue, where they can be put together. Linux' flow dissector leaves it without ports as well.
    #[inline(always)]
    fn read_ports(&mut self, header: &[u8]) -> Option<()> {
        if !self.fragmented && matches!(self.protocol, PROTOCOL_TCP | PROTOCOL_UDP) {
            self.ports = u32::from_le_bytes(*header.first_chunk()?);
            self.has_ports = true;
        }
        Some(())
    }

    #[inline(always)]
    fn fields(&self) -> Fields {
        let at = |value: u64, byte: usize| value << (byte * 8);
        Fields {
            words: [
                self.addresses.0,
                u64::from(self.addresses.1) | at(self.ether_type.into(), 4) | at(self.vlan.into(), 6),
                self.src_ip[0],
                self.src_ip[1],
                self.dst_ip[0],
                self.dst_ip[1],
                u64::from(self.flow_label) | at(self.ports.into(), 4),
                u64::from_le_bytes([
                    self.protocol,
                    self.class,
                    self.hops,
                    self.version,
                    self.tags.0,
                    self.has_ports.into(),
                    self.fragmented.into(),
                    0,
                ]),
            ],
        }
    }
}

impl Fields {
    #[inline]
    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (at, &byte) in (at..).zip(bytes) {
            let (word, shift) = (&mut self.words[at / 8], at % 8 * 8);
            *word = *word & !(0xff << shift) | u64::from(byte) << shift;
        }
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
        let mut asks = |at: usize, of_value: &[u8], of_mask: &[u8]| {
            value.put(at, of_value);
            mask.put(at, of_mask);
        };
        asks(DMAC, &rule.dmac(), &rule.dmac_mask());
        asks(SMAC, &rule.smac(), &rule.smac_mask());
        asks(ETHER_TYPE, &rule.ether_type().to_be_bytes(), &rule.ether_type_mask().to_be_bytes());
        asks(VLAN, &rule.vlan_tci().to_be_bytes(), &rule.vlan_tci_mask().to_be_bytes());
        // Who asks for a field of the tag wants one.
        let tagged = if rule.vlan_tci_mask() == 0 { FrameTags::default() } else { FrameTags::ANY };
        asks(TAGS, &[(rule.tags() | tagged).0], &[(rule.tags_mask() | tagged).0]);
        if rule.ip_version() != 0 {
            asks(VERSION, &[rule.ip_version()], &[0xff]);
            asks(SRC_IP, &rule.src_ip(), &rule.src_ip_mask());
            asks(DST_IP, &rule.dst_ip(), &rule.dst_ip_mask());
            asks(FLOW_LABEL, &rule.flow_label().to_be_bytes(), &rule.flow_label_mask().to_be_bytes());
            asks(PROTOCOL, &[rule.protocol()], &[rule.protocol_mask()]);
            asks(CLASS, &[rule.traffic_class()], &[rule.traffic_class_mask()]);
            asks(HOPS, &[rule.hop_limit()], &[rule.hop_limit_mask()]);
            if rule.src_port_mask() | rule.dst_port_mask() != 0 {
                asks(SRC_PORT, &rule.src_port().to_be_bytes(), &rule.src_port_mask().to_be_bytes());
                asks(DST_PORT, &rule.dst_port().to_be_bytes(), &rule.dst_port_mask().to_be_bytes());
                asks(PORTS, &[1], &[1]);
            }
        }
        (value.under(&mask), mask)
    }

    /// The mask of the fields that count even if no rule asks for them: where a frame goes, and what the kernel gets a copy of.
    pub fn always() -> Fields {
        let mut fields = Fields::default();
        fields.put(DMAC, &[0xff; 6]);
        fields.put(ETHER_TYPE, &[0xff; 2]);
        fields
    }

    /// The mask of the VLAN that a frame is of.
    pub fn of_tag() -> Fields {
        let mut fields = Fields::default();
        fields.put(VLAN, &0xfffu16.to_be_bytes());
        fields.put(TAGS, &[(FrameTags::ANY | FrameTags::SERVICE).0]);
        fields
    }

    /// The mask of the fields that hashes may be of.
    pub fn hashed() -> Fields {
        let mut fields = Fields::default();
        fields.put(SRC_IP, &[0xff; 32]);
        fields.put(SRC_PORT, &[0xff; 4]);
        [PROTOCOL, VERSION, PORTS].into_iter().for_each(|field| fields.put(field, &[0xff]));
        fields
    }

    /// Whether this is the mask of a rule for ports.
    pub fn asks_for_ports(&self) -> bool {
        self.get(PORTS) != [0]
    }

    /// A mask of the fields of either.
    pub fn union(&self, other: &Fields) -> Fields {
        Fields { words: core::array::from_fn(|n| self.words[n] | other.words[n]) }
    }

    /// These fields under a mask.
    #[inline(always)]
    pub fn under(&self, mask: &Fields) -> Fields {
        Fields { words: core::array::from_fn(|n| self.words[n] & mask.words[n]) }
    }

    /// What all frames of a conversation have, which stay in order (IEEE 802.1AX 6.2.4): addresses and ports.
    pub fn conversation(&self) -> Fields {
        let mut fields = *self;
        let [high, low] = self.get(VLAN);
        fields.put(VLAN, &[high & 0xf, low]);
        fields.put(FLOW_LABEL, &[0; 4]);
        fields.put(CLASS, &[0; 2]);
        fields.put(TAGS, &[0; FIELDS - TAGS]);
        fields
    }

    /// A number that the fields of few others have, for `of`: its upper bits.
    #[inline]
    pub fn hash(&self, of: u64) -> u64 {
        // Odd, and one for two words: each product is found by itself.
        const FACTORS: [u64; FIELDS / 16] =
            [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];
        let [a, b, c, d, e, f, g, h] = self.words;
        // The upper halves of some are all that IPv4 has: a product's upper bits depend more on the lower.
        let pairs = [(a, b), (c, d), (e, f), (h, g)].map(|(one, other)| one ^ other.rotate_left(32));
        let products = pairs.iter().zip(FACTORS).map(|(pair, factor)| pair.wrapping_mul(factor));
        let sum = products.fold(of, u64::wrapping_add);
        (sum ^ sum >> 29).wrapping_mul(FACTORS[0])
    }

    /// `N` bytes at one of the places above.
    #[inline(always)]
    pub(super) fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        core::array::from_fn(|n| (self.words[(at + n) / 8] >> ((at + n) % 8 * 8)) as u8)
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

    /// Whether it has a tag, of whichever kind.
    pub fn has_tag(&self) -> bool {
        let [tags] = self.get(TAGS);
        FrameTags(tags).contains(FrameTags::ANY)
    }

    /// Whether it is one of ARP, tagged or not.
    pub fn is_arp(&self) -> bool {
        self.get(ETHER_TYPE) == ETHERTYPE_ARP.to_be_bytes()
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
