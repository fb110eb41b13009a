//! Flow rules: which frames a raw packet queue pair receives.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::size_of;
use std::sync::Arc;

use fpga_regs::{FlowContext, FlowKind};
use rdma_sys::*;

use super::card;
use super::context::Context;
use super::counters::Counted;
use super::errno::{object, Errno, Result};
use super::object::Object;
use super::qp::Qp;

const DONT_TRAP: u32 = ibv_flow_flags::IBV_FLOW_ATTR_FLAGS_DONT_TRAP.0;
/// Of old kernels; frames come to the port's own other queue pairs without it.
const ALLOW_LOOP_BACK: u32 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A flow rule.
#[repr(C)]
struct Flow {
    ibv: ibv_flow,
    driver: Arc<card::Flow>,
    /// Where it counts.
    counted: Option<Arc<Counted>>,
}

impl Object for Flow {}

/// What all specifications begin with.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    kind: ibv_flow_spec_type::Type,
    size: u16,
}

/// One specification, of `size` bytes.
///
/// # Safety
/// `size` bytes are readable at `at`, and every pattern of bytes is a `T`.
unsafe fn read<T>(at: *const u8, size: u16) -> Result<T> {
    Errno::EINVAL.when(usize::from(size) < size_of::<T>())?;
    // SAFETY: as the caller promises.
    Ok(unsafe { at.cast::<T>().read_unaligned() })
}

/// An IPv4 address as rules have it.
fn ipv4(address: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[12..].copy_from_slice(&address.to_ne_bytes());
    bytes
}

/// A rule can only ask for one version of IP, and for one protocol.
fn version(rule: FlowContext, version: u8) -> Result<FlowContext> {
    match rule.ip_version() {
        0 => Ok(rule.with_ip_version(version)),
        same if same == version => Ok(rule),
        _ => Err(Errno::EINVAL),
    }
}

fn protocol(rule: FlowContext, protocol: u8) -> Result<FlowContext> {
    let asked = (rule.protocol() ^ protocol) & rule.protocol_mask();
    Errno::EINVAL.when(asked != 0)?;
    Ok(rule.with_protocol(protocol).with_protocol_mask(0xff))
}

/// Adds what one specification asks for.
///
/// # Safety
/// `head.size` bytes are readable at `at`.
unsafe fn add(rule: FlowContext, head: Head, at: *const u8) -> Result<FlowContext> {
    use ibv_flow_spec_type as kind;
    let be = u16::from_be;
    // SAFETY: as the caller promises; the structs are integers.
    unsafe {
        match head.kind {
            kind::IBV_FLOW_SPEC_ETH => {
                let ibv_flow_spec_eth { val, mask, .. } = read(at, head.size)?;
                Ok(rule
                    .with_dmac(val.dst_mac)
                    .with_dmac_mask(mask.dst_mac)
                    .with_smac(val.src_mac)
                    .with_smac_mask(mask.src_mac)
                    .with_ether_type(be(val.ether_type))
                    .with_ether_type_mask(be(mask.ether_type))
                    .with_vlan_tci(be(val.vlan_tag))
                    .with_vlan_tci_mask(be(mask.vlan_tag)))
            }
            kind::IBV_FLOW_SPEC_IPV4 => {
                let ibv_flow_spec_ipv4 { val, mask, .. } = read(at, head.size)?;
                let rule = version(rule, 4)?.with_src_ip(ipv4(val.src_ip)).with_dst_ip(ipv4(val.dst_ip));
                Ok(rule.with_src_ip_mask(ipv4(mask.src_ip)).with_dst_ip_mask(ipv4(mask.dst_ip)))
            }
            kind::IBV_FLOW_SPEC_IPV4_EXT => {
                let ibv_flow_spec_ipv4_ext { val, mask, .. } = read(at, head.size)?;
                Errno::EOPNOTSUPP.when(mask.flags != 0)?;
                Ok(version(rule, 4)?
                    .with_src_ip(ipv4(val.src_ip))
                    .with_src_ip_mask(ipv4(mask.src_ip))
                    .with_dst_ip(ipv4(val.dst_ip))
                    .with_dst_ip_mask(ipv4(mask.dst_ip))
                    .with_protocol(val.proto)
                    .with_protocol_mask(mask.proto)
                    .with_traffic_class(val.tos)
                    .with_traffic_class_mask(mask.tos)
                    .with_hop_limit(val.ttl)
                    .with_hop_limit_mask(mask.ttl))
            }
            kind::IBV_FLOW_SPEC_IPV6 => {
                let ibv_flow_spec_ipv6 { val, mask, .. } = read(at, head.size)?;
                Ok(version(rule, 6)?
                    .with_src_ip(val.src_ip)
                    .with_src_ip_mask(mask.src_ip)
                    .with_dst_ip(val.dst_ip)
                    .with_dst_ip_mask(mask.dst_ip)
                    .with_flow_label(u32::from_be(val.flow_label))
                    .with_flow_label_mask(u32::from_be(mask.flow_label) & 0xf_ffff)
                    .with_protocol(val.next_hdr)
                    .with_protocol_mask(mask.next_hdr)
                    .with_traffic_class(val.traffic_class)
                    .with_traffic_class_mask(mask.traffic_class)
                    .with_hop_limit(val.hop_limit)
                    .with_hop_limit_mask(mask.hop_limit))
            }
            kind::IBV_FLOW_SPEC_TCP | kind::IBV_FLOW_SPEC_UDP => {
                let ibv_flow_spec_tcp_udp { val, mask, .. } = read(at, head.size)?;
                if rule.ip_version() == 0 {
                    // Of which version of IP the ports are, it has to say.
                    return Err(Errno::EINVAL);
                }
                let number = if head.kind == kind::IBV_FLOW_SPEC_TCP { TCP } else { UDP };
                Ok(protocol(rule, number)?
                    .with_src_port(be(val.src_port))
                    .with_src_port_mask(be(mask.src_port))
                    .with_dst_port(be(val.dst_port))
                    .with_dst_port_mask(be(mask.dst_port)))
            }
            kind::IBV_FLOW_SPEC_ACTION_TAG => {
                let ibv_flow_spec_action_tag { tag_id, .. } = read(at, head.size)?;
                Ok(rule.with_marked(true).with_mark(tag_id))
            }
            kind::IBV_FLOW_SPEC_ACTION_DROP => Ok(rule.with_drop(true)),
            kind::IBV_FLOW_SPEC_ACTION_COUNT => Ok(rule.with_counted(true)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

fn kind_of(attr: &ibv_flow_attr) -> Result<FlowKind> {
    match attr.type_ {
        known @ ibv_flow_attr_type::IBV_FLOW_ATTR_NORMAL..=ibv_flow_attr_type::IBV_FLOW_ATTR_SNIFFER => {
            Ok(FlowKind(known as u8))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The rule that attributes and the specifications behind them describe, and where it counts.
///
/// # Safety
/// `attr` is followed by `num_of_specs` specifications of the sizes that they say.
unsafe fn rule_of(attr: *const ibv_flow_attr) -> Result<(FlowContext, Option<Arc<Counted>>)> {
    // SAFETY: as the caller promises.
    let fixed = unsafe { &*attr };
    Errno::EOPNOTSUPP.when(fixed.comp_mask != 0 || fixed.flags & !(DONT_TRAP | ALLOW_LOOP_BACK) != 0)?;
    let kind = kind_of(fixed)?;
    Errno::EINVAL
        .when(kind != FlowKind::NORMAL && (fixed.num_of_specs != 0 || fixed.flags & DONT_TRAP != 0))?;
    let mut rule = FlowContext::new()
        .with_kind(kind)
        .with_port(fixed.port)
        .with_precedence(fixed.priority)
        .with_dont_trap(fixed.flags & DONT_TRAP != 0);
    let mut counted = None;
    // They have no order (ibv_create_flow(3)). What depends on others, the ports on the IP version, comes last.
    for ports in [false, true] {
        let mut at = attr.wrapping_add(1).cast::<u8>();
        for _ in 0..fixed.num_of_specs {
            // SAFETY: the next specification begins here.
            let head = unsafe { at.cast::<Head>().read_unaligned() };
            Errno::EINVAL.when(usize::from(head.size) < size_of::<Head>())?;
            let is_of_ports = matches!(
                head.kind,
                ibv_flow_spec_type::IBV_FLOW_SPEC_TCP | ibv_flow_spec_type::IBV_FLOW_SPEC_UDP
            );
            if ports && head.kind == ibv_flow_spec_type::IBV_FLOW_SPEC_ACTION_COUNT {
                // SAFETY: it is as long as it says, and names live counters.
                let set = unsafe {
                    let ibv_flow_spec_counter_action { counters, .. } = read(at, head.size)?;
                    Counted::of(counters)?
                };
                Errno::EINVAL.when(counted.replace(set).is_some())?;
            }
            if is_of_ports == ports {
                // SAFETY: it is as long as it says.
                rule = unsafe { add(rule, head, at)? };
            }
            at = at.wrapping_add(head.size.into());
        }
    }
    Ok((rule, counted))
}

/// `ibv_create_flow`: EOPNOTSUPP for specifications and flags that the card does not have, EINVAL if they make no sense
/// together or the queue pair is no raw packet one, ENOMEM if the card has no room for more rules.
///
/// # Safety
/// Called by a program with a live queue pair and valid attributes.
pub unsafe extern "C" fn create_flow(qp: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow {
    object(|| {
        // SAFETY: as the caller promises.
        let ((rule, counted), qp, context) = unsafe { (rule_of(attr)?, Qp::of(qp), (*qp).context) };
        // SAFETY: an open context.
        let objects = &unsafe { Context::of(context) }.objects;
        let driver = Arc::new(qp.driver.create_flow(&rule)?);
        counted.iter().for_each(|counted| counted.begin(&driver));
        let ibv = ibv_flow { comp_mask: 0, context, handle: 0 };
        Ok(objects.add(Flow { ibv, driver, counted }).cast())
    })
}

/// `ibv_destroy_flow`.
///
/// # Safety
/// Called by a program with a live rule.
pub unsafe extern "C" fn destroy_flow(flow: *mut ibv_flow) -> c_int {
    let this = flow.cast::<Flow>();
    // SAFETY: a live rule; `ibv` is the first field.
    unsafe {
        Context::of((*flow).context).objects.end(this, || match &(*this).counted {
            Some(counted) => counted.end(&(*this).driver),
            None => Ok((*this).driver.destroy()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attributes and what follows them, as programs lay them out.
    #[repr(C)]
    struct Asked {
        attr: ibv_flow_attr,
        eth: ibv_flow_spec_eth,
        ipv4: ibv_flow_spec_ipv4_ext,
        udp: ibv_flow_spec_tcp_udp,
    }

    fn asked() -> Asked {
        // SAFETY: zero is a valid value of all fields.
        let mut asked: Asked = unsafe { std::mem::zeroed() };
        asked.attr.num_of_specs = 3;
        asked.attr.port = 2;
        asked.attr.priority = 9;
        (asked.eth.type_, asked.eth.size) = (0x20, size_of::<ibv_flow_spec_eth>() as u16);
        (asked.ipv4.type_, asked.ipv4.size) = (0x32, size_of::<ibv_flow_spec_ipv4_ext>() as u16);
        (asked.udp.type_, asked.udp.size) = (0x41, size_of::<ibv_flow_spec_tcp_udp>() as u16);
        asked
    }

    fn rule(asked: &Asked) -> Result<FlowContext> {
        // SAFETY: three specifications follow the attributes.
        unsafe { rule_of((&raw const *asked).cast()) }.map(|(rule, _)| rule)
    }

    #[test]
    fn each_field_goes_to_its_place() {
        let mut asked = asked();
        asked.eth.val.dst_mac = [1, 2, 3, 4, 5, 6];
        asked.eth.mask.dst_mac = [0xff; 6];
        asked.eth.val.ether_type = 0x0800u16.to_be();
        asked.ipv4.val.dst_ip = u32::from_ne_bytes([198, 18, 0, 1]);
        asked.ipv4.mask.dst_ip = u32::MAX;
        asked.udp.val.dst_port = 4321u16.to_be();
        asked.udp.mask.dst_port = u16::MAX;
        let rule = rule(&asked).unwrap();
        assert_eq!((rule.kind(), rule.port(), rule.precedence()), (FlowKind::NORMAL, 2, 9));
        assert_eq!(
            (rule.dmac(), rule.dmac_mask(), rule.smac_mask()),
            ([1, 2, 3, 4, 5, 6], [0xff; 6], [0; 6])
        );
        assert_eq!((rule.ether_type(), rule.ether_type_mask()), (0x800, 0));
        assert_eq!((rule.ip_version(), rule.protocol(), rule.protocol_mask()), (4, UDP, 0xff));
        assert_eq!(rule.dst_ip()[12..], [198, 18, 0, 1]);
        assert_eq!((rule.dst_ip_mask()[11], rule.dst_ip_mask()[12]), (0, 0xff));
        assert_eq!((rule.dst_port(), rule.dst_port_mask(), rule.src_port_mask()), (4321, 0xffff, 0));
    }

    /// In whatever order they come.
    #[test]
    fn the_order_of_specifications_does_not_matter() {
        #[repr(C)]
        struct Turned {
            attr: ibv_flow_attr,
            udp: ibv_flow_spec_tcp_udp,
            ipv4: ibv_flow_spec_ipv4_ext,
            eth: ibv_flow_spec_eth,
        }
        let mut asked = asked();
        asked.ipv4.val.dst_ip = 7;
        asked.ipv4.mask.dst_ip = u32::MAX;
        asked.udp.val.dst_port = 9;
        asked.udp.mask.dst_port = u16::MAX;
        let expected = rule(&asked).unwrap();
        let Asked { attr, eth, ipv4, udp } = asked;
        let turned = Turned { attr, udp, ipv4, eth };
        // SAFETY: three specifications follow the attributes.
        let (found, _) = unsafe { rule_of((&raw const turned).cast()) }.unwrap();
        assert_eq!(found.as_bytes(), expected.as_bytes());
        assert_eq!(found.protocol(), UDP);
    }

    #[test]
    fn what_makes_no_sense_or_is_not_there_is_refused() {
        let refused = |change: fn(&mut Asked)| {
            let mut asked = asked();
            change(&mut asked);
            rule(&asked).unwrap_err()
        };
        assert_eq!(refused(|asked| asked.attr.type_ = 4), Errno::EINVAL);
        assert_eq!(refused(|asked| asked.attr.type_ = 3), Errno::EINVAL, "a sniffer with specifications");
        assert_eq!(refused(|asked| asked.attr.flags = 4), Errno::EOPNOTSUPP, "egress");
        assert_eq!(refused(|asked| asked.eth.size = 7), Errno::EINVAL);
        assert_eq!(refused(|asked| asked.eth.type_ = 0x120), Errno::EOPNOTSUPP, "inner headers");
        assert_eq!(refused(|asked| asked.ipv4.mask.flags = 1), Errno::EOPNOTSUPP);
        assert_eq!(refused(|asked| asked.udp.size = 8), Errno::EINVAL);
        let tcp = |asked: &mut Asked| (asked.ipv4.val.proto, asked.ipv4.mask.proto) = (6, 0xff);
        assert_eq!(refused(tcp), Errno::EINVAL, "UDP's ports in TCP");
        assert_eq!(refused(|asked| asked.eth.type_ = 0x1002), Errno::EOPNOTSUPP, "an action of IPsec");
        assert_eq!(refused(|asked| asked.eth.type_ = 0x1003), Errno::EINVAL, "counters that are not there");
    }
}
