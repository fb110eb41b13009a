use std::cell::RefCell;

use super::*;
use crate::wire::path::ipv4_to_gid;

const MAC: [u8; 6] = [2, 0x56, 0x42, 1, 2, 3];
const SECOND: u64 = 1_000_000_000;
const LINK_LOCAL: Gid = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x56, 0x42, 0xff, 0xfe, 1, 2, 3];
const ALL_NODES: Gid = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const OF_SITE: Gid = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x43, 0x21];

fn v4(last: u8) -> Gid {
    ipv4_to_gid([239, 1, 2, last])
}

/// The VLANs, groups and kinds of messages.
fn said(frames: &RefCell<Vec<Vec<u8>>>) -> Vec<(u16, Gid, bool)> {
    let read = |frame: Vec<u8>| {
        let (ethernet, packet) = Ethernet::decode(&frame).expect("a frame");
        assert_eq!(ethernet.src, MAC);
        let (group, kind) = match ethernet.ethertype {
            ETHERTYPE_IPV4 => (ipv4_to_gid(packet[28..32].try_into().unwrap()), packet[24]),
            _ => (packet[56..72].try_into().unwrap(), packet[48]),
        };
        let leaves = matches!(kind, 0x17 | 132);
        let to = if leaves { ethernet.dst } else { multicast_mac(&group).unwrap() };
        assert_eq!(ethernet.dst, to);
        (ethernet.vlan.unwrap_or(0), group, leaves)
    };
    frames.take().into_iter().map(read).collect()
}

/// A query as Linux' bridge sends it; `group` has bytes of IPv4.
fn query(vlan: Option<u16>, group: [u8; 4], tenths: u8) -> Vec<u8> {
    let mut packet = [0; 32];
    packet[..24].copy_from_slice(&[
        0x46, 0xc0, 0, 32, 0, 0, 0x40, 0, 1, 2, 4, 0x17, 0, 0, 0, 0, 224, 0, 0, 1, 148, 4, 0, 0,
    ]);
    (packet[24], packet[25]) = (0x11, tenths);
    packet[28..].copy_from_slice(&group);
    let sum = crate::wire::sum::checksum(&packet[24..]).to_be_bytes();
    packet[26..28].copy_from_slice(&sum);
    let mut frame = [0; 64];
    let ethernet = Ethernet { dst: [1, 0, 0x5e, 0, 0, 1], src: [2; 6], vlan, ethertype: ETHERTYPE_IPV4 };
    ethernet.encode(&mut frame).expect("room")[..32].copy_from_slice(&packet);
    frame.to_vec()
}

#[test]
fn groups_are_received_wherever_the_port_has_addresses() {
    let own = [
        GidEntry::new(LINK_LOCAL),
        GidEntry::new(ipv4_to_gid([198, 18, 0, 1])),
        GidEntry { vlan: 7, ..GidEntry::new(ipv4_to_gid([10, 0, 0, 1])) },
    ];
    let asked = solicited_node(&LINK_LOCAL);
    assert_eq!(places(&own, &[]), [((0, asked), LINK_LOCAL)]);
    let mut within_host = OF_SITE;
    within_host[1] = 1;
    let groups = [v4(3), OF_SITE, ALL_NODES, ipv4_to_gid([224, 0, 0, 1]), within_host, asked];
    let expected = [
        ((0, OF_SITE), LINK_LOCAL),
        ((0, asked), LINK_LOCAL),
        ((0, v4(3)), own[1].gid),
        ((7, v4(3)), own[2].gid),
    ];
    assert_eq!(places(&own, &groups), expected);
}

#[test]
fn a_group_is_reported_twice_and_left_once() {
    let frames = RefCell::new(Vec::new());
    let out = &mut |frame: &[u8]| frames.borrow_mut().push(frame.to_vec());
    let mut groups = Groups::new(MAC);
    let from = ipv4_to_gid([198, 18, 0, 1]);
    let (one, other) = (((0, v4(3)), from), ((7, OF_SITE), LINK_LOCAL));
    groups.set(5 * SECOND, &[one, other], out);
    assert_eq!(said(&frames), [(0, v4(3), false), (7, OF_SITE, false)]);
    assert_eq!(groups.due(), Some(6 * SECOND));
    groups.set(5 * SECOND, &[one, other], out);
    assert!(said(&frames).is_empty(), "nothing new");
    groups.run(6 * SECOND, out);
    assert_eq!(said(&frames).len(), 2);
    assert_eq!(groups.due(), None);
    groups.set(7 * SECOND, &[other], out);
    assert_eq!(said(&frames), [(0, v4(3), true)]);
    groups.announce(8 * SECOND, out);
    assert_eq!(said(&frames), [(7, OF_SITE, false)]);
}

#[test]
fn a_query_is_answered_in_time() {
    let frames = RefCell::new(Vec::new());
    let out = &mut |frame: &[u8]| frames.borrow_mut().push(frame.to_vec());
    let mut groups = Groups::new(MAC);
    let from = ipv4_to_gid([198, 18, 0, 1]);
    let all = [((0, v4(3)), from), ((0, v4(4)), from), ((0, OF_SITE), LINK_LOCAL), ((7, v4(3)), from)];
    groups.set(0, &all, out);
    groups.run(SECOND, out);
    assert_eq!(said(&frames).len(), 8);
    let now = 10 * SECOND;
    // Of IPv4, and outside of VLANs.
    groups.receive(now, &query(None, [0; 4], 100));
    let first = groups.due().expect("an answer");
    assert!((now..now + 10 * SECOND).contains(&first), "{first}");
    groups.run(now + 10 * SECOND, out);
    assert_eq!(said(&frames), [(0, v4(3), false), (0, v4(4), false)]);
    assert_eq!(groups.due(), None, "once");
    groups.receive(now, &query(Some(7), [239, 1, 2, 3], 10));
    groups.run(now + SECOND, out);
    assert_eq!(said(&frames), [(7, v4(3), false)]);
    groups.receive(now, &query(None, [239, 1, 2, 9], 10));
    assert_eq!(groups.due(), None, "it is in no such group");
    // A query that leaves less time brings the answer forward; one that leaves more does not put it off.
    groups.receive(now, &query(None, [239, 1, 2, 3], 10));
    let soon = groups.due();
    groups.receive(now, &query(None, [239, 1, 2, 3], 100));
    assert_eq!(groups.due(), soon);
}

/// Whoever answers for the same group does so at another time, each within that of the query.
#[test]
fn ports_answer_at_different_times() {
    let delays: Vec<_> = (0..100).map(|last| delay(&[2, 0, 0, 0, 0, last], &v4(3), SECOND)).collect();
    assert!(delays.iter().all(|&delay| delay < SECOND));
    let early = delays.iter().filter(|&&delay| delay < SECOND / 2).count();
    assert!((20..80).contains(&early), "{early} of 100 in the first half");
}
