//! Stock programs over frames, with faults, recorded.

use std::time::Duration;

use model::wire::frame;
use tests::pcap::{records, Record};
use tests::place_for;
use tests::stock::{alone, compile_c, Pair, Program, StockNet};

/// Program, arguments, and opcodes of which its frames have to be some.
const PROGRAMS: [(&str, &[&str], &[u8]); 5] = [
    ("ibv_rc_pingpong", &["-g", "1", "-c", "-n", "300", "-s", "5000"], &[0x00, 0x01, 0x02, 0x11]),
    ("ib_write_bw", &["-n", "300", "-s", "3000", "-m", "1024"], &[0x06, 0x07, 0x08, 0x11]),
    ("ib_read_lat", &["-n", "300", "-s", "3000", "-m", "1024"], &[0x0c, 0x0d, 0x0e, 0x0f]),
    ("ib_atomic_bw", &["-n", "300"], &[0x14, 0x12]),
    ("ib_send_bw", &["-n", "300", "-s", "333", "-b"], &[0x04, 0x11]),
];

#[test]
fn stock_programs_run_over_a_bad_wire_that_is_recorded() {
    let _alone = alone();
    for (program, arguments, opcodes) in PROGRAMS {
        let (_directory, path) = place_for("net.pcap");
        let net = StockNet::new();
        let launcher = [
            "--fault=loss=0.002,dup=0.002,reorder=0.002,corrupt=0.002,seed=9",
            "--pcap",
            path.to_str().unwrap(),
        ];
        let pair = Pair { launcher: &launcher, ..Pair::new(&net, program, arguments) };
        pair.good();
        net.expect_gone();
        let frames = records(&path, 65_535);
        assert!(frames.len() > 300, "{program}: {} frames", frames.len());
        assert!(frames.windows(2).all(|pair| pair[0].time <= pair[1].time), "{program}: the clock goes back");
        let mut seen = [false; 256];
        for (n, record) in frames.iter().enumerate() {
            let frame = frame::decode(&record.kept);
            let frame = frame.unwrap_or_else(|reason| panic!("{program}: frame {}: {reason}", n + 1));
            seen[frame.headers.bth.opcode.0 as usize] = true;
        }
        for &opcode in opcodes {
            assert!(seen[opcode as usize], "{program}: no frame with opcode {opcode:#x}");
        }
    }
}

/// In simulated time there is a way to go between the cards: what is sent again meets the answers to what was sent before.
#[test]
fn reads_among_writes_succeed_on_a_wire_that_reorders() {
    let _alone = alone();
    let lossy = compile_c("lossy");
    for seed in ["1", "3", "6"] {
        let net = StockNet::new();
        let fault = format!("--fault=reorder=0.05,seed={seed}");
        let launcher = ["--clock", "virtual", "--wire", "exact", &fault];
        let ended =
            Program::start(net.command(&launcher, &lossy, &[seed, "8"])).wait(Duration::from_secs(60));
        ended.expect_good_saying("OK");
    }
}

/// A writer that is killed leaves a file that ends with a whole record.
#[test]
fn the_record_of_a_killed_program_is_whole() {
    let _alone = alone();
    let (_directory, path) = place_for("net.pcap");
    let net = StockNet::new();
    let launcher = ["--wire", "exact", "--snaplen", "100", "--pcap", path.to_str().unwrap()];
    let pair = Pair { launcher: &launcher, ..Pair::new(&net, "ib_write_bw", &["-D", "20", "-s", "65536"]) };
    let (server, mut client) = pair.start().expect("both start");
    let recorded = || std::fs::metadata(&path).map_or(0, |file| file.len());
    client.expect_that("no frames", |_| recorded() >= 20_000_000);
    client.signal(libc::SIGKILL);
    drop(client);
    net.expect_gone_after(server);
    let frames = records(&path, 100);
    assert!(frames.len() > 100_000);
    assert!(frames.iter().all(|frame| frame.len <= 4096 + 100));
}

/// In simulated time the same run can be recorded again and again: as it is sent, and as either card sees it.
#[test]
fn either_side_of_a_lossy_wire() {
    let _alone = alone();
    let run = |view: &[&str]| {
        let (_directory, path) = place_for("net.pcap");
        let net = StockNet::new();
        let wire = ["--clock=virtual", "--fault=loss=0.03,dup=0.02,seed=5", "--pcap", path.to_str().unwrap()];
        let launcher = [wire.as_slice(), view].concat();
        let arguments = ["-n", "100", "-s", "3000", "-m", "1024"];
        let pair = Pair { launcher: &launcher, ..Pair::new(&net, "ib_write_bw", &arguments) };
        pair.good();
        net.expect_gone();
        records(&path, 65_535)
    };
    // The last byte but one of a MAC address is the card.
    let sent_by = |frames: &[Record], card: u8| -> Vec<(u64, Vec<u8>)> {
        let of = frames.iter().filter(|frame| frame.kept[10] == card);
        of.map(|frame| (frame.time, frame.kept.clone())).collect()
    };
    let all = run(&[]);
    assert!(all.windows(2).all(|pair| pair[0].time <= pair[1].time), "time goes back");
    for card in [0, 1] {
        let view = run(&["--pcap-at", &card.to_string()]);
        assert_eq!(sent_by(&view, card), sent_by(&all, card), "what card {card} sends");
        let (sent, received) = (sent_by(&all, 1 - card), sent_by(&view, 1 - card));
        // The way of a frame takes as long as its length says; another try has the same bytes, but comes later.
        let ways = |at: u64, frame: &[u8]| -> Vec<u64> {
            let same = received.iter().filter(|(t, bytes)| bytes == frame && *t > at);
            same.map(|(t, _)| t - at).collect()
        };
        let mut firsts = std::collections::HashMap::<usize, Vec<u64>>::new();
        for (at, frame) in &sent {
            firsts.entry(frame.len()).or_default().extend(ways(*at, frame).into_iter().min());
        }
        for first in firsts.values_mut() {
            first.sort_unstable();
        }
        let arrivals = |at: u64, frame: &[u8]| {
            let first = &firsts[&frame.len()];
            // Both times are cut to nanoseconds.
            ways(at, frame).into_iter().filter(|way| way.abs_diff(first[first.len() / 2]) <= 1).count()
        };
        let times: Vec<usize> = sent.iter().map(|(at, frame)| arrivals(*at, frame)).collect();
        assert_eq!(times.iter().sum::<usize>(), received.len(), "frames from nowhere");
        let lost = times.iter().filter(|&&times| times == 0).count();
        let twice = times.iter().filter(|&&times| times == 2).count();
        println!("card {card}: {} frames to it, {lost} lost, {twice} twice", sent.len());
        assert!(lost > 0 && lost < sent.len() / 5 && twice < sent.len() / 5);
    }
}
