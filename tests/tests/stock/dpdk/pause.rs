//! Flow control: whether a port asks its peers to wait, and whether it waits.

use super::flow::counter;
use super::*;

/// Frames, of which a port has receives for some.
const FRAMES: usize = 600;

/// What testpmd says of flow control when it does not ask, does not wait, does neither, or both.
#[test]
fn flow_control_is_what_was_set() {
    let net = StockNet::alone();
    let mut testpmd = Testpmd::start(&net, &["net_verbena1"], &["-i"]);
    for [rx, tx] in [["on", "on"], ["on", "off"], ["off", "on"], ["off", "off"], ["on", "on"]] {
        let set = format!("set flow_ctrl rx {rx} tx {tx} 0 0 0 0 mac_ctrl_frame_fwd off autoneg off 0");
        let said = testpmd.does(&format!("{set}\nshow port 0 flow_ctrl"));
        for (what, is) in [("Rx pause", rx), ("Tx pause", tx)] {
            assert!(said.contains(&format!("{what}: {is}")), "{set}: {said}");
        }
    }
    let set = "set flow_ctrl rx on tx on 0 0 0 0 mac_ctrl_frame_fwd on autoneg off 0";
    testpmd.does_saying(set, &["pause frames that are given to programs"]);
    end(&net, [testpmd]);
}

/// A port that does not ask is not waited for: what it has no receives for is lost at once, and counted.
#[test]
fn a_port_that_asks_nobody_to_wait_loses_frames() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let frame = [&[2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xb5][..], &[7; 100]].concat();
    // It has 256 receives, and takes nothing until it is told to.
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--rxd=256"]);
    receiver.does("set flow_ctrl rx on tx off 0 0 0 0 mac_ctrl_frame_fwd off autoneg off 0\nset fwd rxonly");
    let reader = pcap.reader(&vec![frame; FRAMES]);
    let mut sender = Testpmd::start(&net, &[&reader, "net_verbena0"], &["-i"]);
    sender.types("start");
    sender.asks("show port stats 1", &format!("TX-packets: {FRAMES} "));
    receiver.asks("show port xstats 0", &format!("rx_no_recv: {}", FRAMES - 256));
    assert_eq!(counter(&mut receiver, "tx_pause"), 0, "nobody is asked to wait");
    receiver.types("start");
    receiver.asks("show port stats 0", "RX-packets: 256 ");
    receiver.asks("show port stats 0", &format!("RX-missed: {} ", FRAMES - 256));
    end(&net, [sender, receiver]);
}
