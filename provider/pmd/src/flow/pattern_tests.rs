//! Patterns of any bytes: what the card cannot do is refused, and the rest is in the rule.

use std::ffi::c_void;
use std::ptr::null;

use proptest::prelude::*;

use super::*;
use crate::abi::release::RELEASES;
use crate::layout_tests::bytes as written;

/// An item whose structures are these bytes, as many as the longest has.
fn item(kind: i32, spec: Option<&[u8; IPV6]>, mask: Option<&[u8; IPV6]>) -> Item {
    let bytes = |bytes: Option<&[u8; IPV6]>| bytes.map_or(null(), |bytes| bytes.as_ptr().cast::<c_void>());
    Item { kind, spec: bytes(spec), last: null(), mask: bytes(mask) }
}

fn rule(items: &[Item]) -> Result<FlowContext> {
    // SAFETY: a list that ends, of structures that are longer than any.
    unsafe { read(items.as_ptr()) }
}

fn start<const N: usize>(bytes: [u8; N]) -> [u8; IPV6] {
    std::array::from_fn(|n| bytes.get(n).copied().unwrap_or(0))
}

const END: Item = Item { kind: item::END, spec: null(), last: null(), mask: null() };

#[test]
fn a_port_of_udp_is_in_the_rule() {
    let ports = start([0, 0, 0x0f, 0xa0]);
    let mask = start([0, 0, 0xff, 0xff]);
    let items = [
        item(item::ETH, None, None),
        item(item::IPV4, None, None),
        item(item::UDP, Some(&ports), Some(&mask)),
        END,
    ];
    let expected = FlowContext::new()
        .with_ip_version(4)
        .with_protocol(17)
        .with_protocol_mask(0xff)
        .with_dst_port(4000)
        .with_dst_port_mask(0xffff);
    assert_eq!(rule(&items).expect("a rule"), expected);
}

#[test]
fn an_ether_type_is_that_of_the_first_header() {
    let ether = |high, low| {
        let mut bytes = [0; IPV6];
        (bytes[12], bytes[13]) = (high, low);
        bytes
    };
    let (slow, tag, service, all) = (ether(0x88, 9), ether(0x81, 0), ether(0x88, 0xa8), ether(0xff, 0xff));
    let of = |spec, then: Option<i32>| {
        let next = then.map_or(END, |kind| item(kind, None, None));
        rule(&[item(item::ETH, Some(spec), Some(&all)), next, END])
    };
    let plain = FlowContext::new();
    let tags = |tags, mask| plain.with_tags(tags).with_tags_mask(mask);
    let (any, second) = (FrameTags::ANY, FrameTags::SERVICE);
    let untagged = tags(FrameTags::default(), any).with_ether_type(0x8809).with_ether_type_mask(0xffff);
    assert_eq!(of(&slow, None).expect("a rule"), untagged);
    assert_eq!(of(&tag, None).expect("a rule"), tags(any, any | second));
    assert_eq!(of(&service, Some(item::VLAN)).expect("a rule"), tags(any | second, any | second));
    assert_eq!(of(&slow, Some(item::VLAN)).expect_err("no tag").errno, libc::EINVAL);
    let half = ether(0xff, 0);
    let partly = rule(&[item(item::ETH, Some(&slow), Some(&half)), END]).expect_err("half of it");
    assert_eq!((partly.errno, partly.cause), (libc::ENOTSUP, Cause::ItemMask));
}

/// Fields as a program's compiler writes them, all ones under all ones, are read as these rules. `before` are the headers before.
fn fields<const N: usize>(kind: i32, of: &str, before: &[i32], fields: &[(&str, FlowContext)]) {
    let initializers: Vec<_> = fields.iter().map(|(field, _)| *field).collect();
    for release in &RELEASES {
        for (bytes, (field, expected)) in written::<N>(release, of, &initializers).iter().zip(fields) {
            let bytes = start(*bytes);
            let before = before.iter().map(|&kind| item(kind, None, None));
            let items: Vec<_> = before.chain([item(kind, Some(&bytes), Some(&bytes)), END]).collect();
            let read = rule(&items).unwrap_or_else(|no| panic!("{of}, {field}: {:?}", no.message));
            assert_eq!(read, *expected, "{of}, {field}");
        }
    }
}

#[test]
fn fields_are_read_where_programs_write_them() {
    let (plain, any) = (FlowContext::new(), FrameTags::ANY);
    let tags = |tags: FrameTags, mask: FrameTags| plain.with_tags(tags).with_tags_mask(mask);
    let typed = |rule: FlowContext| rule.with_ether_type(0xffff).with_ether_type_mask(0xffff);
    let mac = [0xff; 6];
    fields::<ETH>(
        item::ETH,
        "struct rte_flow_item_eth",
        &[],
        &[
            ("memset(&it.hdr.dst_addr, 0xff, 6)", plain.with_dmac(mac).with_dmac_mask(mac)),
            ("memset(&it.hdr.src_addr, 0xff, 6)", plain.with_smac(mac).with_smac_mask(mac)),
            ("it.hdr.ether_type = 0xffff", typed(tags(FrameTags::default(), any))),
            ("it.has_vlan = 1", tags(any, any)),
        ],
    );
    let tagged = tags(any, any);
    fields::<VLAN>(
        item::VLAN,
        "struct rte_flow_item_vlan",
        &[item::ETH],
        &[
            ("it.hdr.vlan_tci = 0xffff", tagged.with_vlan_tci(0xffff).with_vlan_tci_mask(0xffff)),
            ("it.hdr.eth_proto = 0xffff", typed(tags(any, any | FrameTags::SECOND))),
            ("it.has_more_vlan = 1", tags(any | FrameTags::SECOND, any | FrameTags::SECOND)),
        ],
    );
    let (ip, address) = (plain.with_ip_version(4), super::ipv4([0xff; 4]));
    fields::<IPV4>(
        item::IPV4,
        "struct rte_flow_item_ipv4",
        &[item::ETH],
        &[
            ("it.hdr.type_of_service = 0xff", ip.with_traffic_class(0xff).with_traffic_class_mask(0xff)),
            ("it.hdr.time_to_live = 0xff", ip.with_hop_limit(0xff).with_hop_limit_mask(0xff)),
            ("it.hdr.next_proto_id = 0xff", ip.with_protocol(0xff).with_protocol_mask(0xff)),
            ("it.hdr.src_addr = ~0u", ip.with_src_ip(address).with_src_ip_mask(address)),
            ("it.hdr.dst_addr = ~0u", ip.with_dst_ip(address).with_dst_ip_mask(address)),
        ],
    );
    let (ip, address) = (plain.with_ip_version(6), [0xff; 16]);
    let class = ip.with_traffic_class(0xff).with_traffic_class_mask(0xff);
    fields::<IPV6>(
        item::IPV6,
        "struct rte_flow_item_ipv6",
        &[item::ETH],
        &[
            (
                "it.hdr.vtc_flow = rte_cpu_to_be_32(0xfffffff)",
                class.with_flow_label(0xf_ffff).with_flow_label_mask(0xf_ffff),
            ),
            ("it.hdr.proto = 0xff", ip.with_protocol(0xff).with_protocol_mask(0xff)),
            ("it.hdr.hop_limits = 0xff", ip.with_hop_limit(0xff).with_hop_limit_mask(0xff)),
            ("memset(&it.hdr.src_addr, 0xff, 16)", ip.with_src_ip(address).with_src_ip_mask(address)),
            ("memset(&it.hdr.dst_addr, 0xff, 16)", ip.with_dst_ip(address).with_dst_ip_mask(address)),
        ],
    );
    let before = [item::ETH, item::IPV4];
    let of = |protocol| plain.with_ip_version(4).with_protocol(protocol).with_protocol_mask(0xff);
    let ports = |protocol| {
        [
            ("it.hdr.src_port = 0xffff", of(protocol).with_src_port(0xffff).with_src_port_mask(0xffff)),
            ("it.hdr.dst_port = 0xffff", of(protocol).with_dst_port(0xffff).with_dst_port_mask(0xffff)),
        ]
    };
    fields::<UDP_BYTES>(item::UDP, "struct rte_flow_item_udp", &before, &ports(UDP));
    fields::<TCP_BYTES>(item::TCP, "struct rte_flow_item_tcp", &before, &ports(TCP));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_cause() {
    let bytes = [1; IPV6];
    let (eth, udp, ip) =
        (|| item(item::ETH, None, None), || item(item::UDP, None, None), || item(item::IPV4, None, None));
    let ranged = Item { last: bytes.as_ptr().cast(), ..item(item::IPV4, Some(&bytes), None) };
    for (items, errno, cause) in [
        (vec![eth(), udp(), END], libc::EINVAL, Cause::Item),
        (vec![ip(), eth(), END], libc::ENOTSUP, Cause::Item),
        (vec![eth(), ip(), ip(), END], libc::ENOTSUP, Cause::Item),
        (vec![item(14, None, None), END], libc::ENOTSUP, Cause::Item),
        (vec![item(item::IPV4, None, Some(&bytes)), END], libc::EINVAL, Cause::ItemSpec),
        (vec![ranged, END], libc::ENOTSUP, Cause::ItemLast),
        (vec![item(item::IPV4, Some(&bytes), Some(&bytes)), END], libc::ENOTSUP, Cause::ItemMask),
        ((0..100).map(|_| item(item::VOID, None, None)).collect(), libc::EINVAL, Cause::Unspecified),
    ] {
        let refusal = rule(&items).expect_err("it is refused");
        assert_eq!((refusal.errno, refusal.cause), (errno, cause), "{:?}", refusal.message);
    }
}

fn bytes() -> impl Strategy<Value = [u8; IPV6]> {
    prop_oneof![
        any::<[u8; IPV6]>(),
        Just([0; IPV6]),
        Just([0xff; IPV6]),
        // Single bytes, as a program sets them.
        (0..IPV6, any::<u8>()).prop_map(|(at, byte)| std::array::from_fn(|n| if n == at { byte } else { 0 })),
    ]
}

proptest! {
    /// Any items in any order are refused or make a rule whose values are under its masks.
    #[test]
    fn any_pattern_is_refused_or_a_rule(
        parts in proptest::collection::vec(
            (
                prop_oneof![4 => 6..13i32, 1 => any::<i32>()],
                proptest::option::of(bytes()),
                proptest::option::of(bytes()),
            ),
            0..8,
        ),
    ) {
        let items: Vec<Item> = parts
            .iter()
            .map(|(kind, spec, mask)| item(*kind, spec.as_ref(), mask.as_ref()))
            .chain([END])
            .collect();
        let Ok(rule) = rule(&items) else { return Ok(()) };
        let has = |kind| items.iter().take_while(|item| item.kind != item::END).any(|item| item.kind == kind);
        let all = rule.as_bytes();
        prop_assert!((0..60).all(|n| all[16 + n] & !all[80 + n] == 0), "{:?}", rule);
        prop_assert_eq!(rule.tags().0 & !rule.tags_mask().0, 0);
        prop_assert_eq!(rule.ip_version() == 4, has(item::IPV4));
        prop_assert_eq!(rule.ip_version() == 6, has(item::IPV6));
        prop_assert!(!has(item::VLAN) || rule.tags().contains(FrameTags::ANY));
        prop_assert!(!has(item::UDP) || rule.protocol() == 17);
    }
}
