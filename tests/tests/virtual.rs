//! Stock programs in simulated time: what they use of the system works, peers that die or stop are noticed.

use std::time::{Duration, Instant};

use driver::Registers;
use fpga_regs::regs::port;
use model::attach::SegmentCard;
use model::segment::Segment;
use tests::place_for;
use tests::stock::{
    alone, check_report, compile_c, first_row, free_port, keepers, rows, verbena_in, Both, Ended, Kind, Pair,
    Program, StockNet,
};

const LIMIT: Duration = Duration::from_secs(240);
const VIRTUAL: &[&str] = &["--clock", "virtual"];

/// Programs and their arguments, all between two cards.
const CASES: &[(&str, &str)] = &[
    // Completion channels: all programs wait in the kernel.
    ("ib_send_bw", "-e -n 100"),
    ("ib_send_lat", "-e -n 50"),
    ("ib_read_bw", "-e -n 100"),
    ("ib_atomic_lat", "-e -n 50"),
    ("ib_write_bw", "-q 16 -n 20"),
    ("ib_send_bw", "-q 4 -n 50 -b"),
    ("ib_write_bw", "-b -n 100"),
    ("ib_read_bw", "-m 1024 -s 3000 -n 50 -x 0"),
    ("ib_write_bw", "-l 16 -n 160"),
    ("ib_send_bw", "--use-srq -q 4 -n 50"),
    ("ib_send_bw", "-c UD -s 1024 -n 50"),
    ("ib_send_lat", "-c UD -s 1024 -n 50"),
    ("ib_send_bw", "-c UC -s 8192 -n 50"),
    ("ib_write_lat", "-c UC -n 50"),
    ("ib_atomic_bw", "-A CMP_AND_SWAP -n 50"),
    ("ib_read_bw", "-D 1"),
];

#[test]
fn perftest_uses_all_of_verbs() {
    let _alone = alone();
    let mut failures = Vec::new();
    for (program, arguments) in CASES {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let net = StockNet::new();
        let pair = Pair { launcher: VIRTUAL, limit: LIMIT, ..Pair::new(&net, program, &arguments) };
        let checked = pair.run().and_then(|both| {
            check_report(&both.client.said, Kind::of(program, &arguments))
                .map_err(|error| format!("{error}\n{}", both.report()))
        });
        if let Err(error) = checked {
            failures.push(format!("{}: {error}", pair.line()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn the_example_programs_of_libibverbs() {
    let _alone = alone();
    for (program, arguments) in [
        ("ibv_rc_pingpong", ["-g", "1"].as_slice()),
        ("ibv_rc_pingpong", &["-g", "1", "-e"]),
        ("ibv_uc_pingpong", &["-g", "1", "-n", "100"]),
        ("ibv_ud_pingpong", &["-g", "1", "-n", "100"]),
        ("ibv_srq_pingpong", &["-g", "1", "-n", "200"]),
    ] {
        let net = StockNet::new();
        let pair = Pair { launcher: VIRTUAL, limit: LIMIT, ..Pair::new(&net, program, arguments) };
        let both = pair.good();
        assert!(both.client.said.contains("iters in"), "{}", both.report());
    }
    let net = StockNet::new();
    let ended = Program::start(net.command(VIRTUAL, "ibv_devinfo", &["-v"])).wait(LIMIT);
    ended.expect_good_saying("PORT_ACTIVE");
    net.expect_gone();
}

/// After a loss what was not on the wire yet stays off it: the responder would drop it.
#[test]
fn a_loss_makes_little_be_sent_in_vain() {
    let _alone = alone();
    let (_directory, pcap) = place_for("net.pcap");
    let file = pcap.to_str().expect("UTF-8");
    let launcher = &["--clock", "virtual", "--wire", "exact", "--fault", "loss=0.01,seed=3", "--pcap", file];
    let net = StockNet::new();
    let pair =
        Pair { launcher, limit: LIMIT, ..Pair::new(&net, "ib_write_bw", &["-s", "1048576", "-n", "5"]) };
    pair.good();
    net.expect_gone();
    let recorded = std::fs::metadata(&pcap).expect("a record").len();
    // Twice: as sent and as received.
    let payload = 2 * 5 * (1 << 20);
    assert!((payload / 2..3 * payload).contains(&recorded), "{recorded} bytes are recorded for {payload}");
}

/// One packet in a thousand is lost, and with a profile that keeps what follows it little else of the goodput. By the wall clock
/// the same profile repeats selectively, too.
#[test]
fn selective_repeat_by_a_profile_of_ones_own() {
    let _alone = alone();
    let (_directory, file) = place_for("keeps.toml");
    let f10a = model::profile::builtin("f10a").expect("a profile of our own");
    let keeps = f10a.replace("reorder_packets = [0,", "reorder_packets = [128,");
    assert_ne!(keeps, f10a);
    std::fs::write(&file, keeps).expect("a file");
    let keeps = file.to_str().expect("UTF-8");
    let rate = |clock, card, program, fault| {
        let launcher = &["--clock", clock, "--card", card, "--fault", fault];
        let net = StockNet::new();
        let arguments = ["-s", "32768", "-n", "1000", "-u", "8"];
        let pair = Pair { launcher, limit: LIMIT, ..Pair::new(&net, program, &arguments) };
        let both = pair.good();
        first_row(&both.client.said)[3]
    };
    for program in ["ib_write_bw", "ib_read_bw", "ib_send_bw"] {
        let whole = rate("virtual", keeps, program, "drop data p=0");
        let selective = rate("virtual", keeps, program, "drop data p=0.001,seed=1") / whole;
        let back = rate("virtual", "f10a", program, "drop data p=0.001,seed=1") / whole;
        println!("{program}: {selective:.3} and {back:.3} of {whole} MiB/s");
        assert!(selective > 0.97 && back < 0.96 && back < selective, "{program}: {selective} and {back}");
        rate("wall", keeps, program, "loss=0.01,seed=1");
    }
}

/// Five seconds of simulated time, and they are five: `-D` counts them by SIGALRM.
#[test]
fn a_duration_is_one_of_simulated_time() {
    let net = StockNet::alone();
    let arguments = ["-D", "5", "-s", "1048576"];
    let pair = Pair { launcher: VIRTUAL, limit: LIMIT, ..Pair::new(&net, "ib_read_bw", &arguments) };
    let both = pair.good();
    let rows = rows(&both.client.said);
    // Messages of a MiB and MiB/s; the margin at both ends is perftest's.
    let (messages, rate) = (rows[0][1], rows[0][3]);
    let seconds = messages / rate;
    assert!((0.9..=5.1).contains(&seconds), "{messages} messages at {rate} MiB/s are {seconds} s");
}

/// The connection manager would have asked again 4.6 s after its request, which was answered.
#[test]
fn time_does_not_go_on_to_the_end_of_a_wait_that_is_over() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..3 {
        let mut command = verbena_in(directory.path());
        command.args(["perftest", "--clock", "virtual", "--out", "r", "ib_write_bw", "-R", "-n", "200"]);
        let said = Program::start(command).wait(LIMIT).expect_good();
        let seconds =
            said.split(" s of simulated time").next().and_then(|before| before.split(' ').next_back());
        let seconds: f64 = seconds.and_then(|number| number.parse().ok()).expect("the simulated time");
        assert!((0.1..2.0).contains(&seconds), "{said}");
    }
}

#[test]
fn a_run_without_end_ends_with_ctrl_c() {
    let net = StockNet::alone();
    let arguments = ["--run_infinitely", "-D", "1", "-s", "1048576"];
    let pair = Pair { launcher: VIRTUAL, limit: LIMIT, ..Pair::new(&net, "ib_write_bw", &arguments) };
    let (server, client) = pair.start().expect("both start");
    std::thread::sleep(Duration::from_secs(3));
    client.signal(libc::SIGINT);
    server.signal(libc::SIGINT);
    for side in [client, server] {
        let ended = side.wait(LIMIT);
        assert!(ended.status.is_some(), "after SIGINT: {ended}");
    }
    net.expect_gone();
}

#[test]
fn forks_and_threads() {
    let net = StockNet::alone();
    let forks = compile_c("forks");
    for way in ["fork", "vfork", "exec", "spawn", "system"] {
        Program::start(net.command(VIRTUAL, &forks, &[way, "verbena1"])).wait(LIMIT).expect_good_saying("OK");
    }
    let threads = compile_c("threads");
    for way in ["separate", "shared"] {
        let arguments = [way, "verbena1", "50"];
        Program::start(net.command(VIRTUAL, &threads, &arguments)).wait(LIMIT).expect_good_saying("OK");
    }
    net.expect_gone();
}

/// Seconds that simulated time may stand still in such a pair.
const PATIENCE: &str = "10";

/// A pair that works until one of them is sent a signal; how the other ends.
fn struck(program: &str, arguments: &[&str], victim: usize, signal: i32) -> (Ended, StockNet, Program) {
    let net = StockNet::new();
    let port = free_port();
    let number = port.to_string();
    let side = |device: &str, host: &[&str]| {
        let words = [&["-d", device, "-p", &number], arguments, host].concat();
        let mut command = net.command(VIRTUAL, program, &words);
        command.env("VERBENA_PATIENCE", PATIENCE);
        Program::start(command)
    };
    let mut server = side("verbena0", &[]);
    server.expect_listening(port);
    let mut client = side("verbena1", &["localhost"]);
    // In the midst of the traffic, which comes after the calibration of perftest's clock.
    let card = SegmentCard::open(&net.socket(), 0).expect("the card opens");
    let sent = || card.read64(port::base(0) + port::TX_PACKETS);
    let until = Instant::now() + LIMIT;
    while sent() < 4000 {
        let over = server.has_ended() || client.has_ended() || Instant::now() > until;
        let said = || format!("{}\n{}", server.said(), client.said());
        assert!(!over, "card 0 has sent {} packets only:\n{}", sent(), said());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(card);
    let mut sides = [Some(server), Some(client)];
    let dead = sides[victim].take().expect("two sides");
    let other = sides[1 - victim].take().expect("two sides");
    dead.signal(signal);
    (other.wait(LIMIT), net, dead)
}

#[test]
fn a_killed_peer_is_noticed_in_simulated_time() {
    killed_peers();
}

#[test]
#[ignore = "takes some minutes"]
fn forty_killed_peers_are_noticed_in_simulated_time() {
    (0..10).for_each(|_| killed_peers());
}

fn killed_peers() {
    for (program, option, victim) in [
        ("ib_write_bw", "-D", 0),
        ("ib_send_lat", "-D", 0),
        ("ib_send_lat", "-D", 1),
        ("ib_read_lat", "-D", 0),
    ] {
        let (ended, net, dead) = struck(program, &["-F", option, "600"], victim, libc::SIGKILL);
        let what = format!("victim {victim}: {ended}");
        // A survivor with a message in flight completes it in error. In a ping-pong it may be the other's turn: then
        // the 600 s go by at once, and the peer is missed when both say good-bye.
        let failed = ended.status.is_some_and(|status| !status.success()) && ended.said.contains("error");
        let missed = ended.said.contains("Failed to close connection between server and client");
        assert!(failed || program == "ib_send_lat" && missed, "{what}");
        net.expect_gone_after(dead);
        assert!(keepers(net.name()).is_empty());
    }
}

/// Simulated time cannot go on without a process that is stopped: the other one says so, and ends.
#[test]
fn a_stopped_peer_is_named() {
    for victim in [0, 1] {
        let (ended, net, stopped) = struck("ib_send_lat", &["-F", "-D", "600"], victim, libc::SIGSTOP);
        let what = format!("victim {victim}: {ended}");
        assert_eq!(ended.status.and_then(|status| status.code()), Some(124), "{what}");
        let pid = stopped.pid();
        let named = format!("process {pid} (ib_send_lat), which is stopped");
        let holds = format!("held for {PATIENCE}s by process {pid}");
        assert!(ended.said.contains(&named) || ended.said.contains(&holds), "{what}");
        net.expect_gone_after(stopped);
    }
}

/// A program that opens a card waits for the lock in real time, although its own clock is virtual.
#[test]
fn opening_a_card_does_not_wait_for_ever() {
    let net = StockNet::new();
    let mut stays = Program::start(net.command(VIRTUAL, "ibv_asyncwatch", &["-d", "verbena0"]));
    stays.expect("async event FD", LIMIT);
    let segment = Segment::attach(&net.socket()).expect("the net is there");
    let held = segment.lock(LIMIT).expect("nobody keeps the lock");
    let ended = Program::start(net.command(VIRTUAL, "ibv_devinfo", &["-d", "verbena1"])).wait(LIMIT);
    drop(held);
    assert!(ended.status.is_some(), "{ended}");
    ended.expect_refusal(&format!("by process {}", std::process::id()));
}

/// A server without a client is not stuck: it waits longer than simulated time may stand still.
#[test]
fn waiting_for_a_client_is_no_standstill() {
    let net = StockNet::new();
    let port = free_port();
    let number = port.to_string();
    let mut command = net.command(VIRTUAL, "ib_send_bw", &["-p", &number, "-n", "10"]);
    command.env("VERBENA_PATIENCE", "6");
    let mut server = Program::start(command);
    server.expect_listening(port);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(8) {
        assert!(!server.has_ended(), "the server ended: {}", server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    let words = ["-p", &number, "-n", "10", "-d", "verbena1", "localhost"];
    let client = Program::start(net.command(VIRTUAL, "ib_send_bw", &words));
    Both::of([client, server], LIMIT).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn patience_is_checked() {
    let net = StockNet::new();
    let mut command = net.command(VIRTUAL, "true", &[]);
    command.env("VERBENA_PATIENCE", "soon");
    let ended = Program::start(command).wait(LIMIT);
    assert_eq!(ended.status.and_then(|status| status.code()), Some(125), "{}", ended.said);
    assert!(ended.said.contains("VERBENA_PATIENCE: `soon` is not a number of seconds"), "{}", ended.said);
}
