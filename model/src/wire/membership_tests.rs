//! Messages as Linux 6.18 sent them, with `force_igmp_version=2` and `force_mld_version=1`; the queries are its bridge's.

use super::*;

const REPORT_V4: &str = "46c000200000400001023112c0000201ef010203940400001600f8faef010203";
const LEAVE_V4: &str = "46c000200000400001024214c0000201e0000002940400001700f7faef010203";
const QUERY_V4: &str = "46c00020000040000102041700000000e000000194040000110aeef500000000";
const QUERY_GROUP_V4: &str = "46c00020000040000102041700000000e000000194040000110afdf0ef010203";
const REPORT_V6: &str =
    "6000000000200001fe800000000000000070effffe3a7720ff0e00000000000000000000000043213a000502000001008300940000000000ff0e0000000000000000000000004321";
const DONE_V6: &str =
    "6000000000200001fe800000000000000070effffe3a7720ff0200000000000000000000000000023a000502000001008400d62b00000000ff0e0000000000000000000000004321";
const QUERY_V6: &str =
    "6000000000200001fe80000000000000a08890fffe1528e8ff0200000000000000000000000000013a00050200000000820023ba03e8000000000000000000000000000000000000";
const QUERY_GROUP_V6: &str =
    "6000000000200001fe80000000000000a08890fffe1528e8ff0200000000000000000000000000013a000502000000008200e18903e80000ff0e0000000000000000000000004321";

const GROUP_V6: [u8; 16] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x43, 0x21];
const HOST_V6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x70, 0xef, 0xff, 0xfe, 0x3a, 0x77, 0x20];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn memberships_are_those_of_linux() {
    let (group, host) = (ipv4_to_gid([239, 1, 2, 3]), ipv4_to_gid([192, 0, 2, 1]));
    for (source, group, leaves, expected) in [
        (host, group, false, REPORT_V4),
        (host, group, true, LEAVE_V4),
        (HOST_V6, GROUP_V6, false, REPORT_V6),
        (HOST_V6, GROUP_V6, true, DONE_V6),
    ] {
        let mut out = [0xee; Membership::BYTES];
        let membership = Membership { source, group, leaves };
        let len = membership.encode(&mut out);
        assert_eq!(out[..len], bytes(expected), "{membership:?}");
    }
}

#[test]
fn queries_are_read_and_nothing_else() {
    const SECOND: u64 = 1_000_000_000;
    let group_v4 = Some(ipv4_to_gid([239, 1, 2, 3]));
    for (query, group) in
        [(QUERY_V4, None), (QUERY_GROUP_V4, group_v4), (QUERY_V6, None), (QUERY_GROUP_V6, Some(GROUP_V6))]
    {
        let good = bytes(query);
        assert_eq!(Query::decode(&good), Some(Query { group, within: SECOND }));
        // What pads a frame is no part of it.
        assert_eq!(Query::decode(&[&good[..], &[7; 20]].concat()), Some(Query { group, within: SECOND }));
        for len in 0..good.len() {
            assert_eq!(Query::decode(&good[..len]), None, "{len} bytes of {query}");
        }
        let ipv6 = good[0] >> 4 == 6;
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            // Of IPv6, traffic class, flow label and the value of the option are not checked.
            let same = ipv6 && ((1..4).contains(&at) || (42..48).contains(&at));
            assert_eq!(Query::decode(&bytes).is_some(), same, "byte {at} of {query}");
        }
    }
    for other in [REPORT_V4, LEAVE_V4, REPORT_V6, DONE_V6] {
        assert_eq!(Query::decode(&bytes(other)), None, "{other}");
    }
}

/// Version 1 says no time, version 2 up to 25.5 s, and version 3 long ones with an exponent; what follows the group is not looked at.
#[test]
fn queries_of_other_versions_are_read() {
    let with = |message: &[u8]| {
        let mut packet = bytes(QUERY_V4)[..24].to_vec();
        packet[3] = 24 + message.len() as u8;
        packet[10..12].fill(0);
        let sum = checksum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
        let mut message = message.to_vec();
        let sum = checksum(&message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        packet.extend(message);
        Query::decode(&packet).expect("a query").within
    };
    assert_eq!(with(&[0x11, 0, 0, 0, 0, 0, 0, 0]), 10_000_000_000);
    assert_eq!(with(&[0x11, 250, 0, 0, 0, 0, 0, 0]), 25_000_000_000);
    assert_eq!(with(&[0x11, 0, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]), 0);
    assert_eq!(with(&[0x11, 0x7f, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]), 12_700_000_000);
    assert_eq!(with(&[0x11, 0x80, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]), 12_800_000_000);
    assert_eq!(with(&[0x11, 0xff, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]), 3_174_400_000_000);
    assert_eq!(scaled(0x7fff, 12), 0x7fff);
    assert_eq!(scaled(0x8000, 12), 0x8000);
    assert_eq!(scaled(0xffff, 12), 0x1fff << 10);
}
