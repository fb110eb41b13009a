//! Two programs on one port: each gets a copy of what comes.

use super::*;

/// Also after one has started again, and while the hash of one changes, which exchanges its rules.
#[test]
fn each_program_on_a_port_gets_each_frame() {
    let net = StockNet::alone();
    let frame = [&[2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xb5][..], &[7; 100]].concat();
    let mut sender = Sender::of(&net, &vec![frame; 50]);
    let options = ["-i", "--forward-mode=rxonly", "--rxq=2", "--txq=2", "--rss-udp"];
    let mut receivers = [(); 2].map(|()| Testpmd::start(&net, &["net_verbena1"], &options));
    receivers.iter_mut().for_each(|receiver| drop(receiver.does("start")));
    let mut before = [0; 2];
    let key = format!("port config 0 rss-hash-key ipv4-udp {}", "AB".repeat(40));
    let again = "stop\nport stop 0\nport start 0\nstart";
    for (n, changes) in [(0, ""), (1, again), (1, again), (0, &key), (0, &key), (1, &key), (0, again)] {
        let said = receivers[n].does(changes);
        assert!(!said.contains("rror") && !said.contains("ailed"), "{changes}: {said}");
        sender.sends();
        for (receiver, before) in receivers.iter_mut().zip(&mut before) {
            *before += 50;
            receiver.asks("show port stats 0", &format!("RX-packets: {before} "));
        }
    }
    end(&net, receivers.into_iter().chain([sender.testpmd]));
}
