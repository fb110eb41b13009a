//! Which rules take a frame.

use super::*;
use crate::packet::PortId;
use crate::steering::{Copies, Copy};
use crate::zeroed::Zeroed;

fn rules(of: &[(FlowContext, u16)]) -> Zeroed<Rules> {
    let mut rules = Zeroed::<Rules>::new().unwrap();
    for (context, qp) in of {
        rules.add(context, 0, *qp).expect("room");
    }
    rules
}

/// The queue pairs that get a frame at the first port, in order.
fn steered(rules: &Rules, frame: &[u8]) -> Vec<u16> {
    let mut copies = Copies::of((0, 0));
    let at = PortId { card: 3, port: 0 };
    rules.steer(0, &Fields::of(frame), &mut |taken| match taken.qp {
        Some(queue) => copies.add(Copy { at, queue, hash: 0, marked: false.into(), mark: 0 }),
        None => copies.dropped.push(at),
    });
    let mut all: Vec<u16> = copies.all().iter().map(|copy| copy.queue).collect();
    all.sort_unstable();
    all
}

fn rule(kind: FlowKind) -> FlowContext {
    FlowContext::new().with_port(1).with_kind(kind)
}

fn to(last: u8) -> FlowContext {
    rule(FlowKind::NORMAL).with_dmac([2, 0, 0, 0, 0, last]).with_dmac_mask([0xff; 6])
}

const FRAME: [u8; 14] = [2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 6];
const GROUP: [u8; 14] = [1, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 6];

#[test]
fn equal_rules_all_get_a_copy_and_a_queue_pair_gets_one() {
    let rules = rules(&[(to(1), 20), (to(1), 21), (to(1), 20), (to(2), 22), (to(1).with_port(2), 23)]);
    assert_eq!(steered(&rules, &FRAME), [20, 21]);
    assert!(steered(&rules, &GROUP).is_empty());
}

#[test]
fn the_best_priority_keeps_a_frame_and_those_that_do_not_trap_let_it_go_on() {
    let any = rule(FlowKind::NORMAL).with_precedence(7);
    let copy = to(1).with_precedence(1).with_dont_trap(true);
    let late = any.with_precedence(9).with_dont_trap(true);
    let all = [(any, 20), (to(1).with_precedence(3), 21), (copy, 22), (late, 23)];
    assert_eq!(steered(&rules(&all), &FRAME), [21, 22]);
    assert_eq!(steered(&rules(&all), &GROUP), [20]);
    assert_eq!(steered(&rules(&[(copy, 22), (late, 23)]), &FRAME), [22, 23]);
}

#[test]
fn a_rule_that_drops_keeps_a_frame_from_those_of_worse_priority() {
    let drop = to(1).with_precedence(3).with_drop(true);
    let (worse, same, better) = (to(1).with_precedence(4), to(1).with_precedence(3), to(1));
    assert!(steered(&rules(&[(drop, 20), (worse, 21)]), &FRAME).is_empty());
    assert_eq!(steered(&rules(&[(drop, 20), (same, 21)]), &FRAME), [21]);
    assert_eq!(steered(&rules(&[(drop, 20), (better, 21)]), &FRAME), [21]);
    assert_eq!(steered(&rules(&[(drop, 20), (rule(FlowKind::SNIFFER), 21)]), &FRAME), [21]);
}

#[test]
fn defaults_get_what_no_rule_keeps_and_sniffers_everything() {
    let (all, groups) = (rule(FlowKind::ALL_DEFAULT), rule(FlowKind::MC_DEFAULT));
    let sniffer = rule(FlowKind::SNIFFER);
    let copy = to(1).with_dont_trap(true);
    let all = [(all, 20), (groups, 21), (sniffer, 22), (to(1), 23)];
    assert_eq!(steered(&rules(&all), &FRAME), [22, 23]);
    assert_eq!(steered(&rules(&all), &GROUP), [20, 21, 22]);
    assert_eq!(steered(&rules(&[all[0], (copy, 24)]), &FRAME), [20, 24]);
}

#[test]
fn rules_say_how_frames_are_marked_and_counted() {
    let mut rules = rules(&[
        (to(1).with_marked(true).with_mark(7), 20),
        (to(1).with_counted(true), 21),
        (to(1).with_drop(true).with_counted(true).with_mark(9), 22),
    ]);
    let mut taken = Vec::new();
    rules.steer(0, &Fields::of(&FRAME), &mut |what| taken.push((what.qp, what.mark, what.counts)));
    taken.sort_unstable();
    assert_eq!(taken, [(None, None, Some(2)), (Some(20), Some(7), None), (Some(21), None, Some(1))]);
    rules.count(2, 60);
    rules.count(2, 1514);
    rules.count(u16::MAX, 60);
    assert_eq!((rules.counts(1), rules.counts(2), rules.counts(usize::MAX)), ((0, 0), (2, 1574), (0, 0)));
    // Whoever gets the place begins at zero.
    rules.count(0, 60);
    (0..3).for_each(|place| rules.remove(place));
    assert_eq!(rules.add(&to(3).with_counted(true), 0, 23), Some(0));
    assert_eq!(rules.counts(0), (0, 0));
}

/// The kernel gets what is left, and what all have to hear.
#[test]
fn the_kernel_is_the_last_taker() {
    let kernel = |priority| rule(FlowKind::KERNEL).with_precedence(priority);
    let plain = (kernel(1), 20);
    assert_eq!(steered(&rules(&[plain]), &FRAME), [20]);
    let ip = [2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 0];
    for (other, kind) in [(to(1), "a rule"), (rule(FlowKind::ALL_DEFAULT), "a default")] {
        let rules = rules(&[plain, (other, 21)]);
        assert_eq!(steered(&rules, &ip), [21], "{kind} keeps it");
        assert_eq!(steered(&rules, &FRAME), [20, 21], "{kind}: ARP");
        assert!(steered(&rules, &GROUP).contains(&20), "{kind}: a group");
    }
    assert_eq!(steered(&rules(&[plain, (to(2), 21)]), &ip), [20], "a rule for others");
    let copies = [plain, (to(1).with_dont_trap(true), 21), (rule(FlowKind::SNIFFER), 22)];
    assert_eq!(steered(&rules(&copies), &ip), [20, 21, 22], "copies keep nothing");
    // A datagram to port 9 of a group.
    let datagram =
        [&[1, 0, 0x5e, 1, 2, 3, 9, 9, 9, 9, 9, 9, 8, 0, 0x45][..], &[0; 8], &[17], &[0; 10], &[0, 9, 0, 9]];
    let datagram = datagram.concat();
    let ports = rule(FlowKind::NORMAL).with_ip_version(4).with_dst_port(9).with_dst_port_mask(0xffff);
    assert_eq!(steered(&rules(&[plain, (ports, 21)]), &datagram), [21], "a flow of a group");
    assert_eq!(steered(&rules(&[plain, (ports.with_dont_trap(true), 21)]), &datagram), [20, 21], "a copy");
    assert_eq!(steered(&rules(&[plain, (ports.with_dst_port(8), 21)]), &datagram), [20], "another");
    // The interface of a VLAN, beside that of the port.
    let vlan = (kernel(0).with_vlan_tci(107).with_vlan_tci_mask(0xfff), 23);
    let tagged = |vlan| [2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 0x81, 0, 0, vlan, 8, 0];
    let rules = rules(&[plain, vlan]);
    assert_eq!(steered(&rules, &tagged(107)), [23]);
    assert_eq!(steered(&rules, &tagged(108)), [20]);
    assert_eq!(steered(&rules, &ip), [20]);
}

/// Of the function of the rule, at its port. A tag of 802.1ad is of no VLAN, and what no rule takes goes to the kernel.
#[test]
fn rules_by_vlan_take_what_has_no_tag_and_the_vlans_that_their_function_takes() {
    let tagged =
        |kind: u16, vlan: u16| [&FRAME[..12], &kind.to_be_bytes(), &vlan.to_be_bytes(), &[8, 0]].concat();
    let mut rules = rules(&[(to(1).with_by_vlan(true), 20), (rule(FlowKind::KERNEL), 21)]);
    rules.add(&to(1).with_by_vlan(true), 5, 22).expect("room");
    rules.vlans.set((0, 0), 4095, true);
    rules.vlans.set((5, 0), 7, true);
    rules.vlans.set((5, 1), 8, true);
    let ip = [2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 0];
    assert_eq!(steered(&rules, &ip), [20, 22]);
    assert_eq!(steered(&rules, &tagged(0x8100, 0xffff)), [20], "whatever its priority");
    assert_eq!(steered(&rules, &tagged(0x8100, 7)), [22]);
    assert_eq!(steered(&rules, &tagged(0x8100, 8)), [21], "at the other port");
    assert_eq!(steered(&rules, &tagged(0x88a8, 7)), [21]);
    rules.vlans.clear(5);
    rules.vlans.set((0, 0), 7, true);
    rules.vlans.set((0, 0), 4095, false);
    assert_eq!(steered(&rules, &tagged(0x8100, 7)), [20]);
    assert_eq!(steered(&rules, &tagged(0x8100, 4095)), [21]);
}

#[test]
fn places_are_used_again_and_the_table_has_an_end() {
    let mut rules = rules(&[]);
    for n in 0..MAX_RULES {
        assert_eq!(rules.add(&to(1), 0, 20), Some(n));
    }
    assert_eq!(rules.add(&to(1), 0, 20), None);
    rules.remove(77);
    assert!(rules.get(77).is_none() && rules.get(MAX_RULES).is_none());
    assert_eq!(rules.add(&to(1), 0, 21), Some(77));
    assert_eq!(steered(&rules, &FRAME), [20, 21]);
    rules.recover();
    assert_eq!(steered(&rules, &FRAME), [20, 21]);
    rules.remove_of(20);
    assert_eq!(steered(&rules, &FRAME), [21]);
    rules.remove_of(21);
    assert_eq!((rules.count, rules.top), (0, 0));
    assert!(rules.lists.iter().all(|&first| first == 0) && rules.groups.iter().all(|group| group.rules == 0));
}

#[test]
fn groups_have_an_end_and_are_used_again() {
    let mut rules = rules(&[]);
    let any = |priority: u16| rule(FlowKind::NORMAL).with_precedence(priority);
    for priority in 0..MAX_GROUPS as u16 {
        assert!(rules.add(&any(priority), 0, 20 + priority).is_some());
    }
    assert_eq!(rules.add(&any(999), 0, 20), None);
    assert!(rules.add(&any(7), 0, 19).is_some(), "of a group that there is");
    assert_eq!(steered(&rules, &FRAME), [20]);
    rules.remove_of(20);
    assert_eq!(steered(&rules, &FRAME), [21]);
    assert!(rules.add(&any(999), 0, 20).is_some());
    assert_eq!(steered(&rules, &FRAME), [21]);
}

/// Rules are found as a search of all of them would find them.
#[test]
fn any_rule_among_thousands_is_found() {
    let mut rules = rules(&[]);
    let address = |n: u16| [2, 0, 0, 0, (n >> 8) as u8, n as u8];
    for n in 0..5000 {
        let one = rule(FlowKind::NORMAL).with_dmac(address(n)).with_dmac_mask([0xff; 6]);
        rules.add(&one, 0, n).expect("room");
    }
    for n in (0..5000).step_by(3) {
        rules.remove(n);
    }
    for n in 0..5000 {
        let mut frame = FRAME;
        frame[..6].copy_from_slice(&address(n));
        let found: &[u16] = if n % 3 == 0 { &[] } else { &[n] };
        assert_eq!(steered(&rules, &frame), found);
    }
}
