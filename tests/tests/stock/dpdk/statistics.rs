//! What a port counts.

use super::flow::counter;
use super::*;

/// Frames that are no frames are errors, and nothing else that was sent.
#[test]
fn what_cannot_be_sent_is_counted_as_an_error_alone() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let frame = |length: usize| {
        let start = [2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xb5];
        start.into_iter().chain(std::iter::repeat(7)).take(length).collect::<Vec<u8>>()
    };
    let lengths = [10, 60, 13, 100, 200];
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    receiver.does("start");
    let reader = pcap.reader(&lengths.map(frame));
    let mut sender = Testpmd::start(&net, &[&reader, "net_verbena0"], &["-i"]);
    sender.types("start");
    receiver.asks("show port stats 0", "RX-bytes:  360\n");
    let said = sender.does("show port stats 1\nshow port xstats 1");
    for (name, number) in [
        ("TX-packets", 3),
        ("TX-bytes", 360),
        ("TX-errors", 2),
        ("tx_good_packets", 3),
        ("tx_q0_packets", 3),
        ("tx_q0_bytes", 360),
    ] {
        assert_eq!(last(&said, name), number, "{name}: {said}");
    }
    assert_eq!(counter(&mut receiver, "rx_q0_packets"), 3);
    end(&net, [sender, receiver]);
}

/// A port begins to count when a program opens it, whatever an earlier program has missed.
#[test]
fn a_program_counts_from_its_start() {
    let net = StockNet::alone();
    let mut first = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly", "--rxd=64"]);
    first.does("");
    let mut sender = Sender::of(&net, &frames()[..200]);
    sender.sends();
    // Nobody takes more than there is room for.
    let start = Instant::now();
    while last(&first.does("show port stats 0"), "RX-missed") == 0 {
        assert!(start.elapsed() < LIMIT, "nothing is missed: {}", first.said());
    }
    first.quit();
    let mut second = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    let said = second.does("show port stats 0\nshow port xstats 0");
    for name in ["RX-missed", "rx_missed_errors", "rx_no_recv"] {
        assert_eq!(last(&said, name), 0, "{name}: {said}");
    }
    end(&net, [sender.testpmd, second]);
}

/// Frames that wait for a receive when their program ends leave all the same, or are counted.
#[test]
fn what_waits_is_sent_before_a_port_stops() {
    let net = StockNet::alone();
    // Started, and receiving by nobody until it is told to.
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly", "--rxd=64"]);
    receiver.does("");
    // Nor does it wait for a thread that looks after the link.
    let to = ["--eth-peer=0,02:56:42:00:01:00", "--forward-mode=txonly", "--txd=512", "--no-lsc-interrupt"];
    let said = Testpmd::doing(
        &net,
        &["net_verbena0"],
        &to,
        "start tx_first 8\nstop\nport stop 0\nshow port stats 0\n",
    );
    // On a busy machine some may not have left within a second.
    let (sent, errors) = (last(&said, "TX-packets"), last(&said, "TX-errors"));
    assert!(sent + errors >= 8 * 32, "{said}");
    receiver.does("start");
    let start = Instant::now();
    loop {
        let said = receiver.does("show port stats 0");
        let (came, missed) = (last(&said, "RX-packets"), last(&said, "RX-missed"));
        if came + missed == sent {
            break;
        }
        assert!(start.elapsed() < LIMIT, "{came} came and {missed} were missed of {sent}: {said}");
    }
    end(&net, [receiver]);
}
