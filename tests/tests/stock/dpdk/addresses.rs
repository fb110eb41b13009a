//! What a port says of itself, and which frames come to its addresses.

use std::collections::BTreeSet;

use super::*;

const OWN: &str = "02:56:42:00:01:00";
const OTHER: &str = "02:00:00:00:00:05";
const NEW: &str = "02:00:00:00:00:06";
const GROUP: &str = "01:00:5E:01:02:03";
const OTHER_GROUP: &str = "01:80:C2:00:00:02";

/// A frame to each address, and a last one that always comes.
fn frames() -> Vec<Vec<u8>> {
    let bytes = |mac: &str| -> Vec<u8> {
        mac.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
    };
    let frame = |mac| [&bytes(mac)[..], &[2, 9, 9, 9, 9, 9, 0x88, 0xb5], &[0; 50]].concat();
    [OWN, OTHER, NEW, GROUP, OTHER_GROUP, "FF:FF:FF:FF:FF:FF"].map(frame).to_vec()
}

/// The addresses whose frames the receiver gets, without the one that always comes.
fn come(sender: &mut Sender, receiver: &mut Testpmd) -> BTreeSet<String> {
    let before = receiver.said().len();
    sender.sends();
    let found = |said: &str| -> BTreeSet<String> {
        let lines = said.get(before..).unwrap_or_default().split(" - dst=").skip(1);
        lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    receiver.expect_that("the last frame does not come", |said| found(said).contains("FF:FF:FF:FF:FF:FF"));
    let mut came = found(&receiver.said());
    came.remove("FF:FF:FF:FF:FF:FF");
    came
}

fn set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|&mac| mac.to_owned()).collect()
}

#[test]
pub fn frames_come_to_the_addresses_of_a_port() {
    let net = StockNet::alone();
    let (mut sender, mut receiver) = (Sender::of(&net, &frames()), flow::receiver(&net, &[]));
    assert_eq!(come(&mut sender, &mut receiver), set(&[OWN]));
    receiver.does(&format!("mac_addr add 0 {OTHER}\nmcast_addr add 0 {GROUP}"));
    assert_eq!(come(&mut sender, &mut receiver), set(&[OWN, OTHER, GROUP]));
    receiver.does(&format!("mac_addr remove 0 {OTHER}\nmcast_addr remove 0 {GROUP}\nset allmulti 0 on"));
    assert_eq!(come(&mut sender, &mut receiver), set(&[OWN, GROUP, OTHER_GROUP]));
    receiver.does(&format!("set allmulti 0 off\nmac_addr set 0 {NEW}"));
    assert_eq!(come(&mut sender, &mut receiver), set(&[NEW]));
    receiver.does("set promisc 0 on");
    assert_eq!(come(&mut sender, &mut receiver), set(&[OWN, OTHER, NEW, GROUP, OTHER_GROUP]));
    end(&net, [sender.testpmd, receiver]);
}

/// The table of docs/dpdk.md, line by line.
#[test]
pub fn a_port_is_what_seastar_asks_for() {
    let net = StockNet::alone();
    let mut testpmd = Testpmd::start(&net, &["net_verbena0"], &["-i", "--rxq=4", "--txq=4"]);
    let said = testpmd.does(
        "show port info 0\nshow port 0 rx_offload capabilities\nshow port 0 tx_offload capabilities\n\
         show port 0 flow_ctrl\nport stop 0\nport config mtu 0 9000\nport start 0\nset allmulti 0 on\nshow port info 0\n\
         show port stats 0\nshow port xstats 0",
    );
    for text in [
        "Hash key size in bytes: 40",
        "Redirection table size: 128",
        "VLAN_STRIP IPV4_CKSUM UDP_CKSUM TCP_CKSUM",
        "VLAN_INSERT IPV4_CKSUM UDP_CKSUM TCP_CKSUM TCP_TSO",
        "Rx pause: on",
        "Tx pause: on",
        "Link status: up",
        "MTU: 9000",
        "Allmulticast mode: enabled",
        "RX-packets: 0",
        "rx_good_packets: 0",
    ] {
        assert!(said.contains(text), "no {text:?}:\n{said}");
    }
    end(&net, [testpmd]);
}

/// A switch does not send a frame back to where it came from.
#[test]
fn what_a_port_sends_does_not_come_back() {
    let net = StockNet::alone();
    let mut receiver = flow::receiver(&net, &[]);
    receiver.does("set promisc 0 on");
    // Promiscuous, too, as programs begin.
    let mut sender = Sender::of(&net, &frames());
    sender.sends();
    receiver.expect("dst=FF:FF:FF:FF:FF:FF");
    let said = sender.testpmd.does("stop\nshow port stats 1");
    let sent = frames().len();
    assert!(said.contains("RX-packets: 0 ") && said.contains(&format!("TX-packets: {sent} ")), "{said}");
    end(&net, [sender.testpmd, receiver]);
}
