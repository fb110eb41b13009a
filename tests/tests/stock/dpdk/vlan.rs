//! VLAN tags: which frames a port receives by them, and whether it strips them, changed while frames come.

use driver::{Device, Flow, QpCaps, QpInit};
use fpga_regs::{FlowContext, QpType};
use model::attach::SegmentCard;

use super::flow::{batch, counter, receiver, sender, sent};
use super::*;

/// Frames without a tag always come, those with one if it was asked for; also of a promiscuous port.
#[test]
pub fn frames_of_other_vlans_are_filtered() {
    let net = StockNet::alone();
    let mut frames: Vec<_> = batch().into_iter().map(|(_, frame)| frame).collect();
    // A tag of 802.1ad with the number of a VLAN is none of it.
    frames.push([&[2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xa8, 0, 5][..], &[0; 300]].concat());
    let (mut sender, mut receiver) = (Sender::of(&net, &frames), receiver(&net, &[]));
    let all = batch().len();
    // Who says which VLANs, how many frames come, and which of the three that differ do.
    for (commands, count, [nobodys, five, six]) in [
        ("rx_vlan add 5 0", all - 1, [false, true, true]),
        ("vlan set filter on 0\nrx_vlan add 5 0", all - 2, [false, true, false]),
        ("rx_vlan add 6 0\nrx_vlan rm 5 0", all - 2, [false, false, true]),
        ("set promisc 0 on", all - 1, [true, false, true]),
        // The modes stay, the VLANs are gone.
        ("stop\nport stop 0\nport reset 0\nport start 0\nstart", all - 2, [true, false, false]),
        ("rx_vlan add 6 0\nrx_vlan rm 6 0\nport stop 0\nport start 0\nstart", all - 2, [true, false, false]),
        ("vlan set filter off 0", all, [true, true, true]),
    ] {
        let said = receiver.does(commands);
        let came = sent(&mut sender, &mut receiver, count);
        let has = ["nobody's", "vlan 5", "vlan 6"].map(|name| came.contains_key(name));
        assert_eq!((came.len(), has), (count, [nobodys, five, six]), "{commands}: {said}");
    }
    // Since the reset: two VLANs that were filtered, in two batches, in which the tag of the other kind was, too.
    assert_eq!(counter(&mut receiver, "rx_no_rule"), 6);
    end(&net, [sender.testpmd, receiver]);
}

/// All VLANs take no room of the rules, of a promiscuous port with all groups and many addresses neither, and changing the hash
/// keeps them.
#[test]
pub fn all_vlans_are_received_by_many_addresses() {
    let net = StockNet::alone();
    let (mut sender, mut receiver) = (sender(&net), receiver(&net, &["--rss-udp"]));
    let addresses: Vec<_> = (1..=60).map(|n| format!("mac_addr add 0 02:00:00:00:01:{n:02x}")).collect();
    for commands in [
        "vlan set filter on 0",
        "rx_vlan add all 0",
        "set allmulti 0 on\nset promisc 0 on",
        &addresses.join("\n"),
    ] {
        let said = receiver.does(commands);
        let refused = ["rror", "ailed", "TABLE_FULL"].iter().any(|word| said.contains(word));
        assert!(!refused, "{commands}: {said}");
    }
    let came = sent(&mut sender, &mut receiver, batch().len());
    assert!(came.contains_key("vlan 5") && came.contains_key("vlan 6"), "{came:?}");
    receiver.does("rx_vlan rm 5 0");
    let said = receiver.does(&format!("port config 0 rss-hash-key ipv4-udp {}", "AB".repeat(40)));
    assert!(!said.contains("fail"), "{said}");
    let came = sent(&mut sender, &mut receiver, batch().len() - 1);
    assert!(!came.contains_key("vlan 5") && came.contains_key("vlan 6"), "{came:?}");
    end(&net, [sender.testpmd, receiver]);
}

/// All rules of the receiver's card, of another port.
fn rules_that_there_is_room_for(net: &StockNet) -> Vec<Flow<SegmentCard>> {
    let device = Device::open(SegmentCard::open(&net.socket(), 1).expect("a card")).expect("a device");
    let cq = device.create_cq(1, 0).expect("a CQ");
    let caps = QpCaps { max_recv_wr: 1, max_recv_sge: 1, ..QpCaps::default() };
    let qp = device.alloc_pd().and_then(|pd| pd.create_qp(&QpInit::new(QpType::RAW_PACKET, &cq, caps)));
    let qp = qp.expect("a queue pair");
    let rule = FlowContext::new().with_port(2).with_vlan_tci_mask(u16::MAX);
    (0..=u16::MAX).map_while(|n| qp.create_flow(&rule.with_vlan_tci(n)).ok()).collect()
}

/// With all rules of the card in use, a further address is refused, and what was asked for before is received. So is another
/// hash, whose rules have to be there beside the old ones: the redirection table is that of the old ones still.
#[test]
pub fn filters_that_find_no_room_leave_what_was_there() {
    let net = StockNet::alone();
    let (mut sender, mut receiver) = (sender(&net), receiver(&net, &["--rss-udp"]));
    let taken = rules_that_there_is_room_for(&net);
    receiver.does_saying("mac_addr add 0 02:00:00:00:00:01", &["TABLE_FULL"]);
    let came = sent(&mut sender, &mut receiver, batch().len() - 1);
    assert!(came.contains_key("vlan 5"), "{came:?}");
    receiver
        .does_saying(&format!("port config 0 rss-hash-key ipv4-udp {}", "AB".repeat(40)), &["TABLE_FULL"]);
    for part in (0..128).collect::<Vec<_>>().chunks(8) {
        let entries: Vec<_> = part.iter().map(|n| format!("({n},3)")).collect();
        receiver.does(&format!("port config 0 rss reta {}", entries.join(",")));
    }
    let came = sent(&mut sender, &mut receiver, batch().len() - 1);
    assert!(came.values().all(|&queue| queue == 3), "{came:?}");
    drop(taken);
    end(&net, [sender.testpmd, receiver]);
}

/// Of a port that receives meanwhile, and of one of its queues.
#[test]
pub fn stripping_is_switched_while_frames_come() {
    let net = StockNet::alone();
    let (mut sender, mut receiver) = (sender(&net), receiver(&net, &[]));
    receiver.does("flow create 0 ingress pattern eth / vlan vid is 5 / end actions queue index 3 / end");
    for (command, stripped) in [
        ("vlan set strip on 0", &["0x5", "0x6"][..]),
        ("vlan set stripq off 0,3", &["0x6"]),
        ("vlan set strip off 0", &[]),
    ] {
        let said = receiver.does(command);
        assert!(!said.contains("fail"), "{command}: {said}");
        let before = receiver.said().len();
        // A frame without its tag is as long as one of the others.
        sent(&mut sender, &mut receiver, batch().len() - 1 - stripped.len());
        let said = receiver.said()[before..].to_owned();
        for tag in ["0x5", "0x6"] {
            let count = said.matches(&format!("VLAN tci={tag} ")).count();
            assert_eq!(count, usize::from(stripped.contains(&tag)), "{command}: {tag}: {said}");
        }
        assert_eq!(said.matches(" RTE_MBUF_F_RX_VLAN_STRIPPED").count(), stripped.len(), "{command}: {said}");
    }
    end(&net, [sender.testpmd, receiver]);
}
