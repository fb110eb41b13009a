//! VLAN tags: which frames a port receives by them, and whether it strips them, changed while frames come.

use super::flow::{batch, counter, receiver, sender, sent};
use super::*;

/// Frames without a tag always come, those with one if it was asked for; also of a promiscuous port.
#[test]
pub fn frames_of_other_vlans_are_filtered() {
    let _alone = alone();
    let net = StockNet::new();
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
        ("rx_vlan rm 6 0\nport stop 0\nport start 0\nstart", all - 2, [true, false, false]),
        ("vlan set filter off 0", all, [true, true, true]),
    ] {
        let said = receiver.does(commands);
        let came = sent(&mut sender, &mut receiver, count);
        let has = ["nobody's", "vlan 5", "vlan 6"].map(|name| came.contains_key(name));
        assert_eq!((came.len(), has), (count, [nobodys, five, six]), "{commands}: {said}");
    }
    // Two VLANs that were filtered, in four batches, in which the tag of the other kind was, too, and three times nobody's frame.
    assert_eq!(counter(&mut receiver, "rx_no_rule"), 12);
    sender.quit();
    receiver.quit();
    net.expect_gone();
}

/// More VLANs than the card has room for, with many addresses, are refused, and what was asked for before is received. So is
/// another hash, whose rules have to be there beside the old ones: the redirection table is that of the old ones still.
#[test]
pub fn all_vlans_are_a_rule_each() {
    let _alone = alone();
    let net = StockNet::new();
    let (mut sender, mut receiver) = (sender(&net), receiver(&net, &["--rss-udp"]));
    let said = receiver.does("vlan set filter on 0\nrx_vlan add all 0");
    assert!(!said.contains("failed"), "{said}");
    let came = sent(&mut sender, &mut receiver, batch().len() - 1);
    assert!(came.contains_key("vlan 5") && came.contains_key("vlan 6"), "{came:?}");
    let said = receiver.does("mac_addr add 0 02:00:00:00:00:01\nmac_addr add 0 02:00:00:00:00:02");
    assert!(said.contains("TABLE_FULL"), "{said}");
    let came = sent(&mut sender, &mut receiver, batch().len() - 1);
    assert!(came.contains_key("vlan 5"), "{came:?}");
    let said = receiver.does(&format!("port config 0 rss-hash-key ipv4-udp {}", "AB".repeat(40)));
    assert!(said.contains("TABLE_FULL"), "{said}");
    for part in (0..128).collect::<Vec<_>>().chunks(8) {
        let entries: Vec<_> = part.iter().map(|n| format!("({n},3)")).collect();
        receiver.does(&format!("port config 0 rss reta {}", entries.join(",")));
    }
    let came = sent(&mut sender, &mut receiver, batch().len() - 1);
    assert!(came.values().all(|&queue| queue == 3), "{came:?}");
    sender.quit();
    receiver.quit();
    net.expect_gone();
}

/// Of a port that receives meanwhile, and of one of its queues.
#[test]
pub fn stripping_is_switched_while_frames_come() {
    let _alone = alone();
    let net = StockNet::new();
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
    sender.quit();
    receiver.quit();
    net.expect_gone();
}
