//! What a program may ask of its queues.

use super::flow::counter;
use super::*;

/// Frames that wait until they are taken.
const FRAMES: usize = 20;
/// Frames that a transmit queue has room for, and a receive queue has not.
const WAITING: usize = 200;

fn frames_for_card_1(count: usize) -> Vec<Vec<u8>> {
    vec![[&[2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xb5][..], &[7; 100]].concat(); count]
}

/// Also while a port is started: what is asked of all queues and what of one, and a size that is no power of two.
#[test]
pub fn queues_are_as_they_were_made() {
    let net = StockNet::alone();
    let options = ["-i", "--rxq=2", "--txq=2", "--rxd=300", "--txd=300", "--enable-hw-vlan-strip"];
    let mut testpmd = Testpmd::start(&net, &["net_verbena0"], &options);
    testpmd.does_saying(
        "show rxq info 0 1",
        &["Mempool: mb_pool_0", "RX scattered packets: on", "RXDs: 300", "Rx queue state: started"],
    );
    testpmd.does_saying("show txq info 0 1", &["TXDs: 512", "Tx queue state: started"]);
    testpmd.does_saying(
        "show config rxtx",
        &["RX desc=300", "RX Offloads=0x1\n", "TX desc=512", "TX offloads=0x0"],
    );
    // testpmd shows the first queue.
    testpmd.does_saying("vlan set stripq off 0,0\nshow config rxtx", &["RX Offloads=0x0\n"]);
    let wrong = ["Failed to retrieve information for port: 0, RX queue: 2", "desc id = 300"];
    testpmd.does_saying("show rxq info 0 2\nshow port 0 rxq 0 desc 300 status", &wrong);
    // Of queues that there are not; releases of testpmd differ in what they say.
    for ask in ["rxq 7 desc used count", "rxq 7 desc 0 status", "txq 7 desc 0 status"] {
        let said = testpmd.does(&format!("show port 0 {ask}"));
        assert!(["nvalid", "desc id = 0"].iter().any(|answer| said.contains(answer)), "{ask}: {said}");
    }
    end(&net, [testpmd]);
}

/// Frames wait in their descriptors until the program takes them.
#[test]
pub fn descriptors_of_a_receive_queue_say_what_waits() {
    let net = StockNet::alone();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    let mut sender = Sender::of(&net, &frames_for_card_1(FRAMES));
    let empty = "desc count = 0\n";
    receiver.asks("show port 0 rxq 0 desc used count", empty);
    sender.sends();
    receiver.asks("show port 0 rxq 0 desc used count", &format!("desc count = {FRAMES}\n"));
    for (descriptor, status) in [(0, "DONE"), (FRAMES - 1, "DONE"), (FRAMES, "AVAILABLE"), (255, "AVAILABLE")]
    {
        receiver.does_saying(
            &format!("show port 0 rxq 0 desc {descriptor} status"),
            &[&format!("Desc status = {status}\n")],
        );
    }
    receiver.does("start");
    receiver.asks("show port 0 rxq 0 desc used count", empty);
    receiver.asks("show port stats 0", &format!("RX-packets: {FRAMES} "));
    receiver.asks("show port 0 rxq 0 desc 0 status", "Desc status = AVAILABLE\n");
    end(&net, [sender.testpmd, receiver]);
}

/// A testpmd that reads frames and sends them from its port 1 to its port 2, which takes 32 and no more.
fn sender_to_itself(net: &StockNet, pcap: &Pcap) -> Testpmd {
    let reader = pcap.reader(&frames_for_card_1(WAITING));
    let devices = [&*reader, "net_verbena0", "net_verbena1"];
    Testpmd::start(net, &devices, &["-i", "--portlist=0,1", "--rxd=32", "--txd=256"])
}

/// Looks that take longer than frames wait, and than it may be off its core.
const LOOKS: usize = 3000;
/// What makes it send. A port holds frames up for 100 ms after it has posted receives, as it does at its start.
const SEND: &str = "port stop 2\nport start 2\nstart\n";

/// Descriptors of a transmit queue are free when their frames are sent, although the program sends nothing more.
#[test]
pub fn descriptors_of_a_transmit_queue_say_what_is_sent() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let mut testpmd = sender_to_itself(&net, &pcap);
    let look = |n: usize| format!("show port 1 txq 0 desc {n} status\n");
    testpmd.does_saying(&look(255), &["Desc status = DONE\n"]);
    let said = testpmd.does(&format!("{SEND}{}{}", look(255).repeat(LOOKS), look(0).repeat(10)));
    // Some of them were taken at once, so that there is room, and the others wait.
    let looks: Vec<bool> =
        said.split("Desc status = ").skip(1).map(|look| look.starts_with("FULL")).collect();
    assert_eq!(looks.len(), LOOKS + 10, "{said}");
    let full = looks[..LOOKS].iter().filter(|full| **full).count();
    assert!(full >= 20, "{full} of {}: {said}", looks.len());
    assert!(!looks[LOOKS..].contains(&true), "the next one is free: {said}");
    testpmd.asks(&look(255), "Desc status = DONE\n");
    end(&net, [testpmd]);
}

/// The mbufs of frames that are sent are free at once, while their frames wait, and although the program sends nothing more.
#[test]
fn mbufs_are_free_while_their_frames_wait() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let mut testpmd = sender_to_itself(&net, &pcap);
    let looks = "show port 1 txq 0 desc 255 status\ndump_mempool mb_pool_0\n".repeat(400);
    let said = testpmd.does(&format!("{SEND}{looks}"));
    let number = |text: &str, name: &str| -> usize {
        let behind = text.split(name).nth(1).and_then(|text| text.split_whitespace().next());
        behind.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    // Whether frames wait at each look, and how many mbufs are free then.
    let pool = |look: &str| {
        let free = number(look, " total_cache_count=") + number(look, " common_pool_count=");
        (look.starts_with("FULL"), free)
    };
    let looks: Vec<_> = said.split("Desc status = ").skip(1).map(pool).collect();
    let all = number(&said, " populated_size=");
    // They wait before and after it was counted.
    let free = looks.windows(2).any(|two| two[0] == (true, all) && two[1].0);
    assert!(all >= 4096 && free, "of {all} mbufs, not all are free while frames wait: {looks:?}");
    testpmd.asks("show port stats 1", &format!("TX-packets: {WAITING} "));
    let mut free = || pool(&testpmd.does("dump_mempool mb_pool_0")).1;
    tests::wait_for("not all mbufs come back", || free() == all);
    end(&net, [testpmd]);
}

/// Waits until a queue has received so many frames in all, and as many were dropped as no queue was there for.
fn come(receiver: &mut Testpmd, queue: usize, count: usize, dropped: usize) {
    let name = format!("rx_q{queue}_packets");
    let counts = |receiver: &mut Testpmd| [counter(receiver, &name), counter(receiver, "rx_no_qp")];
    let start = Instant::now();
    while counts(receiver) != [count, dropped].map(|count| count as u64) {
        assert!(
            start.elapsed() < LIMIT,
            "not {count} in queue {queue}, {dropped} dropped: {}",
            receiver.said()
        );
    }
}

/// A receive queue is stopped while its port goes on: its frames are dropped and counted, and may go to another.
#[test]
pub fn receive_queues_start_and_stop_apart() {
    let net = StockNet::alone();
    let options = ["-i", "--forward-mode=rxonly", "--rxq=2", "--txq=2", "--rss-ip"];
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &options);
    // Frames of no IP have no hash.
    let [first, second] = [0, 1].map(|queue| format!("port config 0 rss reta (0,{queue})\n"));
    receiver.does(&format!("{first}start"));
    let mut sender = Sender::of(&net, &frames_for_card_1(FRAMES));
    sender.sends();
    come(&mut receiver, 0, FRAMES, 0);

    receiver.does("stop\nport 0 rxq 0 stop\nstart");
    let state = |receiver: &mut Testpmd, queue: usize| {
        let said = receiver.does(&format!("show rxq info 0 {queue}"));
        ["started", "stopped"].into_iter().find(|state| said.contains(&format!("Rx queue state: {state}")))
    };
    assert_eq!([0, 1].map(|queue| state(&mut receiver, queue)), [Some("stopped"), Some("started")]);
    sender.sends();
    come(&mut receiver, 0, FRAMES, FRAMES);
    receiver.does(&second);
    sender.sends();
    come(&mut receiver, 1, FRAMES, FRAMES);
    receiver.does(&first);
    receiver.does("stop\nport 0 rxq 0 start\nstart");
    assert_eq!(state(&mut receiver, 0), Some("started"));
    sender.sends();
    come(&mut receiver, 0, 2 * FRAMES, FRAMES);
    // A stopped queue is started with its port.
    receiver.does("stop\nport 0 rxq 0 stop\nport stop 0\nport start 0\nstart");
    assert_eq!(state(&mut receiver, 0), Some("started"));
    end(&net, [sender.testpmd, receiver]);
}

/// Queues are not started with their port if the program says so.
#[test]
pub fn queues_with_a_deferred_start_wait_for_it() {
    let net = StockNet::alone();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    let mut sender = Sender::of(&net, &frames_for_card_1(FRAMES));
    for queue in ["rxq", "txq"] {
        receiver.does(&format!("port stop 0\nport 0 {queue} 0 deferred_start on\nport start 0"));
    }
    let (mut came, mut dropped) = (0, 0);
    // Also after the port was stopped while the queues were started.
    for _ in 0..2 {
        receiver.does_saying(
            "show rxq info 0 0\nshow txq info 0 0",
            &[
                "RX deferred start: on",
                "Rx queue state: stopped",
                "TX deferred start: on",
                "Tx queue state: stopped",
            ],
        );
        sender.sends();
        dropped += FRAMES;
        come(&mut receiver, 0, came, dropped);
        receiver.does_saying(
            "port 0 rxq 0 start\nport 0 txq 0 start\nshow rxq info 0 0\nshow txq info 0 0",
            &["Rx queue state: started", "Tx queue state: started"],
        );
        receiver.does("start");
        sender.sends();
        came += FRAMES;
        come(&mut receiver, 0, came, dropped);
        receiver.does("stop\nport stop 0\nport start 0");
    }
    end(&net, [sender.testpmd, receiver]);
}

/// A transmit queue sends all that its program has after it was stopped. Meanwhile testpmd gives it nothing:
/// [`interrupts`](super::interrupts) has a program that does.
#[test]
pub fn transmit_queues_start_and_stop_apart() {
    let net = StockNet::alone();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    receiver.does("start");
    let mut sender = Sender::of(&net, &frames_for_card_1(FRAMES));
    sender.sends();
    sender.testpmd.does_saying(
        "stop\nport 1 txq 0 stop\nshow txq info 1 0\nport 1 txq 0 start",
        &["Tx queue state: stopped"],
    );
    sender.sends();
    receiver.asks("show port stats 0", &format!("RX-packets: {} ", 2 * FRAMES));
    let said = sender.testpmd.does("show port stats 1");
    assert_eq!(last(&said, "TX-packets"), 2 * FRAMES as u64, "{said}");
    end(&net, [sender.testpmd, receiver]);
}

/// A queue that is stopped is made anew while its port goes on, and gets what it got before, by the table and by rules.
#[test]
pub fn queues_are_made_anew_while_their_port_goes_on() {
    let net = StockNet::alone();
    let options = ["-i", "--forward-mode=rxonly", "--rxq=2", "--txq=2"];
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &options);
    receiver.does(
        "flow create 0 ingress pattern eth type is 0x88b6 / end actions rss queues 1 0 1 end / end\nstart",
    );
    let mut frames = frames_for_card_1(2 * FRAMES);
    frames[..FRAMES].iter_mut().for_each(|frame| frame[13] = 0xb6);
    let mut sender = Sender::of(&net, &frames);
    // Of no IP: the first entry of each table.
    sender.sends();
    come(&mut receiver, 0, FRAMES, 0);
    come(&mut receiver, 1, FRAMES, 0);
    let mut anew = String::from("stop\n");
    for queue in ["rxq 0", "rxq 1", "txq 1"] {
        anew += &format!("port 0 {queue} stop\nport config 0 {queue} ring_size 128\nport 0 {queue} setup\nport 0 {queue} start\n");
    }
    let said =
        receiver.does(&format!("{anew}start\nshow rxq info 0 0\nshow rxq info 0 1\nshow txq info 0 1"));
    assert_eq!((said.matches("RXDs: 128").count(), said.matches("TXDs: 128").count()), (2, 1), "{said}");
    sender.sends();
    // New queues count anew.
    come(&mut receiver, 0, FRAMES, 0);
    come(&mut receiver, 1, FRAMES, 0);
    end(&net, [sender.testpmd, receiver]);
}

/// A port that is reset begins anew, as often as it is told to, and receives when its queues are there again.
#[test]
pub fn ports_are_reset() {
    let net = StockNet::alone();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    let mut sender = Sender::of(&net, &frames_for_card_1(FRAMES));
    receiver.does_saying("port reset 0", &["please stop port(s) first"]);
    for _ in 0..3 {
        receiver.does("start");
        sender.sends();
        // It counts anew.
        come(&mut receiver, 0, FRAMES, 0);
        receiver.does("stop\nport stop 0");
        let said = receiver.does("port reset 0\nport start 0\nshow port stats 0");
        assert!(!said.contains("Failed"), "{said}");
        assert_eq!(last(&said, "RX-packets"), 0, "{said}");
    }
    end(&net, [sender.testpmd, receiver]);
}
