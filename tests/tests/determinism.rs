//! The same command gives the same bytes: what both sides of perftest print, every frame on the wire to the
//! nanosecond, the trace to the picosecond, and the simulated time at the end. However busy the machine is.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::attach::simulated_time;
use model::segment::Segment;
use tests::stock::{free_port, need, wrapped, Both, Program, StockNet};

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(240);

/// A busy machine is one of the circumstances, and is ours to make.
static ALONE: Mutex<()> = Mutex::new(());

/// All of perftest.
const PROGRAMS: [&str; 8] = [
    "ib_write_bw",
    "ib_write_lat",
    "ib_read_bw",
    "ib_read_lat",
    "ib_send_bw",
    "ib_send_lat",
    "ib_atomic_bw",
    "ib_atomic_lat",
];

/// What a run happens on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Machine {
    /// As it is.
    Idle,
    /// Other programs want every core.
    Loaded,
    /// Both sides have one core.
    OneCore,
    /// The same, and another program wants it too.
    OneCoreLoaded,
}

use Machine::*;

/// All that must not change.
#[derive(PartialEq)]
struct Result {
    server: String,
    client: String,
    capture: Vec<u8>,
    trace: Vec<u8>,
    time: u64,
}

/// Programs that only use the processor, until dropped.
struct Load(Vec<Child>);

impl Load {
    fn new(machine: Machine) -> Load {
        let count = match machine {
            Idle | OneCore => 0,
            Loaded => std::thread::available_parallelism().map_or(2, usize::from),
            OneCoreLoaded => 1,
        };
        let busy = || {
            let mut command = Command::new("taskset");
            command.args(if machine == Loaded { ["-c", "0-1023"] } else { ["-c", "0"] });
            // Ends by itself, should this test be killed.
            command.args(["sh", "-c", "ulimit -t 100; while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("taskset and sh are there")
        };
        Load((0..count).map(|_| busy()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One process, which cannot miss that: taskset and sh become the loop.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn side(net: &StockNet, launcher: &[&str], machine: Machine, words: &[&str]) -> Program {
    let command = net.command(launcher, words[0], &words[1..]);
    if matches!(machine, Idle | Loaded) {
        return Program::start(command);
    }
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0"]);
    Program::start(wrapped(pinned, &command))
}

fn run(machine: Machine, launcher: &[&str], program: &str, arguments: &[&str]) -> Result {
    need(program);
    let _load = Load::new(machine);
    let directory = tempfile::tempdir().expect("a directory");
    let pcap = directory.path().join("net.pcap");
    let trace = directory.path().join("net.trace");
    let mut options = vec!["--clock", "virtual"];
    options.extend(["--pcap", pcap.to_str().expect("UTF-8"), "--trace", trace.to_str().expect("UTF-8")]);
    options.extend(launcher);
    let net = StockNet::new();
    let port = free_port();
    let number = port.to_string();
    let words = |device: &'static str| [&[program, "-d", device, "-p", number.as_str()], arguments].concat();
    let mut server = side(&net, &options, machine, &words("verbena0"));
    server.expect_listening(port);
    let hold = Segment::hold(&net.socket()).expect("the net runs");
    let client = side(&net, &options, machine, &[words("verbena1").as_slice(), &["localhost"]].concat());
    let both = Both::of([client, server], LIMIT).unwrap_or_else(|error| panic!("on {machine:?}: {error}"));
    let time = simulated_time(&net.socket()).expect("the net still runs").expect("in simulated time");
    net.expect_gone_after(hold);
    let read = |file| fs::read(file).expect("the recorded file");
    Result {
        server: both.server.said,
        client: both.client.said,
        capture: read(&pcap),
        trace: read(&trace),
        time,
    }
}

/// Where two results differ first.
fn difference(a: &Result, b: &Result) -> String {
    for (side, a, b) in [("server", &a.server, &b.server), ("client", &a.client, &b.client)] {
        if let Some((a, b)) = a.lines().zip(b.lines()).find(|(a, b)| a != b) {
            return format!("the {side} said\n  {a}\nand then\n  {b}");
        }
    }
    for (what, a, b) in [("captures", &a.capture, &b.capture), ("traces", &a.trace, &b.trace)] {
        if a != b {
            let at = a.iter().zip(b).position(|(a, b)| a != b);
            return format!("the {what} ({} and {} bytes) differ from byte {at:?} on", a.len(), b.len());
        }
    }
    format!("the simulated time was {} ps and then {} ps", a.time, b.time)
}

/// Runs the same on each machine; all have to give what the first does.
fn same_on(machines: &[Machine], launcher: &[&str], program: &str, arguments: &[&str]) -> Vec<String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let line = [launcher, &[program], arguments].concat().join(" ");
    let first = run(machines[0], launcher, program, arguments);
    let did_much = first.capture.len() > 10_000 && first.trace.len() > 10_000 && first.time > 1_000_000;
    assert!(did_much, "{program} did not do much");
    let differs = |(n, &machine): (usize, &Machine)| {
        let result = run(machine, launcher, program, arguments);
        let what = || format!("{line}: run {n}, {machine:?}, is not as {:?}: ", machines[0]);
        (result != first).then(|| what() + &difference(&first, &result))
    };
    machines.iter().enumerate().skip(1).filter_map(differs).collect()
}

fn expect_same(failures: Vec<String>) {
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_test_gives_the_same() {
    let runs = PROGRAMS.map(|program| same_on(&[Idle, Idle], &[], program, &["-n", "100"]));
    expect_same(runs.concat());
}

#[test]
fn each_kind_of_machine() {
    let machines = [Idle, Loaded, OneCore, OneCoreLoaded];
    let mut failures = same_on(&machines, &[], "ib_read_bw", &["-n", "100", "-s", "3000"]);
    failures.extend(same_on(&machines, &[], "ib_atomic_lat", &["-n", "100"]));
    expect_same(failures);
}

#[test]
fn losses_are_those_of_the_seed() {
    let faults = "--fault=loss=0.01,dup=0.01,reorder=0.01,corrupt=0.01,seed=11";
    let of = |seed: &str| {
        let faults = faults.replace("seed=11", &format!("seed={seed}"));
        run(Idle, &[&faults], "ib_write_bw", &["-n", "100", "-s", "20000"])
    };
    let machines = [Idle, Loaded, OneCore];
    let mut failures = same_on(&machines, &[faults], "ib_write_bw", &["-n", "100", "-s", "20000"]);
    failures.extend(same_on(&machines[..2], &[faults], "ib_send_bw", &["-n", "100", "-s", "333", "-b"]));
    expect_same(failures);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(of("11") != of("12"), "the seed does not matter");
}

/// Runs each test of perftest `tens` times ten times with the options, on machines that change.
fn tens_of_every_test(tens: usize, launcher: &[&str]) -> Vec<String> {
    let machines =
        [Idle, Loaded, OneCore, Loaded, Idle, OneCoreLoaded, OneCore, Idle, Loaded, Idle].repeat(tens);
    PROGRAMS.iter().flat_map(|program| same_on(&machines, launcher, program, &["-n", "300"])).collect()
}

/// All of it, ten times each: three minutes. Part of `tests/check --guest`.
#[test]
#[ignore = "the long form of the checks"]
fn ten_runs_of_every_test() {
    let mut failures = tens_of_every_test(1, &[]);
    failures.extend(tens_of_every_test(1, &["--fault=loss=0.01,dup=0.01,reorder=0.01,corrupt=0.01,seed=3"]));
    expect_same(failures);
}

#[test]
#[ignore = "takes half an hour"]
fn two_hundred_runs_of_every_test() {
    expect_same(tens_of_every_test(20, &[]));
}
