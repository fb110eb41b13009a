//! Whole Ethernet frames in simulated time: perftest's raw tests print what the wire of the profile gives, an arithmetic that
//! nobody here made: a frame takes its bytes, four of check sequence and twenty of preamble and gap (IEEE 802.3).
//!
//! The two sides do not talk before they begin, so a client starts when its server has posted receives. From then on the
//! server stands still in simulated time.

mod perftest_table;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::attach::{receives_waiting, simulated_time};
use perftest_table::rows;
use tests::stock::{compile_c, free_port, need, wait_until_listening, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(120);
const MAC: [&str; 2] = ["02:56:42:00:00:00", "02:56:42:00:01:00"];
const BW: &str = "raw_ethernet_bw";
const LAT: &str = "raw_ethernet_lat";
/// Check sequence, preamble, start and gap of a frame.
const AROUND: f64 = 24.0;

/// Two spinning programs fill two cores: one pair at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// cx4lx, of whose stages nothing but the wire limits frames of any size.
fn only_the_wire(directory: &Path) -> PathBuf {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/profiles/cx4lx.toml");
    let mut text = fs::read_to_string(model).expect("the profile");
    for (key, value) in [
        ("post_ns", 1),
        ("post_recv_ns", 1),
        ("doorbell_ns", 1),
        ("poll_ns", 1),
        ("poll_cqe_ns", 1),
        ("qp_ns", 10),
        ("gather_ns", 0),
        ("pipe_ns", 10),
        ("gap_ns", 0),
        ("rx_packet_ns", 0),
    ] {
        let start = text.find(&format!("\n{key} = ")).unwrap_or_else(|| panic!("no key {key}")) + 1;
        let end = start + text[start..].find('\n').expect("a line");
        text.replace_range(start..end, &format!("{key} = [{value}, \"a test\"]"));
    }
    let path = directory.join("wire.toml");
    fs::write(&path, text).expect("written");
    path
}

/// Starts one side of a raw test.
fn side(net: &StockNet, options: &[&str], program: &str, arguments: &str, side: usize) -> Program {
    need(program);
    let role = ["--server", "--client"][side];
    let line = format!("-F -d verbena{side} {role} -B {} -E {} {arguments}", MAC[side], MAC[1 - side]);
    let words: Vec<&str> = line.split_whitespace().collect();
    Program::start(net.command(&[&["--clock", "virtual"], options].concat(), program, &words))
}

/// Starts a server, and waits until it has posted receives and waits for frames.
fn server(net: &StockNet, options: &[&str], program: &str, arguments: &str) -> Program {
    let mut server = side(net, options, program, arguments, 0);
    let start = Instant::now();
    let mut before = None;
    loop {
        std::thread::sleep(Duration::from_millis(300));
        // A net starts with its first program.
        let posted =
            net.socket().exists() && receives_waiting(&net.socket(), 0).is_ok_and(|posted| posted > 0);
        let now = posted.then(|| simulated_time(&net.socket()).ok()).flatten();
        if now.is_some() && now == before {
            return server;
        }
        before = now;
        let alive = !server.has_ended() && start.elapsed() < LIMIT;
        assert!(alive, "`{}` does not wait for frames; it said:\n{}", server.line(), server.said());
    }
}

/// The table's row that each side prints, server first.
fn run(net: &StockNet, options: &[&str], program: &str, arguments: &str) -> [Vec<f64>; 2] {
    let server = server(net, options, program, arguments);
    let client = side(net, options, program, arguments, 1);
    let (client, server) = (client.wait(LIMIT), server.wait(LIMIT));
    [server, client].map(|side| {
        assert!(side.good(), "{program} {arguments} {options:?}: {}; it said:\n{}", side.how(), side.said);
        let mut rows = rows(&side.said);
        assert_eq!(rows.len(), 1, "{program} {arguments}: it said:\n{}", side.said);
        rows.remove(0)
    })
}

/// A million frames a second, by the client of `raw_ethernet_bw`.
fn rate(options: &[&str], arguments: &str) -> f64 {
    let net = StockNet::new();
    let [_, client] = run(&net, options, BW, arguments);
    net.expect_gone();
    client[4]
}

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the shortest frame that perftest sends to the longest that a card sends: 10 Gb/s, less the first frame's way.
#[test]
fn bandwidth_is_that_of_the_wire() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let profile = only_the_wire(directory.path());
    let options = ["--card", profile.to_str().expect("UTF-8")];
    for (size, count) in [(64, 3000), (512, 2000), (1514, 1000), (9600, 300)] {
        let jumbo = if size > 1514 { "-m 9600" } else { "" };
        let got = rate(&options, &format!("-s {size} -n {count} {jumbo}"));
        let line = 1e4 / 8.0 / (f64::from(size) + AROUND);
        // A frame comes first: doorbell, fetch of the WQE and of the payload, 2 us at most, and a poll last.
        let least = f64::from(count) / (f64::from(count) / line + 3.0);
        assert!(got <= line * 1.0001 && got >= least, "{size} B: {got} of {line} million frames a second");
    }
}

/// Two queue pairs of cx4lx, between whose frames there is no gap but the wire's: 812,743 frames of 1518 bytes a second.
#[test]
fn a_card_reaches_the_line_rate_of_full_frames() {
    let _alone = alone();
    let got = rate(&["--card", "cx4lx"], "-s 1514 -n 2000 -q 2");
    assert!((got / 0.812_743 - 1.0).abs() < 0.003, "{got} million frames a second");
}

/// The same figures in each run, and to the picosecond when each frame was where.
#[test]
fn each_run_is_the_same() {
    let _alone = alone();
    for (program, arguments) in [(LAT, "-s 64 -n 200"), (BW, "-s 300 -n 500")] {
        let results = [0, 1].map(|_| {
            let directory = tempfile::tempdir().expect("a directory");
            let pcap = directory.path().join("frames.pcap");
            let net = StockNet::new();
            let options = ["--card", "f10a", "--wire", "exact", "--pcap", pcap.to_str().expect("UTF-8")];
            let figures = run(&net, &options, program, arguments);
            net.expect_gone();
            (figures, frames(&pcap))
        });
        assert_eq!(results[0].0, results[1].0, "{program} {arguments}");
        let lengths = results.each_ref().map(|(_, frames)| frames.iter().map(|f| f.len).collect::<Vec<_>>());
        assert_eq!(lengths[0], lengths[1], "{program} {arguments}");
        let gaps = results
            .each_ref()
            .map(|(_, frames)| frames.windows(2).map(|pair| pair[1].at - pair[0].at).collect::<Vec<u64>>());
        assert_eq!(gaps[0], gaps[1], "{program} {arguments}");
    }
}

/// A frame that others pass, on frames and behind a switch that pauses its ports: none is lost.
#[test]
fn faults_and_a_switch_do_not_lose_frames() {
    let _alone = alone();
    for options in [
        &["--wire", "exact", "--fault", "reorder nth=3, reorder nth=200"][..],
        &["--switch", "pfc,xoff=20KiB,xon=10KiB"],
        &["--switch", "kmin=0,kmax=10KiB,pmax=1", "--wire", "exact"],
    ] {
        let [server, client] = run(&StockNet::new(), options, BW, "-s 1000 -n 400");
        assert_eq!((server[1], client[1]), (400.0, 400.0), "{options:?}");
    }
}

#[test]
fn frames_wait_for_receives_and_not_for_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compile_c("patience", directory.path());
    let said = [0, 1].map(|_| {
        let ended =
            Program::start(StockNet::new().command(&["--clock", "virtual"], &program, &[])).wait(LIMIT);
        assert!(
            ended.good() && ended.said.contains("all patient"),
            "{}; it said:\n{}",
            ended.how(),
            ended.said
        );
        ended.said.lines().find(|line| line.contains("all patient")).map(str::to_owned)
    });
    assert_eq!(said[0], said[1]);
}

/// A recorded frame.
struct Frame {
    /// When its first bit left (ns).
    at: u64,
    /// Its bytes, without check sequence.
    len: u32,
    /// It is a packet of RoCE.
    rdma: bool,
}

fn frames(pcap: &Path) -> Vec<Frame> {
    let bytes = fs::read(pcap).expect("the capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut frames) = (24, Vec::new());
    while at + 16 <= bytes.len() {
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        let (kept, len) = (word(at + 8) as usize, word(at + 12));
        let frame = &bytes[at + 16..at + 16 + kept];
        let rdma = frame[12..14] == [8, 0] && frame[23] == 17 && frame[36..38] == 4791u16.to_be_bytes();
        frames.push(Frame { at: time, len, rdma });
        at += 16 + kept;
    }
    frames
}

/// Packets of RDMA and whole frames leave one port in turn, and leave no room on the wire.
#[test]
fn frames_and_packets_share_a_port() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let pcap = directory.path().join("both.pcap");
    let net = StockNet::new();
    let mut options = vec![
        "--card",
        "cx4lx",
        "--pcap",
        pcap.to_str().expect("UTF-8"),
        "--pcap-at",
        "verbena1",
        "--snaplen",
        "64",
    ];
    options.extend(["--clock", "virtual"]);
    need("ib_write_bw");
    let port = free_port();
    let number = port.to_string();
    let write = ["-d", "verbena0", "-s", "65536", "-n", "40", "-p", &number];
    let raw = server(&net, &options, BW, "-s 1514 -n 1000000");
    let mut rdma = Program::start(net.command(&options, "ib_write_bw", &write));
    assert!(wait_until_listening(&mut rdma, port, LIMIT), "it said:\n{}", rdma.said());
    let sender = side(&net, &options, BW, "-s 1514 -n 1000000", 1);
    let client = ["-d", "verbena1", "-s", "65536", "-n", "40", "-p", &number, "localhost"];
    let client = Program::start(net.command(&options, "ib_write_bw", &client)).wait(LIMIT);
    assert!(client.good(), "{}; it said:\n{}", client.how(), client.said);
    drop((sender, rdma, raw));
    let data = |frame: &Frame| frame.rdma && frame.len > 1000;
    let sent: Vec<Frame> = frames(&pcap).into_iter().filter(|frame| frame.len > 1000).collect();
    let first = sent.iter().position(data).expect("packets of RDMA");
    let last = sent.iter().rposition(data).expect("packets of RDMA");
    let both = &sent[first..last];
    let packets = both.iter().filter(|frame| frame.rdma).count();
    let share = packets as f64 / both.len() as f64;
    assert!(packets > 1000 && (0.45..0.55).contains(&share), "{packets} packets in {} frames", both.len());
    let bits: f64 = both.iter().map(|frame| (f64::from(frame.len) + AROUND) * 8.0).sum();
    let rate = bits / (sent[last].at - sent[first].at) as f64;
    assert!((9.9..10.01).contains(&rate), "the port sends {rate} Gb/s");
}
