//! Ports in simulated time.

use tests::stock::only_the_wire;

use super::*;

/// Check sequence, preamble, start and gap of a frame (IEEE 802.3), in bytes.
const AROUND: u64 = 24;

/// A net in simulated time, of cards that send as fast as the wire takes it, while the second value is there.
fn simulated() -> (StockNet, Program) {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = only_the_wire(directory.path());
    StockNet::held(&["--clock", "virtual", "--card", profile.to_str().expect("UTF-8")])
}

/// testpmd divides the packets that it has sent by its clock.
#[test]
fn frames_leave_at_the_rate_of_the_wire() {
    let _alone = alone();
    let (net, held) = simulated();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    receiver.does("start");
    for length in [64, 1514] {
        let line = 10_000_000_000 / 8 / (length + AROUND);
        let txpkts = format!("--txpkts={length}");
        let to = ["-i", "--forward-mode=txonly", "--eth-peer=0,02:56:42:00:01:00", &txpkts];
        let mut sender = Testpmd::start(&net, &["net_verbena0"], &to);
        let received = last(&receiver.does("show port stats 0"), "RX-packets");
        // Since the last question; a ring full of packets is posted at the start, and a burst at once after that.
        sender.does("start");
        let (mut before, mut pause) = (0, Duration::from_millis(200));
        let said = loop {
            std::thread::sleep(pause);
            let said = sender.does("show port stats 0");
            let sent = last(&said, "TX-packets");
            if before > 0 && sent - before >= 10_000 {
                break said;
            }
            (before, pause) = (sent, pause * 2);
            assert!(pause < LIMIT, "{length} B: {said}");
        };
        let rate = last(&said, "Tx-pps");
        assert!((line * 99 / 100..=line * 101 / 100).contains(&rate), "{length} B: {rate} of {line}: {said}");
        let said = sender.does("stop\nport stop 0\nshow port stats 0");
        let sent = last(&said, "TX-packets");
        assert_eq!(last(&said, "TX-errors"), 0, "{said}");
        receiver.asks("show port stats 0", &format!("RX-packets: {} ", received + sent));
        sender.quit();
    }
    receiver.quit();
    net.expect_gone_after(held);
}

/// Programs poll as long as they run. While nothing comes, time passes as the machine's does.
#[test]
fn programs_wait_for_frames_as_long_as_they_run() {
    let _alone = alone();
    let (net, held) = simulated();
    // Longer than a program takes to start, in which it holds time back, and shorter than the test waits.
    let impatient = ["env", "VERBENA_PATIENCE=6"];
    let wait = Duration::from_secs(8);
    let mut idle = Testpmd::start_by(&net, &impatient, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    idle.does("start");
    let every = ["--stats-period=1", "--forward-mode=rxonly"];
    let printed = |testpmd: &Testpmd| testpmd.said().matches("NIC statistics").count() as u64;
    let start = Instant::now();
    let mut counting =
        ["net_verbena0", "net_verbena0p2"].map(|port| Testpmd::start_by(&net, &impatient, &[port], &every));
    for testpmd in &mut counting {
        testpmd.expect_that("it prints no statistics", |said| said.matches("NIC statistics").count() >= 2);
    }
    std::thread::sleep(wait);
    idle.does("show port info 0");
    for testpmd in &counting {
        let (printed, passed) = (printed(testpmd), start.elapsed());
        assert!(printed <= passed.as_secs() + 2, "{printed} times in {passed:?}");
    }
    let said = counting.map(Testpmd::interrupt).into_iter().chain([idle.quit()]);
    said.for_each(|said| assert!(!said.contains("stood still"), "{said}"));
    net.expect_gone_after(held);
}
