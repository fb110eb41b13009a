//! The frames that a rule names: attributes and the list of headers.
#![allow(unsafe_code)]

use fpga_regs::{FlowContext, FrameTags};

use super::{Refusal, Result};
use crate::abi::flow::{item, Attr, Cause, Item};

/// Priorities of rules, from 0.
pub const PRIORITIES: u32 = 255;
/// Most headers of a pattern that are read.
const MOST_ITEMS: usize = 64;

const TAG_CUSTOMER: u16 = 0x8100;
const TAG_SERVICE: u16 = 0x88a8;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// IPv6 extension headers, which the card passes.
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];

/// Bytes of `struct rte_flow_item_eth`, `_vlan`, `_ipv4`, `_ipv6`, `_udp` and `_tcp`.
const ETH: usize = 20;
const VLAN: usize = 8;
const IPV4: usize = 20;
const IPV6: usize = 44;
const PORTS: usize = 4;
const UDP_BYTES: usize = 8;
const TCP_BYTES: usize = 20;
/// Where `has_vlan` is: compilers put bit-fields right behind what is before them, however many bytes their type has.
const HAS_VLAN: usize = 14;

/// `N` bytes with ones at these ranges.
const fn ones<const N: usize>(ranges: &[(usize, usize)]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut n = 0;
    while n < ranges.len() {
        let mut at = ranges[n].0;
        while at < ranges[n].1 {
            bytes[at] = 0xff;
            at += 1;
        }
        n += 1;
    }
    bytes
}

/// The same, and the first bit of a byte.
const fn and_bit<const N: usize>(mut bytes: [u8; N], at: usize) -> [u8; N] {
    bytes[at] |= 1;
    bytes
}

/// A header's values under their mask, and the mask.
struct Header<const N: usize> {
    value: [u8; N],
    mask: [u8; N],
}

impl<const N: usize> Header<N> {
    /// What an item says, of which the card knows the bits of `known`; without a mask those of `usual` count.
    ///
    /// # Safety
    /// What the item points to has `N` bytes.
    unsafe fn read(item: &Item, usual: &[u8; N], known: &[u8; N]) -> Result<Self> {
        if item.spec.is_null() {
            if !item.last.is_null() || !item.mask.is_null() {
                let why = c"a mask or a range of no values: give the values, too";
                return Err(Refusal::invalid(Cause::ItemSpec, why).of(item));
            }
            return Ok(Header { value: [0; N], mask: [0; N] });
        }
        if !item.last.is_null() {
            return Err(
                Refusal::unsupported(Cause::ItemLast, c"the card has no ranges: use a mask").of(item.last)
            );
        }
        // SAFETY: as the caller promises; any bytes will do.
        let (value, mask): ([u8; N], [u8; N]) = unsafe {
            let mask =
                if item.mask.is_null() { *usual } else { item.mask.cast::<[u8; N]>().read_unaligned() };
            (item.spec.cast::<[u8; N]>().read_unaligned(), mask)
        };
        if mask.iter().zip(known).any(|(mask, known)| mask & !known != 0) {
            let why = c"a field that the card does not look at: leave it out of the mask";
            return Err(Refusal::unsupported(Cause::ItemMask, why).of(item));
        }
        Ok(Header { value: std::array::from_fn(|n| value[n] & mask[n]), mask })
    }

    /// Value and mask of the bytes from `at` on.
    fn at<const M: usize>(&self, at: usize) -> ([u8; M], [u8; M]) {
        (std::array::from_fn(|n| self.value[at + n]), std::array::from_fn(|n| self.mask[at + n]))
    }

    fn byte(&self, at: usize) -> (u8, u8) {
        (self.value[at], self.mask[at])
    }

    /// A number of 16 bits in the order of the wire.
    fn word(&self, at: usize) -> (u16, u16) {
        let (value, mask) = self.at::<2>(at);
        (u16::from_be_bytes(value), u16::from_be_bytes(mask))
    }

    /// An EtherType, if one is asked for.
    fn ether_type(&self, at: usize, item: &Item) -> Result<Option<u16>> {
        match self.word(at) {
            (_, 0) => Ok(None),
            (value, 0xffff) => Ok(Some(value)),
            _ => {
                Err(Refusal::unsupported(Cause::ItemMask, c"an EtherType counts as a whole or not").of(item))
            }
        }
    }
}

/// An IPv4 address as rules have it.
fn ipv4(address: [u8; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[12..].copy_from_slice(&address);
    bytes
}

/// How far the headers of a pattern have come.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Layer {
    Nothing,
    Ethernet,
    Tag,
    Ip,
    Transport,
}

/// A pattern as far as it is read.
struct Pattern {
    rule: FlowContext,
    layer: Layer,
    /// The EtherType of the Ethernet header, which is a tag's where there is one.
    ether_type: Option<u16>,
}

impl Pattern {
    /// The next header is of this layer.
    fn climb(&mut self, to: Layer, item: &Item) -> Result<()> {
        if self.layer >= to {
            let why =
                c"a second header of this layer, or one of a lower layer: the card looks at one of each";
            return Err(Refusal::unsupported(Cause::Item, why).of(item));
        }
        self.layer = to;
        Ok(())
    }

    fn tags(&mut self, value: FrameTags, mask: FrameTags) {
        self.rule.set_tags(self.rule.tags() | value);
        self.rule.set_tags_mask(self.rule.tags_mask() | mask);
    }

    /// The first tag is of this EtherType.
    fn tagged_by(&mut self, ether_type: u16) {
        let kind = if ether_type == TAG_SERVICE { FrameTags::SERVICE } else { FrameTags::default() };
        self.tags(FrameTags::ANY | kind, FrameTags::ANY | FrameTags::SERVICE);
    }

    fn protocol(&mut self, number: u8, item: &Item) -> Result<()> {
        if (self.rule.protocol() ^ number) & self.rule.protocol_mask() != 0 {
            return Err(Refusal::invalid(Cause::Item, c"the IP header names another protocol").of(item));
        }
        self.rule.set_protocol(number);
        self.rule.set_protocol_mask(0xff);
        Ok(())
    }

    /// # Safety
    /// As [`read`].
    unsafe fn ethernet(&mut self, item: &Item) -> Result<()> {
        const KNOWN: [u8; ETH] = and_bit(ones(&[(0, 14)]), HAS_VLAN);
        // SAFETY: as the caller promises.
        let header = unsafe { Header::<ETH>::read(item, &ones(&[(0, 12)]), &KNOWN)? };
        self.climb(Layer::Ethernet, item)?;
        let ((dmac, dmac_mask), (smac, smac_mask)) = (header.at(0), header.at(6));
        self.rule =
            self.rule.with_dmac(dmac).with_dmac_mask(dmac_mask).with_smac(smac).with_smac_mask(smac_mask);
        self.ether_type = header.ether_type(12, item)?;
        let (tagged, asked) = header.byte(HAS_VLAN);
        self.tags(FrameTags(tagged), FrameTags(asked));
        Ok(())
    }

    /// # Safety
    /// As [`read`].
    unsafe fn vlan(&mut self, item: &Item) -> Result<()> {
        const KNOWN: [u8; VLAN] = and_bit(ones(&[(0, 4)]), 4);
        // SAFETY: as the caller promises.
        let header = unsafe { Header::<VLAN>::read(item, &[0x0f, 0xff, 0, 0, 0, 0, 0, 0], &KNOWN)? };
        self.climb(Layer::Tag, item)?;
        match self.ether_type.take() {
            None => {}
            Some(tag @ (TAG_CUSTOMER | TAG_SERVICE)) => self.tagged_by(tag),
            Some(_) => {
                return Err(Refusal::invalid(Cause::Item, c"the EtherType before is of no tag").of(item))
            }
        }
        if self.rule.tags_mask().contains(FrameTags::ANY) && !self.rule.tags().contains(FrameTags::ANY) {
            return Err(Refusal::invalid(Cause::Item, c"a tag of frames that have none").of(item));
        }
        let (tci, tci_mask) = header.word(0);
        self.rule = self.rule.with_vlan_tci(tci).with_vlan_tci_mask(tci_mask);
        self.tags(FrameTags::ANY, FrameTags::ANY);
        let (more, asked) = header.byte(4);
        if asked & 1 != 0 {
            let more = if more & 1 != 0 { FrameTags::SECOND } else { FrameTags::default() };
            self.tags(more, FrameTags::SECOND);
        }
        match header.ether_type(2, item)? {
            None => {}
            Some(TAG_CUSTOMER | TAG_SERVICE) => {
                let why = c"the card does not look at the kind of a second tag: use has_more_vlan";
                return Err(Refusal::unsupported(Cause::ItemMask, why).of(item));
            }
            Some(_) if self.rule.tags().contains(FrameTags::SECOND) => {
                return Err(Refusal::invalid(
                    Cause::Item,
                    c"the EtherType is of no tag, and one is to follow",
                )
                .of(item))
            }
            Some(ether_type) => {
                self.tags(FrameTags::default(), FrameTags::SECOND);
                self.rule = self.rule.with_ether_type(ether_type).with_ether_type_mask(0xffff);
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`read`].
    unsafe fn ipv4(&mut self, item: &Item) -> Result<()> {
        const KNOWN: [u8; IPV4] = ones(&[(1, 2), (8, 10), (12, 20)]);
        // SAFETY: as the caller promises.
        let header = unsafe { Header::<IPV4>::read(item, &ones(&[(12, 20)]), &KNOWN)? };
        self.climb(Layer::Ip, item)?;
        let ((class, class_mask), (hops, hops_mask)) = (header.byte(1), header.byte(8));
        let ((protocol, protocol_mask), (src, src_mask)) = (header.byte(9), header.at(12));
        let (dst, dst_mask) = header.at(16);
        self.rule = self
            .rule
            .with_ip_version(4)
            .with_traffic_class(class)
            .with_traffic_class_mask(class_mask)
            .with_hop_limit(hops)
            .with_hop_limit_mask(hops_mask)
            .with_protocol(protocol)
            .with_protocol_mask(protocol_mask)
            .with_src_ip(ipv4(src))
            .with_src_ip_mask(ipv4(src_mask))
            .with_dst_ip(ipv4(dst))
            .with_dst_ip_mask(ipv4(dst_mask));
        Ok(())
    }

    /// # Safety
    /// As [`read`].
    unsafe fn ipv6(&mut self, item: &Item) -> Result<()> {
        const KNOWN: [u8; IPV6] = {
            let mut known = ones(&[(1, 4), (6, 40)]);
            known[0] = 0x0f;
            known
        };
        // SAFETY: as the caller promises.
        let header = unsafe { Header::<IPV6>::read(item, &ones(&[(8, 40)]), &KNOWN)? };
        self.climb(Layer::Ip, item)?;
        let (first, first_mask) = header.at::<4>(0);
        let (first, first_mask) = (u32::from_be_bytes(first), u32::from_be_bytes(first_mask));
        let ((protocol, protocol_mask), (hops, hops_mask)) = (header.byte(6), header.byte(7));
        if protocol_mask != 0 && EXTENSIONS.contains(&protocol) {
            let why = c"the card passes extension headers and looks at what follows";
            return Err(Refusal::unsupported(Cause::ItemSpec, why).of(item));
        }
        let ((src, src_mask), (dst, dst_mask)) = (header.at(8), header.at(24));
        self.rule = self
            .rule
            .with_ip_version(6)
            .with_traffic_class((first >> 20) as u8)
            .with_traffic_class_mask((first_mask >> 20) as u8)
            .with_flow_label(first & 0xf_ffff)
            .with_flow_label_mask(first_mask & 0xf_ffff)
            .with_hop_limit(hops)
            .with_hop_limit_mask(hops_mask)
            .with_protocol(protocol)
            .with_protocol_mask(protocol_mask)
            .with_src_ip(src)
            .with_src_ip_mask(src_mask)
            .with_dst_ip(dst)
            .with_dst_ip_mask(dst_mask);
        Ok(())
    }

    /// # Safety
    /// As [`read`].
    unsafe fn ports<const N: usize>(&mut self, number: u8, item: &Item) -> Result<()> {
        // SAFETY: as the caller promises.
        let header = unsafe { Header::<N>::read(item, &ones(&[(0, PORTS)]), &ones(&[(0, PORTS)]))? };
        if self.layer < Layer::Ip {
            return Err(
                Refusal::invalid(Cause::Item, c"of which IP version? Put ipv4 or ipv6 before it").of(item)
            );
        }
        self.climb(Layer::Transport, item)?;
        self.protocol(number, item)?;
        let ((src, src_mask), (dst, dst_mask)) = (header.word(0), header.word(2));
        self.rule = self
            .rule
            .with_src_port(src)
            .with_src_port_mask(src_mask)
            .with_dst_port(dst)
            .with_dst_port_mask(dst_mask);
        Ok(())
    }

    /// The EtherType of a pattern without a tag's header: `eth type` is that of the first header (rte_flow(3)), so of
    /// frames without a tag.
    fn end(mut self) -> FlowContext {
        match self.ether_type.take() {
            None => {}
            Some(tag @ (TAG_CUSTOMER | TAG_SERVICE)) => self.tagged_by(tag),
            Some(ether_type) => {
                self.rule = self.rule.with_ether_type(ether_type).with_ether_type_mask(0xffff);
                self.tags(FrameTags::default(), FrameTags::ANY);
            }
        }
        self.rule
    }
}

/// The priority of a rule of frames that the port receives.
pub fn priority(attr: &Attr) -> Result<u32> {
    let asked = |bit| attr.directions & bit != 0;
    let why = match () {
        () if attr.group != 0 => (Cause::Group, c"there is group 0 only"),
        () if attr.priority >= PRIORITIES => (Cause::Priority, c"priorities are 0 to 254"),
        () if asked(Attr::EGRESS) => {
            (Cause::Egress, c"rules are for frames that the port receives: use ingress")
        }
        () if asked(Attr::TRANSFER) => (Cause::Transfer, c"the card has no embedded switch: use ingress"),
        () if !asked(Attr::INGRESS) => {
            (Cause::Ingress, c"rules are for frames that the port receives: use ingress")
        }
        () if attr.directions != Attr::INGRESS => {
            (Cause::Attr, c"reserved bits of the attributes must be zero")
        }
        () => return Ok(attr.priority),
    };
    Err(Refusal::unsupported(why.0, why.1).of(attr))
}

/// The frames that a pattern names, at any port.
///
/// # Safety
/// `items` must be a list that ends in `END`, each item with the structures of its type.
pub unsafe fn read(items: *const Item) -> Result<FlowContext> {
    let mut pattern = Pattern { rule: FlowContext::new(), layer: Layer::Nothing, ether_type: None };
    for n in 0..MOST_ITEMS {
        // SAFETY: as the caller promises.
        unsafe {
            let item = &*items.add(n);
            match item.kind {
                item::END => return Ok(pattern.end()),
                item::VOID => {}
                item::ETH => pattern.ethernet(item)?,
                item::VLAN => pattern.vlan(item)?,
                item::IPV4 => pattern.ipv4(item)?,
                item::IPV6 => pattern.ipv6(item)?,
                item::UDP => pattern.ports::<UDP_BYTES>(UDP, item)?,
                item::TCP => pattern.ports::<TCP_BYTES>(TCP, item)?,
                _ => {
                    let why = c"the card looks at eth, vlan, ipv4, ipv6, udp and tcp";
                    return Err(Refusal::unsupported(Cause::Item, why).of(item));
                }
            }
        }
    }
    Err(Refusal::invalid(Cause::Unspecified, c"a pattern without an end"))
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
