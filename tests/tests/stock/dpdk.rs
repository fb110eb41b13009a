//! DPDK's own `dpdk-testpmd` on the card's ports, with the poll-mode driver that `verbena run` lays beside DPDK's.

mod addresses;
mod flow;
mod interrupts;
mod locks;
mod offloads;
mod pause;
mod queues;
mod releases;
mod secondary;
mod segments;
mod sharing;
mod simulated;
mod statistics;
mod symmetric;
mod vlan;

use std::fs::{self, Permissions};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::stock::{alone, need, verbena, Program, StockNet, Testpmd, LIMIT};
use tests::SUITE;

use crate::pcap::{read, write};

/// A testpmd receives frames of any length with this.
const ANY_LENGTH: &str = "--max-pkt-len=9600";

/// Receives for all frames of [`frames`]: a receiver that is not run for long loses none.
const ROOM: &str = "--rxd=1024";

/// A bond that sends each packet by all of its ports has a reference of it for each, and gives them all the same array.
#[test]
fn a_bond_sends_packets_by_two_ports() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let sent = frames();
    let ends = ["net_verbena1", "net_verbena1p2"];
    let mut receiver = Testpmd::start(&net, &ends, &["-i", "--forward-mode=rxonly", ROOM, ANY_LENGTH]);
    receiver.does("start");
    let slave = net.dpdk().bond()[0];
    let bond = format!("net_bonding0,mode=3,{slave}=net_verbena0,{slave}=net_verbena0p2");
    let devices = [&*pcap.reader(&sent), "net_verbena0", "net_verbena0p2", &*bond];
    let options = ["-i", "--portlist=0,3", "--eth-peer=3,02:56:42:00:01:00"];
    let mut sender = Testpmd::start(&net, &devices, &options);
    sender.types("start");
    for port in [1, 2] {
        sender.asks(&format!("show port stats {port}"), &format!("TX-packets: {} ", sent.len()));
    }
    for port in [0, 1] {
        receiver.asks(&format!("show port stats {port}"), &format!("RX-packets: {} ", sent.len()));
    }
    end(&net, [sender, receiver]);
}

/// Each of these ends well when it is told to, and the net with them.
pub fn end(net: &StockNet, testpmds: impl IntoIterator<Item = Testpmd>) {
    testpmds.into_iter().for_each(|testpmd| drop(testpmd.quit()));
    net.expect_gone();
}

/// A number behind a word in the last statistics of a port.
fn last(said: &str, word: &str) -> u64 {
    let behind = said.rsplit(&format!("{word}:")).next().unwrap_or_default();
    behind.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn ports_appear_without_an_argument() {
    let net = StockNet::alone();
    let said = Testpmd::doing(&net, &[], &[], "show port info all\nshow port xstats 0\n");
    for text in [
        net.dpdk().version(),
        "MAC address: 02:56:42:00:00:00",
        "MAC address: 02:56:42:00:00:01",
        "MAC address: 02:56:42:00:01:00",
        "MAC address: 02:56:42:00:01:01",
        "Driver name: net_verbena",
        "Link status: up",
        "Link speed: 10 Gbps",
        "rx_no_rule: ",
    ] {
        assert!(said.contains(text), "no {text:?}:\n{said}");
    }
    net.expect_gone();
}

/// EAL loads the driver into every program of DPDK, also into those that are linked with few of its libraries.
#[test]
fn programs_without_ports_start() {
    let net = StockNet::new();
    starts(|program, words| {
        let program = net.dpdk().program(program);
        let before = program[1..].iter().map(String::as_str);
        net.command(&[], &program[0], &before.chain(words.iter().copied()).collect::<Vec<_>>())
    });
    net.expect_gone();
}

/// EAL refuses a driver that anybody can replace, and with it to start. It is laid where nobody can.
#[test]
fn a_driver_from_a_directory_of_everybody_is_no_reason_to_refuse() {
    let everybodys = tempfile::tempdir().expect("a directory");
    let runtime = tempfile::tempdir().expect("a directory");
    for name in ["verbena", "libverbena.so", "libverbena_clock.so", "librte_net_verbena.so"] {
        fs::copy(built(name), everybodys.path().join(name)).expect("a copy");
    }
    fs::set_permissions(everybodys.path(), Permissions::from_mode(0o777)).expect("its mode");
    starts(|program, words| {
        let mut command = Command::new(everybodys.path().join("verbena"));
        command.args(["run", "--quiet", "--", program]).args(words);
        command.env("XDG_RUNTIME_DIR", runtime.path());
        command
    });
}

/// A file that cargo has built.
fn built(name: &str) -> PathBuf {
    let directory = verbena().parent().expect("a directory").to_owned();
    let found =
        [directory.join("deps").join(name), directory.join(name)].into_iter().find(|path| path.exists());
    found.expect(name)
}

fn starts(command: impl FnOnce(&str, &[&str]) -> Command) {
    need("dpdk-test-acl");
    let prefix = format!("verbena-test-{}-acl", std::process::id());
    // It ends where it asks for its own arguments.
    let words = ["--no-huge", "-m", "64", "-l", "0", "--file-prefix", &prefix, "--"];
    let ended = Program::start(command("dpdk-test-acl", &words)).wait(LIMIT);
    let _ = fs::remove_dir_all(Path::new("/var/run/dpdk").join(prefix));
    assert!(ended.said.contains("--rulesf="), "{}", ended.said);
    assert!(!ended.said.contains("librte_net_verbena"), "{}", ended.said);
}

#[test]
fn names_that_are_none_are_refused() {
    let net = StockNet::alone();
    for (device, why) in [
        ("net_verbena7", "there is no verbena7 in view"),
        ("net_verbena0p3", "a name is net_verbena, a card's number"),
        ("net_verbena0p1", "a name is net_verbena, a card's number"),
        ("net_verbena0,queues=4", "the device takes no arguments"),
    ] {
        let ended = Testpmd::start(&net, &[device], &["-i"]).close();
        assert!(ended.said.contains(why), "{device}: {}", ended.said);
    }
    net.expect_gone();
}

/// Frames of each length that has something of its own, and many of one.
fn frames() -> Vec<Vec<u8>> {
    let lengths = [60, 61, 64, 127, 128, 1513, 1514, 2048, 2049, 9000, 9600]
        .into_iter()
        .chain(std::iter::repeat_n(777, 500));
    let frame = |(n, length): (usize, usize)| {
        let mut frame = vec![2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xb5];
        frame.extend((0..length - 14).map(|k| (k * 7 + n * 13) as u8));
        frame
    };
    lengths.enumerate().map(frame).collect()
}

/// A file of frames that a testpmd reads and one that a testpmd writes, as devices of it (`net_pcap`).
struct Pcap(TempDir);

impl Pcap {
    fn new() -> Pcap {
        Pcap(tempfile::tempdir().expect("a directory"))
    }

    /// The device by which these frames come.
    fn reader(&self, frames: &[Vec<u8>]) -> String {
        let path = self.0.path().join("from.pcap");
        write(&path, frames);
        format!("net_pcap0,rx_pcap={}", path.display())
    }

    fn written(&self) -> PathBuf {
        self.0.path().join("to.pcap")
    }

    /// The device whose frames go to the file.
    fn writer(&self) -> String {
        format!("net_pcap0,tx_pcap={}", self.written().display())
    }

    /// What has been written.
    fn frames(&self) -> Vec<Vec<u8>> {
        read(&self.written())
    }
}

/// A testpmd that sends the same frames as often as it is told to.
struct Sender {
    testpmd: Testpmd,
    /// How many frames each time, and how many until now.
    frames: usize,
    sent: usize,
    _pcap: Pcap,
}

impl Sender {
    /// One that sends them by the first card's first port.
    fn of(net: &StockNet, frames: &[Vec<u8>]) -> Sender {
        Sender::by(net, "net_verbena0", frames)
    }

    fn by(net: &StockNet, port: &str, frames: &[Vec<u8>]) -> Sender {
        let pcap = Pcap::new();
        let mut testpmd = Testpmd::start(net, &[&pcap.reader(frames), port], &["-i"]);
        // It drops what the port does not take at once, where the receiver was kept from its core: it is to wait for up to 5 s.
        testpmd.does_saying(
            "set fwd io retry\nset burst tx delay 100 retry 50000",
            &["Set io packet forwarding mode with retry"],
        );
        Sender { testpmd, frames: frames.len(), sent: 0, _pcap: pcap }
    }

    /// Sends them all. A port that starts again reads its file from the beginning.
    fn sends(&mut self) {
        self.testpmd.does("stop\nport stop 0\nport start 0\nstart");
        self.sent += self.frames;
        self.testpmd.asks("show port stats 1", &format!("TX-packets: {} ", self.sent));
    }
}

/// A file goes into one testpmd, over the wire, and out of the other: every frame, in its order, byte for byte.
#[test]
fn frames_arrive_as_they_were_sent() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let sent = frames();
    let options = ["--stats-period=1", ROOM, ANY_LENGTH];
    let mut receiver = Testpmd::start(&net, &["net_verbena1", &pcap.writer()], &options);
    receiver.expect("NIC statistics");
    let mut sender = Testpmd::start(&net, &[&pcap.reader(&sent), "net_verbena0"], &["--stats-period=1"]);
    sender.expect("NIC statistics");
    let all = format!("RX-packets: {} ", sent.len());
    receiver.expect(&all);
    let said = sender.interrupt();
    assert_eq!(last(&said, "TX-errors"), 0, "{said}");
    receiver.interrupt();
    let received = pcap.frames();
    assert_eq!(received.len(), sent.len());
    let wrong = received.iter().zip(&sent).position(|(received, sent)| received != sent);
    assert_eq!(wrong, None, "the first frame that is not as it was sent");
    net.expect_gone();
}

/// What is longer than the MTU is dropped and counted: a program has room for no more. The MTU may change meanwhile.
#[test]
fn frames_are_no_longer_than_the_mtu() {
    let net = StockNet::alone();
    let long: Vec<Vec<u8>> = frames();
    // There is room for two tags.
    let within = |mtu: usize| long.iter().filter(|frame| frame.len() <= mtu + 22).count();
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--forward-mode=rxonly", ROOM]);
    receiver.does("start");
    let mut sender = Sender::of(&net, &long);
    let (mut came, mut dropped) = (0, 0);
    for mtu in [1500, 9000, 600] {
        receiver.does(&format!("port config mtu 0 {mtu}"));
        sender.sends();
        came += within(mtu);
        dropped += long.len() - within(mtu);
        receiver.asks("show port stats 0", &format!("RX-packets: {came} "));
        receiver.asks("show port stats 0", &format!("RX-errors: {dropped}\n"));
    }
    end(&net, [sender.testpmd, receiver]);
}

/// As fast as they can for a second, with everything that they count: what was sent was received or counted.
#[test]
fn what_is_lost_is_counted() {
    let net = StockNet::alone();
    let options = |mode: &'static str| ["--stats-period=1", mode, "--eth-peer=0,02:56:42:00:01:00"];
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &options("--forward-mode=rxonly"));
    receiver.expect("NIC statistics");
    let mut sender = Testpmd::start(&net, &["net_verbena0"], &options("--forward-mode=txonly"));
    sender.expect("NIC statistics");
    receiver.expect_that("nothing comes", |said| last(said, "RX-packets") >= 1000);
    let sent = sender.interrupt();
    let (sent, errors) = (last(&sent, "TX-packets"), last(&sent, "TX-errors"));
    assert_eq!(errors, 0);
    // A receiver that stops takes nothing more out of its queue.
    receiver.expect_that("frames are neither received nor counted", |said| {
        last(said, "RX-packets") + last(said, "RX-missed") >= sent
    });
    let received = receiver.interrupt();
    let (came, missed) = (last(&received, "RX-packets"), last(&received, "RX-dropped"));
    assert_eq!(came + missed, sent, "{received}");
}

/// Packets that a receive queue of the first port forwarded.
fn of_queue(said: &str, queue: usize) -> u64 {
    let behind = said.split(&format!("Forward Stats for RX Port= 0/Queue= {queue} ")).nth(1);
    behind.map_or(0, |text| {
        let number = text.split("RX-packets:").nth(1).unwrap_or_default();
        number.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    })
}

/// Eight flows come to four queues, each queue gets some, and all get all.
#[test]
fn flows_are_spread_over_receive_queues() {
    let net = StockNet::alone();
    let receives = ["--stats-period=1", "--forward-mode=rxonly", "--rxq=4", "--txq=4", "--rss-udp"];
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &receives);
    receiver.expect("NIC statistics");
    let mut sends = vec!["--stats-period=1", "--forward-mode=txonly", "--txonly-multi-flow"];
    sends.push("--eth-peer=0,02:56:42:00:01:00");
    let mut sender = Testpmd::start(&net, &["net_verbena0"], &sends);
    sender.expect("NIC statistics");
    receiver.expect_that("nothing comes", |said| last(said, "RX-packets") >= 1000);
    sender.interrupt();
    let said = receiver.interrupt();
    let queues: Vec<u64> = (0..4).map(|queue| of_queue(&said, queue)).collect();
    let all: u64 = queues.iter().sum();
    assert_eq!(all, last(&said, "RX-packets"), "{said}");
    assert!(queues.iter().all(|&packets| packets > all / 20), "{queues:?}: {said}");
}

/// A frame comes once while the hash changes, which sends it to another queue.
#[test]
fn the_hash_changes_while_frames_come() {
    let net = StockNet::alone();
    let receives = ["-i", "--forward-mode=rxonly", "--rxq=4", "--txq=4", "--rss-udp"];
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &receives);
    receiver.does("start");
    let sends = ["-i", "--forward-mode=txonly", "--txonly-multi-flow", "--eth-peer=0,02:56:42:00:01:00"];
    let mut sender = Testpmd::start(&net, &["net_verbena0"], &sends);
    sender.does("start");
    let change = |n| {
        let key: String = (0..40).map(|k| format!("{:02X}", (n * 7 + k * 3) % 256)).collect();
        format!("port config 0 rss-hash-key ipv4-udp {key}\n")
    };
    receiver.does(&(0..200).map(change).collect::<String>());
    sender.does("stop");
    let sent = last(&sender.does("show port stats 0"), "TX-packets");
    assert!(sent > 1000, "{sent}");
    let start = Instant::now();
    let mut received = || {
        let said = receiver.does("show port stats 0");
        last(&said, "RX-packets") + last(&said, "RX-missed")
    };
    while received() < sent {
        assert!(start.elapsed() < LIMIT, "{} of {sent} frames came", received());
    }
    // No more than that comes.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(received(), sent);
    end(&net, [sender, receiver]);
}

#[test]
fn hash_and_redirection_table_are_what_was_set() {
    let net = StockNet::alone();
    let key: String = (0..40).map(|n| format!("{:02X}", 0x11 + n * 3)).collect();
    let lines = [
        "show port 0 rss-hash key",
        "port config 0 rss reta (5,3),(127,2)",
        "show port 0 rss reta 128 (0x21,0x8000000000000000)",
        &format!("port config 0 rss-hash-key ipv4 {key}"),
        "show port 0 rss-hash key",
        // Beyond the queues: ethdev refuses it.
        "port config 0 rss reta (6,4)",
        "show port 0 rss reta 128 (0x40,0x0)",
    ];
    let lines = lines.join("\n") + "\n";
    let said = Testpmd::doing(&net, &["net_verbena0"], &["--rxq=4", "--txq=4"], &lines);
    let first = "6D5A56DA255B0EC24167253D43A38FB0D0CA2BCBAE7B30B477CB2DA38030F20C6A42B73BBEAC01FA";
    for text in [
        first,
        "RSS RETA configuration: hash index=0, queue=0",
        "RSS RETA configuration: hash index=5, queue=3",
        "RSS RETA configuration: hash index=127, queue=2",
        key.as_str(),
        "RSS RETA configuration: hash index=6, queue=2",
    ] {
        assert!(said.contains(text), "no {text:?}:\n{said}");
    }
}
