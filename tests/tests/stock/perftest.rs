//! Stock perftest on modelled cards: every test, with the options that people use.
//!
//! [`CASES`] is what is covered. `-a` takes its time (perftest measures the processor's speed for
//! a fifth of a second for each line that it prints), so iterations are few. What differs from another case in
//! little but the cards that take part is left to the long form of the checks.

use std::time::Instant;

use tests::stock::{check_report, rows, Kind, Pair, StockNet, LIMIT};

/// Which devices take part.
#[derive(Clone, Copy, PartialEq)]
enum On {
    /// The server has verbena0, the client verbena1.
    Two,
    /// Both have verbena0.
    One,
    /// Two; in the long form one.
    Both,
    /// Two, in the long form only.
    Later,
}

impl On {
    /// The client's card, in either form.
    fn client(self, long: bool) -> Option<&'static str> {
        match (self, long) {
            (On::Two | On::Both, false) | (On::Later, true) => Some("verbena1"),
            (On::One, false) | (On::Both, true) => Some("verbena0"),
            _ => None,
        }
    }
}

/// Programs (without `ib_`), devices, and the arguments for each.
struct Case {
    group: &'static str,
    programs: &'static [&'static str],
    on: On,
    /// Each is a run of its own.
    arguments: &'static [&'static str],
}

const ALL: &[&str] =
    &["write_bw", "write_lat", "read_bw", "read_lat", "send_bw", "send_lat", "atomic_bw", "atomic_lat"];
const BW: &[&str] = &["write_bw", "read_bw", "send_bw", "atomic_bw"];
const SENDS: &[&str] = &["send_bw", "send_lat"];
const WRITES: &[&str] = &["write_bw", "write_lat"];
const MTUS: &[&str] = &["-m 256 -n 50", "-m 512 -n 50", "-m 1024 -n 50", "-m 2048 -n 50", "-m 4096 -n 50"];

const fn case(
    group: &'static str,
    programs: &'static [&'static str],
    on: On,
    arguments: &'static [&'static str],
) -> Case {
    Case { group, programs, on, arguments }
}

const CASES: &[Case] = &[
    case("plain", ALL, On::Two, &["-n 50"]),
    case("plain", ALL, On::One, &["-n 50"]),
    case("all sizes", &["write_bw", "send_lat"], On::Two, &["-a -n 5"]),
    case("all sizes", &["write_lat", "read_bw", "read_lat", "send_bw"], On::Later, &["-a -n 5"]),
    case("bidirectional", BW, On::Both, &["-b -n 100"]),
    case("bidirectional", &["send_bw"], On::Two, &["-b -q 16 -n 50", "-b --report-both -n 100"]),
    case("many queue pairs", BW, On::Both, &["-q 16 -n 50"]),
    case("many queue pairs", &["write_bw"], On::Two, &["-q 16 -s 8 -l 8 -n 160"]),
    case("duration", &["write_bw", "read_lat", "send_bw", "atomic_lat"], On::Two, &["-D 1"]),
    case("duration", &["write_lat", "read_bw", "send_lat", "atomic_bw"], On::Later, &["-D 1"]),
    case("mtu", &["send_bw"], On::Two, MTUS),
    case("mtu", &["send_lat"], On::Later, MTUS),
    case("mtu", &["read_bw"], On::One, &["-m 256 -n 50", "-m 4096 -n 50"]),
    case("mtu", &["write_bw"], On::Two, &["-m 256 -n 50", "-m 1024 -n 50"]),
    case("gid", &["send_bw", "read_lat", "atomic_lat"], On::Both, &["-x 0 -n 50", "-x 1 -n 50"]),
    case("gid", &["send_bw"], On::Two, &["--ipv6 -n 50"]),
    case("srq", SENDS, On::Both, &["--use-srq -n 50"]),
    case("srq", &["send_bw"], On::Two, &["--use-srq -q 16 -n 50", "--use-srq -c UD -s 1024 -n 50"]),
    case("on demand", &["write_bw", "read_lat", "send_bw"], On::Two, &["--odp -n 50"]),
    case("on demand", &["write_lat", "read_bw", "send_lat"], On::Later, &["--odp -n 50"]),
    // perftest itself refuses UC and atomics with this.
    case("on demand", SENDS, On::Two, &["--odp -c UD -s 1024 -n 50"]),
    case("uc", WRITES, On::Both, &["-c UC -s 8192 -n 20"]),
    case("uc", SENDS, On::Both, &["-c UC -s 8192 -n 50"]),
    case("ud", SENDS, On::Both, &["-c UD -s 1024 -n 50"]),
    case("ud", &["send_bw"], On::Two, &["-c UD -s 4096 -b -q 16 -n 50"]),
    case("events", SENDS, On::Both, &["-e -n 50"]),
    case(
        "events",
        &["send_bw"],
        On::Two,
        &["-e -b -n 100", "-e --use-srq -q 4 -n 50", "-e -c UD -s 1024 -n 50"],
    ),
    case("events", &["read_bw", "read_lat", "atomic_lat"], On::Two, &["-e -n 50"]),
    case(
        "inline",
        &["write_bw", "write_lat", "send_bw", "send_lat"],
        On::Two,
        &["-I 220 -s 220 -n 20", "-I 0 -n 20"],
    ),
    case("inline", &["send_lat"], On::Two, &["-I 64 -s 64 -c UD -n 50", "-I 64 -s 64 -c UC -n 50"]),
    case("batches", &["write_bw", "read_bw", "send_bw"], On::Two, &["-l 16 -n 160", "-Q 1 -t 16 -n 50"]),
    case(
        "batches",
        &["send_bw"],
        On::Two,
        &["-l 16 --recv_post_list 16 -n 160", "--use_old_post_send -n 50"],
    ),
    case("sizes", &["write_bw", "send_bw"], On::Two, &["-s 1 -n 50", "-s 8388608 -n 5"]),
    case("second port", &["send_bw"], On::Two, &["-i 2 -n 50"]),
    case("atomics", &["atomic_bw", "atomic_lat"], On::Both, &["-A CMP_AND_SWAP -n 50"]),
    case("memory regions", &["write_bw"], On::Two, &["--mr_per_qp -q 4 -n 50"]),
];

/// Options of `verbena run` that a group needs.
fn launcher(group: &str) -> &'static [&'static str] {
    match group {
        // perftest 4.5 grants inline, and its ibv_wr_* way of posting, to cards that it knows.
        "inline" => &["--as", "cx5"],
        _ => &[],
    }
}

fn run_all(what: &str, long: bool, wanted: impl Fn(&Case) -> bool) {
    let net = StockNet::alone();
    let mut failures = Vec::new();
    let mut count = 0;
    for case in CASES.iter().filter(|case| wanted(case)) {
        let Some(client) = case.on.client(long) else { continue };
        for (program, arguments) in
            case.programs.iter().flat_map(|p| case.arguments.iter().map(move |a| (p, a)))
        {
            count += 1;
            failures.extend(run(&net, case.group, program, client, arguments).err());
        }
    }
    assert!(count > 0, "no case is in {what}");
    assert!(failures.is_empty(), "{} of {count} failed:\n\n{}", failures.len(), failures.join("\n\n"));
    net.expect_gone();
}

fn group(name: &str) {
    run_all(name, false, |case| case.group == name);
}

/// The cases, and the cards, that the other tests leave out.
#[test]
#[ignore = "the long form of the checks"]
fn the_others() {
    run_all("the long form", true, |_| true);
}

fn run(net: &StockNet, group: &str, program: &str, client: &str, arguments: &str) -> Result<(), String> {
    let words: Vec<&str> = ["-F"].into_iter().chain(arguments.split_whitespace()).collect();
    let program = format!("ib_{program}");
    let mut pair = Pair::new(net, &program, &words);
    pair.launcher = launcher(group);
    pair.devices[1] = client;
    if words.contains(&"-a") {
        pair.limit = 4 * LIMIT;
    }
    let start = Instant::now();
    let both = pair.run().map_err(|error| format!("{}: {error}", pair.line()))?;
    println!("{:6.2} s  {}", start.elapsed().as_secs_f32(), pair.line());
    check_report(&both.client.said, Kind::of(&program, &words))
        .map_err(|error| format!("{}: {error}\n{}", pair.line(), both.report()))
}

macro_rules! groups {
    ($($name:ident: $group:literal,)*) => {
        $(#[test] fn $name() { group($group); })*

        #[test]
        fn every_case_is_run() {
            let run = [$($group),*];
            let lost: Vec<_> = CASES.iter().map(|case| case.group).filter(|group| !run.contains(group)).collect();
            assert!(lost.is_empty(), "no test runs {lost:?}");
        }
    };
}

groups! {
    plain: "plain",
    all_sizes: "all sizes",
    bidirectional: "bidirectional",
    many_queue_pairs: "many queue pairs",
    duration: "duration",
    mtu: "mtu",
    gid: "gid",
    srq: "srq",
    uc: "uc",
    ud: "ud",
    events: "events",
    inline: "inline",
    batches: "batches",
    sizes: "sizes",
    second_port: "second port",
    atomics: "atomics",
    memory_regions: "memory regions",
    on_demand: "on demand",
}

/// `--run_infinitely` prints a line each second until Ctrl-C, and then ends.
fn run_infinitely(program: &str, devices: [&str; 2]) {
    let net = StockNet::alone();
    let mut pair = Pair::new(&net, program, &["-F", "--run_infinitely", "-D", "1"]);
    pair.devices = devices;
    let (server, mut client) = pair.start().expect("both start");
    // Each line has a calibration of its own, which a busy machine may spoil: 0.00 is no figure.
    let figures = |said: &str| rows(said).iter().filter(|row| row[3] > 0.0).count();
    client.expect_that("it prints no figures", |said| figures(said) >= 2);
    for side in [client, server] {
        side.signal(libc::SIGINT);
        let ended = side.wait(LIMIT);
        assert!(ended.status.is_some(), "after Ctrl-C: {ended}");
    }
    net.expect_gone();
}

#[test]
fn run_infinitely_until_ctrl_c() {
    run_infinitely("ib_write_bw", ["verbena0", "verbena1"]);
    run_infinitely("ib_send_bw", ["verbena0", "verbena0"]);
}

/// Inline is refused in words unless a known part id is presented; presenting one is announced.
#[test]
fn inline_needs_a_known_part_id() {
    let net = StockNet::alone();
    let arguments = ["-F", "-I", "64", "-s", "64", "-n", "20"];
    let mut pair = Pair::new(&net, "ib_write_lat", &arguments);
    pair.launcher = &["--part-id", "4119"];
    let both = pair.good();
    assert!(both.client.said.contains("Max inline data : 64[B]"), "{}", both.report());
    assert!(
        both.client.said.contains("part id 4119"),
        "the presented id is not announced: {}",
        both.report()
    );
}
