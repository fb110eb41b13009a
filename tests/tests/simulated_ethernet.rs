//! Whole Ethernet frames in simulated time: perftest's raw tests print what the wire of the profile gives, an arithmetic that
//! nobody here made: a frame takes its bytes, four of check sequence and twenty of preamble and gap (IEEE 802.3).
//!
//! The two sides do not talk before they begin, so a client starts when its server has posted receives. From then on the
//! server stands still in simulated time.

use std::time::{Duration, Instant};

use model::attach::{receives_waiting, simulated_time};
use tests::pcap::records;
use tests::place_for;
use tests::stock::{alone, compile_c, need, only_the_wire, rows, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(120);
const MAC: [&str; 2] = ["02:56:42:00:00:00", "02:56:42:00:01:00"];
const BW: &str = "raw_ethernet_bw";
const LAT: &str = "raw_ethernet_lat";
/// Check sequence, preamble, start and gap of a frame.
const AROUND: f64 = 24.0;

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
        let said = side.expect_good();
        let mut rows = rows(&said);
        assert_eq!(rows.len(), 1, "{program} {arguments}: it said:\n{said}");
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

/// perftest's sizes count the check sequence, so 1518 B is 812,743 frames a second, and 64 B is 14.88 million.
#[test]
fn bandwidth_is_that_of_the_wire() {
    // Frames of 64 bytes come nearly as fast as WQEs and payloads are fetched.
    bandwidth(&[(64, 1000, 0.98), (1518, 300, 1.0)]);
}

#[test]
#[ignore = "the long form of the checks"]
fn bandwidth_of_other_sizes_is_that_of_the_wire() {
    bandwidth(&[(512, 500, 1.0), (9600, 100, 1.0)]);
}

/// Frames of these sizes, so many of them, reach this share of 10 Gb/s, less the first frame's way.
fn bandwidth(sizes: &[(u32, u32, f64)]) {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let profile = only_the_wire(directory.path());
    let options = ["--card", profile.to_str().expect("UTF-8")];
    for &(size, count, share) in sizes {
        let jumbo = if size > 1518 { "-m 9600" } else { "" };
        let got = rate(&options, &format!("-s {size} -n {count} {jumbo}"));
        let line = 1e4 / 8.0 / (f64::from(size - 4) + AROUND);
        // Before the first frame: doorbell, fetch of the context, the WQE and the payload; after the last one its CQE and a poll.
        let least = f64::from(count) / (f64::from(count) / (share * line) + 6.0);
        assert!(got <= line * 1.0001 && got >= least, "{size} B: {got} of {line} million frames a second");
    }
}

/// What perftest says of a paced queue pair is its rate. It counts a megabyte for 8192 kbit, and a check sequence in its sizes.
#[test]
fn bandwidth_is_the_rate_limit() {
    let _alone = alone();
    // A frame takes 14,785.2 and 585.9 ns.
    for (limit, size, count) in [(100.0, 1518, 300), (100.0, 64, 1000)] {
        let arguments =
            format!("-s {size} -n {count} --rate_limit={limit} --rate_units=M --rate_limit_type=PP");
        let got = rate(&[], &arguments);
        let (frame, count) = (f64::from(size - 4) * 8.0 / (limit * 8.192), f64::from(count));
        // The first frame does not wait. Before it and after the last one: the times of a post and a completion.
        let (most, least) = (count / ((count - 1.0) * frame), count / (count * frame + 4.0));
        assert!(got <= most * 1.0001 && got >= least, "{arguments}: {got} of {most} million frames a second");
    }
}

#[test]
fn each_run_is_the_same() {
    runs_are_the_same(&[(LAT, "-s 64 -n 20")]);
}

#[test]
#[ignore = "the long form of the checks"]
fn longer_runs_are_the_same() {
    runs_are_the_same(&[(LAT, "-s 64 -n 200"), (BW, "-s 300 -n 500")]);
}

/// The same figures in each run, and to the picosecond when each frame was where.
fn runs_are_the_same(commands: &[(&str, &str)]) {
    let _alone = alone();
    for &(program, arguments) in commands {
        let results = [0, 1].map(|_| {
            let (_directory, pcap) = place_for("frames.pcap");
            let net = StockNet::new();
            let options = ["--card", "f10a", "--wire", "exact", "--pcap", pcap.to_str().expect("UTF-8")];
            let figures = run(&net, &options, program, arguments);
            net.expect_gone();
            (figures, records(&pcap, 65_535))
        });
        assert_eq!(results[0].0, results[1].0, "{program} {arguments}");
        let lengths = results.each_ref().map(|(_, frames)| frames.iter().map(|f| f.len).collect::<Vec<_>>());
        assert_eq!(lengths[0], lengths[1], "{program} {arguments}");
        let gaps = results.each_ref().map(|(_, frames)| {
            frames.windows(2).map(|pair| pair[1].time - pair[0].time).collect::<Vec<u64>>()
        });
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
    let program = compile_c("patience");
    let said = [0, 1].map(|_| {
        let ended =
            Program::start(StockNet::new().command(&["--clock", "virtual"], &program, &[])).wait(LIMIT);
        let said = ended.expect_good_saying("all patient");
        said.lines().find(|line| line.contains("all patient")).map(str::to_owned)
    });
    assert_eq!(said[0], said[1]);
}

/// Frames and RDMA's packets take turns on the wire of a port: 60 frames of 1514 B and a WRITE of as many bytes, at once, take
/// what the wire takes for both, and neither goes first.
#[test]
fn frames_share_a_port_with_rdma() {
    const COUNT: u32 = 60;
    let program = compile_c("mixture");
    let ended = Program::start(StockNet::new().command(&["--clock", "virtual"], &program, &[])).wait(LIMIT);
    let line = ended.said.lines().find_map(|line| line.strip_prefix("us: "));
    let times: Vec<f64> =
        line.unwrap_or("").split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let &[frames, write, with_write, with_frames] = &times[..] else { panic!("{ended}") };
    let bytes = f64::from(COUNT * 1514);
    // Around the payload of a packet: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; the RETH of the first one is 16.
    let packets = (bytes / 1024.0).ceil();
    let wire = (2.0 * bytes + f64::from(COUNT) * AROUND + packets * (58.0 + AROUND) + 16.0) * 8.0 / 1e4;
    let last = with_write.max(with_frames);
    assert!(last >= wire && last <= frames + write, "{times:?}, and {wire} us on the wire");
    assert!((with_write - with_frames).abs() < 0.1 * last, "{times:?}");
}
