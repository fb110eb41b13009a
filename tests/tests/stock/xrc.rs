//! Extended reliable connections (XRC) through stock verbs, with both clocks and as frames.

use std::time::Duration;

use tests::pcap::records;
use tests::place_for;
use tests::stock::{compile_c, Pair, Program, StockNet};

/// Longer than the programs themselves wait, so that they say for what.
const LIMIT: Duration = Duration::from_secs(60);
const NETS: [&[&str]; 3] = [&[], &["--wire", "exact"], &["--clock", "virtual"]];

/// Runs a server and its client on each kind of net; what the client said.
fn pairs(program: &str, arguments: &[&str]) -> Vec<String> {
    let run = |options: &&[&str]| {
        let net = StockNet::new();
        let mut pair = Pair::new(&net, program, arguments);
        pair.launcher = options;
        let both = pair.good();
        both.client.said
    };
    NETS.iter().map(run).collect()
}

#[test]
fn stock_ping_pongs() {
    for arguments in [&["-g", "1", "-n", "200"][..], &["-g", "1", "-n", "50", "-s", "100000", "-e"]] {
        for said in pairs("ibv_xsrq_pingpong", arguments) {
            assert!(said.contains("success"), "{said}");
        }
    }
}

#[test]
fn stock_perftest() {
    for (program, more) in [
        ("ib_write_bw", &[][..]),
        ("ib_send_bw", &["-q", "2", "-b"]),
        ("ib_read_bw", &[]),
        ("ib_atomic_bw", &[]),
        ("ib_send_lat", &[]),
    ] {
        let mut arguments = vec!["-F", "-n", "50", "-c", "XRC"];
        arguments.extend(more);
        for said in pairs(program, &arguments) {
            let figures =
                said.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()));
            assert_eq!(figures.count(), 1, "{program}: {said}");
        }
    }
}

/// Domains, shared and not; receiving queue pairs that outlive their creator; each refusal.
#[test]
fn processes_share_a_domain() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compile_c("xrc");
    for options in NETS {
        let file = directory.path().join("domain");
        let file = file.to_str().expect("a path in UTF-8");
        let net = StockNet::new();
        let ended = Program::start(net.command(options, &program, &[file])).wait(LIMIT);
        ended.expect_good_saying("all as it should be");
    }
}

/// In requests, and only there, the number of the SRQ follows the BTH.
#[test]
fn requests_name_the_srq_on_the_wire() {
    let (_directory, path) = place_for("xrc.pcap");
    let net = StockNet::new();
    let launcher = ["--wire", "exact", "--pcap", path.to_str().expect("a path in UTF-8")];
    let arguments = ["-F", "-n", "5", "-s", "1500", "-m", "1024", "-c", "XRC"];
    let pair = Pair { launcher: &launcher, ..Pair::new(&net, "ib_send_bw", &arguments) };
    pair.good();
    net.expect_gone();
    let records = records(&path, 65_535);
    assert!(records.windows(2).all(|pair| pair[0].time <= pair[1].time), "the clock goes back");
    let frames: Vec<&[u8]> = records
        .iter()
        .map(|record| {
            assert_eq!(record.len, record.kept.len());
            // After Ethernet, IPv4 and UDP.
            &record.kept[42..]
        })
        .collect();
    // SEND first, SEND last, acknowledgement: BTH, XRCETH or AETH, payload, ICRC.
    for (opcode, bytes) in [(0xa0, 12 + 4 + 1024 + 4), (0xa2, 12 + 4 + 476 + 4), (0xb1, 12 + 4 + 4)] {
        let found: Vec<_> = frames.iter().filter(|frame| frame[0] == opcode).collect();
        assert_eq!(found.len(), 5, "{opcode:#x}");
        for frame in found {
            assert_eq!(frame.len(), bytes, "{opcode:#x}");
            assert!(opcode == 0xb1 || frame[12..16] == [0, 0, 0, 1], "{opcode:#x}: {frame:x?}");
        }
    }
}
