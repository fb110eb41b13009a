//! What flow rules do with frames, and what completions say of these.

use driver::FlowCount;
use fpga_regs::{FlowContext, FlowKind, FrameKind, QpType, WqeOpcode};
use tests::{on_one_and_two_cards, Options, Side};

const GROUP: [u8; 6] = [1, 0x50, 0x56, 0x19, 0x20, 0xa7];

/// TCP of IPv4, ARP, a fragment of IPv6.
const KINDS: [(FrameKind, &[u8]); 3] = [
    (FrameKind::IPV4_TCP, &[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]),
    (FrameKind::OTHER, &[8, 6, 0, 1]),
    (FrameKind::IPV6_FRAGMENT, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 44, 64]),
];

#[test]
fn frames_are_marked_and_counted() {
    let raw =
        Options { qp_type: QpType::RAW_PACKET, depth: 32, bytes: 1 << 17, cqes: 128, ..Default::default() };
    on_one_and_two_cards(raw, |x, y| {
        let all = FlowContext::new().with_port(1).with_dmac(GROUP).with_dmac_mask([0xff; 6]);
        let arp = all.with_ether_type(0x806).with_ether_type_mask(0xffff).with_marked(true).with_mark(7);
        let arp = y.qp.create_flow(&arp.with_counted(true)).expect("a rule");
        let rest = all.with_precedence(1).with_counted(true);
        let rest = y.qp.create_flow(&rest).expect("a rule");
        let uncounted = y.qp.create_flow(&all.with_precedence(2)).expect("a rule");
        for round in 0..4 {
            for (n, (kind, after)) in KINDS.iter().enumerate() {
                let n = n as u64;
                x.buffer[..64].fill(round);
                x.buffer[..6].copy_from_slice(&GROUP);
                x.buffer[12..][..after.len()].copy_from_slice(after);
                // The part of it that this is.
                x.buffer[54..58].copy_from_slice(&[17, 0, 0, 8 + 1]);
                y.recv(n, &[y.sge(0, 2000)]);
                x.completes(x.wr(n, WqeOpcode::RAW_ETH, &[x.sge(0, 64)]));
                let wc = y.expect(n);
                let mark = (*kind == FrameKind::OTHER).then_some(7);
                assert_eq!((wc.frame_kind, wc.mark), (*kind, mark), "round {round}");
            }
        }
        let frames = |frames| FlowCount { frames, bytes: frames * 64 };
        let counts = [&arp, &rest, &uncounted].map(|rule| rule.count().expect("a count"));
        assert_eq!(counts, [frames(4), frames(8), frames(0)]);
        arp.destroy().expect("it was there");
        assert_eq!(arp.count().map_err(|error| error.errno()), Err(libc::ENOENT));
    });
}

/// By a rule that nobody of its priority takes it from; whoever else gets a copy only watches.
#[test]
fn what_rules_drop_is_counted_though_somebody_watches() {
    let raw = Options { qp_type: QpType::RAW_PACKET, ..Default::default() };
    on_one_and_two_cards(raw, |x, y| {
        let mac = y.device.query_port(1).expect("a port").mac;
        let all = FlowContext::new().with_port(1).with_dmac(mac).with_dmac_mask([0xff; 6]);
        let sniffer = FlowContext::new().with_port(1).with_kind(FlowKind::SNIFFER);
        let dropping = all.with_precedence(1).with_drop(true).with_counted(true);
        let dropping = y.qp.create_flow(&dropping).expect("a rule");
        let dropped = |y: &Side| {
            // The answer comes when the frame is done with.
            dropping.count().expect("a count");
            y.counter("RX_RULE_DROP")
        };
        let copying = y.qp.create_flow(&all.with_dont_trap(true)).expect("a rule");
        let frame = |x: &mut Side, y: &mut Side| {
            let before = dropped(y);
            x.buffer[..64].fill(0);
            x.buffer[..6].copy_from_slice(&mac);
            y.recv(1, &[y.sge(0, 2000)]);
            x.completes(x.wr(0, WqeOpcode::RAW_ETH, &[x.sge(0, 64)]));
            y.expect(1);
            dropped(y) - before
        };
        assert_eq!(frame(x, y), 1, "a copy is no reason to keep it");
        copying.destroy().expect("it was there");
        let watching = y.qp.create_flow(&sniffer).expect("a rule");
        assert_eq!(frame(x, y), 1, "nor is a sniffer");
        let _taking = y.qp.create_flow(&all.with_precedence(1)).expect("a rule");
        assert_eq!(frame(x, y), 0, "one of the same priority has it");
        watching.destroy().expect("it was there");
        assert_eq!(frame(x, y), 0);
    });
}

/// Changed while frames come: those without a tag, and those of the VLANs that are taken at the moment.
#[test]
fn rules_go_by_the_vlans_that_are_taken() {
    let raw = Options { qp_type: QpType::RAW_PACKET, ..Default::default() };
    on_one_and_two_cards(raw, |x, y| {
        let mac = y.device.query_port(1).expect("a port").mac;
        let all = FlowContext::new().with_port(1).with_dmac(mac).with_dmac_mask([0xff; 6]);
        let _rule = y.qp.create_flow(&all.with_by_vlan(true)).expect("a rule");
        let missed = |y: &Side| y.counter("RX_NO_RULE");
        let mut came = |vlan: Option<u16>| {
            let before = missed(y);
            x.buffer[..64].fill(0);
            x.buffer[..6].copy_from_slice(&mac);
            if let Some(vlan) = vlan {
                x.buffer[12..16].copy_from_slice(&[0x81, 0, (vlan >> 8) as u8, vlan as u8]);
            }
            y.recv(1, &[y.sge(0, 2000)]);
            x.completes(x.wr(0, WqeOpcode::RAW_ETH, &[x.sge(0, 64)]));
            let came = missed(y) == before;
            if came {
                y.expect(1);
            }
            came
        };
        let device = &y.device;
        assert!(came(None) && !came(Some(5)) && !came(Some(4095)));
        for vlan in [5, 4095] {
            device.set_vlan(1, vlan, true).expect("a VLAN");
        }
        assert!(came(Some(5)) && came(Some(4095)) && !came(Some(6)) && came(None));
        device.set_vlan(1, 5, false).expect("a VLAN");
        assert!(!came(Some(5)) && came(Some(4095)));
        for (port, vlan) in [(0, 5), (3, 5), (1, 4096), (1, u16::MAX)] {
            let error = device.set_vlan(port, vlan, true).expect_err("there is none");
            assert_eq!(error.errno(), libc::EINVAL, "port {port}, VLAN {vlan}");
        }
    });
}
