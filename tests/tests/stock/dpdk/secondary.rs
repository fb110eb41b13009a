//! DPDK's secondary processes beside a testpmd: they show its ports and capture its frames.

use tests::stock::{stopped, wait_for, HugePages};

use super::*;

/// Of 2 MB: what a testpmd and a capture take.
const PAGES: u64 = 96;

/// Receives from these ports, in memory that secondary processes share.
fn receiver(net: &StockNet, pages: &HugePages, ports: &[&str]) -> Testpmd {
    let options = ["-i", "--forward-mode=rxonly", ROOM, ANY_LENGTH];
    let mut receiver = Testpmd::start_shared(net, pages, ports, &options);
    receiver.does("start");
    receiver
}

/// A program of DPDK as a secondary process of a testpmd.
fn secondary(net: &StockNet, primary: &Testpmd, program: &str, words: &[&str]) -> Program {
    let program = net.dpdk().program(program);
    let prefix = format!("--file-prefix={}", primary.prefix());
    // Debian 12 links testpmd with a kind of pool and these programs not, so the number of a capture's kind is another one there.
    let same_kinds = match net.dpdk().version() {
        "DPDK 22.11." => "LD_PRELOAD=librte_mempool_dpaa.so.23",
        _ => "LD_PRELOAD=",
    };
    // Lines as they come.
    let start = [same_kinds, "stdbuf", "-oL"].into_iter().chain(program.iter().map(String::as_str));
    net.start("env", &start.chain([&*prefix]).chain(words.iter().copied()).collect::<Vec<_>>())
}

/// What `dpdk-proc-info --stats` says of a port's packets.
fn received(said: &str) -> &str {
    said.split("RX-packets:").nth(1).unwrap_or_default().split_whitespace().next().unwrap_or_default()
}

/// A program that is stopped until this is dropped.
struct Stopped<'a>(&'a Testpmd);

impl<'a> Stopped<'a> {
    fn new(testpmd: &'a Testpmd) -> Self {
        let this = Stopped(testpmd);
        testpmd.signal(libc::SIGSTOP);
        wait_for("it is not stopped", || stopped(testpmd.pid()));
        this
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.signal(libc::SIGCONT);
    }
}

/// Each `name: number` that a program says of the counters of a port.
fn counters(said: &str) -> Vec<(String, u64)> {
    let counter = |line: &str| {
        let (name, number) = line.trim().split_once(": ")?;
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        Some((name.to_owned(), number.parse().ok().filter(|_| is_name)?))
    };
    said.lines().filter_map(counter).collect()
}

#[test]
#[ignore = "the long form of the checks"]
pub fn another_process_shows_the_counters_of_a_port() {
    let _alone = alone();
    let pages = HugePages::free(PAGES);
    let net = StockNet::new();
    let mut receiver = receiver(&net, &pages, &["net_verbena1"]);
    let frames = frames();
    let mut sender = Sender::of(&net, &frames);
    sender.sends();
    receiver.asks("show port stats 0", &format!("RX-packets: {} ", frames.len()));
    let shows = |receiver: &Testpmd, what: &str| {
        secondary(&net, receiver, "dpdk-proc-info", &["--no-pci", "--", what]).wait(LIMIT).expect_good()
    };

    let said = shows(&receiver, "--stats");
    let bytes: usize = frames.iter().map(Vec::len).sum();
    for (name, number) in [("RX-packets", frames.len()), ("RX-bytes", bytes), ("TX-packets", 0)] {
        let first = said.split(&format!("{name}:")).nth(1).unwrap_or_default();
        assert_eq!(first.split_whitespace().next(), Some(&*number.to_string()), "{name}: {said}");
    }

    let ours = counters(&receiver.does("show port xstats 0"));
    let (said, theirs) = (&shows(&receiver, "--xstats"), counters(&shows(&receiver, "--xstats")));
    assert!(ours.contains(&("rx_good_packets".into(), frames.len() as u64)) && ours.len() > 20, "{ours:?}");
    assert_eq!(ours, theirs, "{said}");

    let said = shows(&receiver, "--show-port");
    for text in [
        "driver net_verbena device net_verbena1",
        "Link up at 10 Gbps",
        "flow control mode",
        "mac 02:56:42:00:01:00",
        "promiscuous mode enabled",
        "descriptors 1024 scattered rx buffer size 2048 mempool mb_pool_0",
        "tx queue",
    ] {
        assert!(said.contains(text), "no {text:?}: {said}");
    }

    shows(&receiver, "--stats-reset");
    let said = receiver.does("show port stats 0\nshow port xstats 0");
    assert_eq!((last(&said, "RX-packets"), last(&said, "rx_good_packets")), (0, 0), "{said}");
    end(&net, [sender.testpmd, receiver]);
}

/// `dpdk-dumpcap` of 24.11 makes the port promiscuous, so it also captures frames for others; `dpdk-pdump` what the port gets anyway.
#[test]
#[ignore = "the long form of the checks"]
pub fn other_processes_capture_the_frames_of_a_port() {
    let _alone = alone();
    let pages = HugePages::free(PAGES);
    let net = StockNet::new();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let mut receiver = receiver(&net, &pages, &["net_verbena1"]);
    receiver.does("set promisc all off");
    let mut foreign = frames();
    // That of 22.11 leaves the port as it is.
    if net.dpdk().version() != "DPDK 22.11." {
        foreign.iter_mut().for_each(|frame| frame[5] ^= 0x77);
    }

    let file = path("dumpcap");
    let words = ["-s", "9600", "-i", "net_verbena1", "-P", "-c", "100", "-w", &file.display().to_string()];
    let mut dumpcap = secondary(&net, &receiver, "dpdk-dumpcap", &words);
    dumpcap.expect("Capturing on 'net_verbena1'", LIMIT);
    let mut sender = Sender::of(&net, &foreign);
    // That of 22.11 says so before it captures.
    let began = Instant::now();
    while !dumpcap.has_ended() && began.elapsed() < LIMIT {
        sender.sends();
    }
    dumpcap.wait(Duration::ZERO).expect_good();
    let captured = read(&file);
    let from =
        |first| foreign.iter().cycle().skip(first).zip(&captured).all(|(sent, captured)| sent == captured);
    assert!(captured.len() >= 100 && (0..foreign.len()).any(from), "{} frames", captured.len());
    receiver.asks("show port info 0", "Promiscuous mode: disabled");

    let file = path("pdump");
    let device = format!(
        "port=0,queue=*,rx-dev={},ring-size=2048,mbuf-size=9728,total-num-mbufs=4095",
        file.display()
    );
    let mut pdump = secondary(&net, &receiver, "dpdk-pdump", &["--no-pci", "--", "--pdump", &device]);
    // It says this when the first process captures.
    pdump.expect("capture for (1) tuples", LIMIT);
    sender.testpmd.quit();
    receiver.does("clear port stats all");
    let own = frames();
    let mut sender = Sender::of(&net, &own);
    sender.sends();
    receiver.asks("show port stats 0", &format!("RX-packets: {} ", own.len()));
    pdump.signal(libc::SIGINT);
    pdump.wait(LIMIT).expect_good();
    assert_eq!(read(&file), own);
    end(&net, [sender.testpmd, receiver]);
}

/// Another testpmd polls the port of the first.
#[test]
#[ignore = "the long form of the checks"]
pub fn other_processes_do_not_receive() {
    let _alone = alone();
    let pages = HugePages::free(PAGES);
    let net = StockNet::new();
    let mut receiver = receiver(&net, &pages, &["net_verbena1"]);
    let mut other = receiver.secondary(&net);
    other.types("start");
    other.expect("a secondary process of DPDK neither receives nor sends");
    drop(other);
    // The first one's port is as it was.
    let mut sender = Sender::of(&net, &frames());
    sender.sends();
    receiver.asks("show port stats 0", &format!("RX-packets: {} ", frames().len()));
    end(&net, [sender.testpmd, receiver]);
}

/// Each port's own numbers, also where two processes ask at once. Nobody has those of a port that was closed.
#[test]
#[ignore = "the long form of the checks"]
pub fn other_processes_tell_ports_apart() {
    let _alone = alone();
    let pages = HugePages::free(PAGES);
    let net = StockNet::new();
    let mut receiver = receiver(&net, &pages, &["net_verbena1", "net_verbena1p2"]);
    let frames = frames();
    let mut senders = [("net_verbena0", &frames[..]), ("net_verbena0p2", &frames[..7])]
        .map(|(port, frames)| Sender::by(&net, port, frames));
    senders.iter_mut().for_each(Sender::sends);
    let counts = senders.each_ref().map(|sender| sender.frames.to_string());
    for (port, count) in counts.iter().enumerate() {
        receiver.asks(&format!("show port stats {port}"), &format!("RX-packets: {count} "));
    }
    let asked = ["1", "2"]
        .map(|mask| secondary(&net, &receiver, "dpdk-proc-info", &["--no-pci", "--", "-p", mask, "--stats"]));
    let said = asked.map(|program| program.wait(LIMIT).expect_good());
    assert_eq!(said.each_ref().map(|said| received(said)), counts, "{said:?}");

    let mut other = receiver.secondary(&net);
    other.does_saying("show port stats 1", &[&format!("RX-packets: {} ", counts[1])]);
    receiver.does_saying("stop\nport stop 1\nport close 1", &["Closing ports..."]);
    let gone = ["failed to get stats (port 1)", "failed to reset stats (port 1)"];
    other.does_saying("show port stats 1\nclear port stats 1", &gone);
    let first = format!("RX-packets: {} ", counts[0]);
    other.does_saying("show port stats 0", &[&first]);
    receiver.does_saying("show port stats 0", &[&first]);
    drop(other);
    end(&net, senders.map(|sender| sender.testpmd).into_iter().chain([receiver]));
}

/// An answer that comes too late fails its question and no other one.
#[test]
#[ignore = "the long form of the checks"]
pub fn a_late_answer_is_not_that_of_the_next_question() {
    let _alone = alone();
    let pages = HugePages::free(PAGES);
    let net = StockNet::new();
    let mut receiver = receiver(&net, &pages, &["net_verbena1"]);
    let frames = frames();
    let mut sender = Sender::of(&net, &frames);
    sender.sends();
    let right = format!("RX-packets: {} ", frames.len());
    receiver.asks("show port stats 0", &right);
    let mut other = receiver.secondary(&net);
    other.does_saying("show rxq info 0 0\nshow port stats 0", &["Mempool: mb_pool_0", &right]);

    let still = Stopped::new(&receiver);
    let before = other.said().len();
    other.types("show rxq info 0 0\nshow port stats 0\nshow port stats 0");
    let starts = ["--stats", "--show-port"]
        .map(|what| secondary(&net, &receiver, "dpdk-proc-info", &["--no-pci", "--", what]));
    other.expect("DPDK's primary process does not answer");
    // The next question, which has five seconds, is on its way when the answer to the first one comes.
    other.expect_that("it goes no further", |said| said[before..].contains("testpmd> show port stats 0"));
    std::thread::sleep(Duration::from_millis(500));
    drop(still);
    other.expect_that("it does not get its own answers", |said| said[before..].matches(&right).count() == 2);
    // There is no pool, but who looks at its name finds an empty one.
    assert!(other.said()[before..].contains("Mempool: \n"), "{}", other.said());
    for started in starts.map(|program| program.wait(LIMIT)) {
        assert!(started.status.is_some_and(|status| status.code().is_some()), "{started}");
    }
    let words = ["--no-pci", "--", "--stats"];
    let said = secondary(&net, &receiver, "dpdk-proc-info", &words).wait(LIMIT).expect_good();
    assert_eq!(received(&said), frames.len().to_string(), "{said}");
    drop(other);
    end(&net, [sender.testpmd, receiver]);
}
