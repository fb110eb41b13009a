//! The fields of frames, and which rules take them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::wire::corpus;

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
    for fragment in [0x2000, 0x2001, 1] {
        assert!(
            !takes(no_port, &frame(&[&[8, 0], &ipv4(17, fragment, &[0; 8])])),
            "a fragment: {fragment:#x}"
        );
    }
    let no_port = no_port.with_ip_version(6);
    for (fragment, whole) in [(0, true), (1, false), (9, false), (8, false)] {
        let part = [PROTOCOL_UDP, 0, 0, fragment, 0, 0, 0, 7, 0, 0, 0, 0];
        let packet = [&[0x60, 0, 0, 0, 0, 0, FRAGMENT, 64][..], &[7; 32], &part].concat();
        assert_eq!(takes(no_port, &frame(&[&[0x86, 0xdd], &packet])), whole, "a fragment: {fragment}");
    }
}

#[test]
fn rules_ask_for_the_tags_of_a_frame() {
    let tag = |kind: u16, next: &[u8]| [&kind.to_be_bytes()[..], &[0, 5], next].concat();
    let none = [8, 6];
    let frames = [
        (FrameTags::default(), frame(&[&none])),
        (FrameTags::ANY, frame(&[&tag(0x8100, &none)])),
        (FrameTags::ANY | FrameTags::SERVICE, frame(&[&tag(0x88a8, &none)])),
        (FrameTags::ANY | FrameTags::SECOND, frame(&[&tag(0x8100, &tag(0x8100, &none))])),
        (
            FrameTags::ANY | FrameTags::SECOND | FrameTags::SERVICE,
            frame(&[&tag(0x88a8, &tag(0x8100, &none))]),
        ),
    ];
    for value in (0..8).map(FrameTags) {
        for mask in (0..8).map(FrameTags) {
            for (has, frame) in &frames {
                let rule = rule().with_tags(value).with_tags_mask(mask);
                assert_eq!(takes(rule, frame), (has.0 ^ value.0) & mask.0 == 0, "{value:?} {mask:?} {has:?}");
            }
        }
    }
}

#[test]
fn a_frame_has_a_kind() {
    let ipv6 = |next: &[u8]| [&[0x60, 0, 0, 0, 0, 0][..], &next[..1], &[64], &[7; 32], &next[1..]].concat();
    let ports = [0; 4];
    let (v4, v6) = ([8, 0], [0x86, 0xdd]);
    let tags = [0x88, 0xa8, 0, 5, 0x81, 0, 0, 7];
    // What an IPv6 packet has behind its header: the type of the next one first.
    let part = |fragment: u8| ipv6(&[FRAGMENT, PROTOCOL_UDP, 0, 0, fragment, 0, 0, 0, 7, 0, 80, 1, 187]);
    for (kind, frame) in [
        (FrameKind::OTHER, frame(&[])),
        (FrameKind::OTHER, frame(&[&[8, 6]])),
        (FrameKind::OTHER, frame(&[&v6, &ipv4(17, 0, &ports)])),
        (FrameKind::OTHER, frame(&[&tags, &tags, &v4, &ipv4(17, 0, &ports)])),
        (FrameKind::IPV4, frame(&[&v4, &ipv4(1, 0, &ports)])),
        (FrameKind::IPV4, frame(&[&v4, &ipv4(6, 0, &[0; 3])])),
        (FrameKind::IPV4_FRAGMENT, frame(&[&v4, &ipv4(17, 0x2000, &ports)])),
        (FrameKind::IPV4_FRAGMENT, frame(&[&v4, &ipv4(6, 1, &ports)])),
        (FrameKind::IPV4_TCP, frame(&[&v4, &ipv4(6, 0, &ports)])),
        (FrameKind::IPV4_UDP, frame(&[&tags, &v4, &ipv4(17, 0x4000, &ports)])),
        (FrameKind::IPV6, frame(&[&v6, &ipv6(&[58, 128, 0])])),
        (FrameKind::IPV6_FRAGMENT, frame(&[&v6, &part(1)])),
        (FrameKind::IPV6_UDP, frame(&[&v6, &part(0)])),
        (FrameKind::IPV6_TCP, frame(&[&v6, &ipv6(&[PROTOCOL_TCP, 0, 0, 0, 0])])),
    ] {
        assert_eq!(Fields::of(&frame).kind(), kind, "{frame:x?}");
    }
}

#[test]
fn headers_are_found_behind_tags_and_extensions() {
    let mut packet = vec![0x6a, 0xb1, 0x23, 0x45, 0, 0, HOP_BY_HOP, 9];
    packet.extend([0xaa; 32]);
    packet.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
    packet.extend([PROTOCOL_TCP, 0, 0, 0, 0, 0, 0, 7]);
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
        has_fields(&bytes)?;
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
        has_fields(&bytes)?;
    }
}

/// These bytes have fields; gives what kind of frame they are.
fn has_fields(bytes: &[u8]) -> Result<FrameKind, TestCaseError> {
    let fields = Fields::of(bytes);
    let all = Fields { words: [u64::MAX; FIELDS / 8] };
    prop_assert_eq!(fields.under(&all), fields);
    prop_assert!(bytes.len() < 12 || fields.dmac()[..] == bytes[..6]);
    Ok(fields.kind())
}

#[test]
fn kept_frames() {
    let kinds = corpus::frames().into_iter().map(|kept| has_fields(&kept.bytes).expect(&kept.what).0);
    assert!(
        kinds.collect::<BTreeSet<_>>().into_iter().eq(0..=FrameKind::IPV6_UDP.0),
        "they are of all kinds"
    );
}

/// What differs between frames of a conversation does not part them.
#[test]
fn a_conversation_stays_together() {
    let ports = [0x12, 0x34, 0x10, 0xe1];
    let of = |frame: &[u8]| Fields::of(frame).conversation();
    let (plain, other) = (ipv4(6, 0, &ports), ipv4(6, 0, &[0x12, 0x35, 0x10, 0xe1]));
    let (mut marked, mut farther) = (plain.clone(), plain.clone());
    (marked[1], farther[8]) = (0xbb, 3);
    for changed in [marked, farther] {
        assert_eq!(of(&frame(&[&[8, 0], &plain])), of(&frame(&[&[8, 0], &changed])));
    }
    assert_ne!(of(&frame(&[&[8, 0], &plain])), of(&frame(&[&[8, 0], &other])));
    let tags = [0x00, 0xa0].map(|priority| frame(&[&[0x81, 0, priority, 0x6b, 8, 0], &plain]));
    assert_eq!(of(&tags[0]), of(&tags[1]), "a priority");
    assert_ne!(of(&tags[0]), of(&frame(&[&[0x81, 0, 0, 0x6c, 8, 0], &plain])), "another VLAN");
    let (more, last) = (0x2000, 5);
    let parts = [more, more | 3, last].map(|part| frame(&[&[8, 0], &ipv4(17, part, &ports)]));
    assert!(parts.iter().all(|part| of(part) == of(&parts[0])), "parts of a datagram");
}
