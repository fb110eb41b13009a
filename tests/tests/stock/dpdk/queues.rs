//! What a program may ask of its queues.

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
    let _alone = alone();
    let net = StockNet::new();
    let options = ["-i", "--rxq=2", "--txq=2", "--rxd=300", "--txd=300", "--enable-hw-vlan-strip"];
    let mut testpmd = Testpmd::start(&net, &["net_verbena0"], &options);
    let said = testpmd.does("show rxq info 0 1");
    for text in ["Mempool: mb_pool_0", "RX scattered packets: on", "RXDs: 300", "Rx queue state: started"] {
        assert!(said.contains(text), "no {text:?}: {said}");
    }
    let said = testpmd.does("show txq info 0 1");
    for text in ["TXDs: 512", "Tx queue state: started"] {
        assert!(said.contains(text), "no {text:?}: {said}");
    }
    let said = testpmd.does("show config rxtx");
    for text in ["RX desc=300", "RX Offloads=0x1\n", "TX desc=512", "TX offloads=0x0"] {
        assert!(said.contains(text), "no {text:?}: {said}");
    }
    // testpmd shows the first queue.
    let said = testpmd.does("vlan set stripq off 0,0\nshow config rxtx");
    assert!(said.contains("RX Offloads=0x0\n"), "{said}");
    let said = testpmd.does("show rxq info 0 2\nshow port 0 rxq 0 desc 300 status");
    assert!(said.contains("Failed to retrieve information for port: 0, RX queue: 2"), "{said}");
    assert!(said.contains("desc id = 300"), "{said}");
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
    let _alone = alone();
    let net = StockNet::new();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly"]);
    let mut sender = Sender::of(&net, &frames_for_card_1(FRAMES));
    let empty = "desc count = 0\n";
    receiver.asks("show port 0 rxq 0 desc used count", empty);
    sender.sends();
    receiver.asks("show port 0 rxq 0 desc used count", &format!("desc count = {FRAMES}\n"));
    for (descriptor, status) in [(0, "DONE"), (FRAMES - 1, "DONE"), (FRAMES, "AVAILABLE"), (255, "AVAILABLE")]
    {
        let said = receiver.does(&format!("show port 0 rxq 0 desc {descriptor} status"));
        assert!(said.contains(&format!("Desc status = {status}\n")), "{descriptor}: {said}");
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
    let _alone = alone();
    let net = StockNet::new();
    let pcap = Pcap::new();
    let mut testpmd = sender_to_itself(&net, &pcap);
    let look = |n: usize| format!("show port 1 txq 0 desc {n} status\n");
    let said = testpmd.does(&look(255));
    assert!(said.contains("Desc status = DONE\n"), "{said}");
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
    let _alone = alone();
    let net = StockNet::new();
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
