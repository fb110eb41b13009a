//! The lines of `docs/two-machines.md`, on two machines: network namespaces that share nothing but a veth pair, each with its
//! own net and keeper.

#[path = "two_machines/machines.rs"]
mod machines;

use std::time::Duration;

use machines::{Machine, Two};
use model::attach::listeners;
use tests::stock::{need, Program};

/// For one line, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// perftest's and the pingpongs' port for their exchange by TCP.
const TCP: u16 = 18515;

/// A line of the page, and what it prints.
struct Line {
    /// Of the machine.
    name: &'static str,
    command: String,
    prints: Vec<String>,
}

/// The lines of each block of the page.
fn blocks() -> Vec<Vec<Line>> {
    let page = include_str!("../../docs/two-machines.md");
    let console = |fenced: &&str| fenced.starts_with("console\n");
    let blocks = page.split("```").skip(1).step_by(2).filter(console).map(|fenced| {
        let mut lines: Vec<Line> = Vec::new();
        for line in fenced.lines().skip(1) {
            let found = ["one", "two"].into_iter().find_map(|name| {
                let command = line.strip_prefix(name)?.strip_prefix("$ ")?;
                Some(Line { name, command: command.to_owned(), prints: Vec::new() })
            });
            match (found, lines.last_mut()) {
                (Some(found), _) => lines.push(found),
                (None, Some(last)) if last.command.ends_with('\\') => {
                    last.command.pop();
                    last.command += line.trim_start();
                }
                (None, Some(last)) => last.prints.push(line.to_owned()),
                (None, None) => panic!("`{line}` is of no machine"),
            }
        }
        lines
    });
    blocks.collect()
}

/// Waits until a server takes clients.
fn wait_until_ready(machine: &Machine, server: &mut Program, command: &str) {
    if ["-R", "rping"].iter().any(|word| command.contains(word)) {
        let listens = || listeners(&machine.socket()).is_ok_and(|ports| !ports.is_empty());
        server.expect_that("it does not listen", |_| listens());
    } else if command.contains("sleep") {
        server.expect_that("no net", |_| machine.socket().exists());
    } else {
        server.expect_listening(TCP);
    }
}

/// What perftest says with `-R` when its client was faster than its server: it connects twice, and the server does not listen
/// in between (perftest issue 93).
const TOO_EARLY: &str = "RDMA_CM_EVENT_REJECTED";
/// What perftest, the pingpongs and UCX, and rping say when an end did not run for half a second (IBV_WC_RETRY_EXC_ERR).
const BUSY: [&str; 3] =
    ["Failed status 12", "transport retry counter exceeded", "cq completion failed status 12"];

/// Runs a block: one line by itself, or a server and its client.
fn run(two: &Two, block: &[Line]) {
    let command = &block.last().expect("a line").command;
    let tries = if command.contains(" -R") { 20 } else { 3 };
    let mut last = String::new();
    for _ in 0..tries {
        match attempt(two, block) {
            Ok(()) => return,
            Err(how) => last = how,
        }
    }
    panic!("`{command}` failed {tries} times, at last: {last}");
}

/// The error is what was said where the client may have been faster than its server, or the machine too busy.
fn attempt(two: &Two, block: &[Line]) -> Result<(), String> {
    let mut server = match block {
        [server, _] => {
            let machine = two.machine(server.name);
            let mut program = Program::start(machine.command(&server.command));
            wait_until_ready(machine, &mut program, &server.command);
            Some(program)
        }
        _ => None,
    };
    let line = block.last().expect("a line");
    let ended = Program::start(two.machine(line.name).command(&line.command)).wait(LIMIT);
    let other = || server.as_ref().map(Program::said).unwrap_or_default();
    let early = line.command.contains(" -R") && ended.said.contains(TOO_EARLY);
    if early || BUSY.iter().any(|text| ended.said.contains(text) || other().contains(text)) {
        let how = format!("{ended}\nthe other:\n{}", other());
        drop(server);
        two.expect_gone();
        return Err(how);
    }
    assert!(ended.good(), "{ended}\nthe other:\n{}", other());
    for text in line.prints.iter().filter(|text| *text != "...") {
        assert!(ended.said.lines().any(|said| said == text), "no `{text}`: {ended}");
    }
    // One that only keeps the net up is ended with it.
    if let Some(server) = server.take().filter(|server| !server.line().contains("sleep 600")) {
        server.wait(LIMIT).expect_good();
    }
    two.expect_gone();
    Ok(())
}

/// Runs the blocks of the page that have this word and none of those.
fn run_those(with: &str, without: &[&str]) {
    let two = Two::new();
    let has = |block: &[Line], word: &str| block.iter().any(|line| line.command.contains(word));
    let mut count = 0;
    for block in blocks() {
        if has(&block, with) && !without.iter().any(|word| has(&block, word)) {
            run(&two, &block);
            count += 1;
        }
    }
    assert!(count > 0, "the page has no line with `{with}`");
}

#[test]
fn perftest_on_two_machines() {
    need("ib_write_bw");
    run_those(" ib_", &[" -R"]);
}

#[test]
fn pingpongs_on_two_machines() {
    need("ibv_rc_pingpong");
    run_those("pingpong", &[]);
}

#[test]
fn connections_on_two_machines() {
    need("rping");
    run_those("rping", &[]);
    run_those(" -R", &[]);
}

#[test]
fn mpi_on_two_machines() {
    need("mpirun");
    run_those("mpirun", &[]);
}

#[test]
fn the_doctor_looks_at_two_machines() {
    run_those("doctor", &[]);
    let two = Two::new();
    let says = |command: &str, texts: &[&str]| {
        let ended = Program::start(two.machine("one").command(command)).wait(LIMIT);
        for text in texts {
            assert!(ended.said.contains(text), "`{command}`: no `{text}`:\n{}", ended.said);
        }
        ended.status.and_then(|status| status.code())
    };
    let doctor = "verbena doctor --port verbena0/1=udp:192.0.2.1 --peer 192.0.2.2";
    let nobody = "FAIL  udp peer         192.0.2.2 says that nobody has its UDP port 4791";
    assert_eq!(says(doctor, &[nobody, "ufw allow 4791/udp"]), Some(1));
    let texts = ["FAIL  udp address      192.0.2.2 is no address of this machine", "behind NAT"];
    assert_eq!(says("verbena doctor --port verbena0/1=udp:192.0.2.2 --peer 192.0.2.1", &texts), Some(1));
    let texts = ["FAIL  udp peer         no way from 192.0.2.1 to 198.51.100.7"];
    assert_eq!(says("verbena doctor --port verbena0/1=udp:192.0.2.1 --peer 198.51.100.7", &texts), Some(1));
    let texts = ["FAIL  udp peer         192.0.2.9 is not there"];
    assert_eq!(says("verbena doctor --port verbena0/1=udp:192.0.2.1 --peer 192.0.2.9", &texts), Some(1));
    let texts = ["are of different IP versions"];
    assert_eq!(says("verbena doctor --port verbena0/1=udp:192.0.2.1 --peer 2001:db8::2", &texts), Some(1));
    // Another one's socket.
    let taken = "python3 -c 'import socket; a = socket.socket(type=socket.SOCK_DGRAM); a.bind((\"192.0.2.1\", 4791)); \
                 print(\"bound\", flush=True); import time; time.sleep(600)'";
    let mut other = Program::start(two.machine("one").command(taken));
    other.expect("bound", LIMIT);
    says(doctor, &["WARN  udp address      192.0.2.1: UDP port 4791 is in use", "192.0.2.2 is not asked"]);
    drop(other);
    // A way with less room than the interface, and an interface with little.
    says("ip route add 192.0.2.2/32 dev eth0 mtu 700", &[]);
    says(
        doctor,
        &["WARN  udp peer         the way to 192.0.2.2 has MTU 700", "-> --mtu 512 on both machines"],
    );
    let texts = ["OK    udp MTU          eth0 has MTU 1300: packets of the path MTU 1024"];
    says("ip link set eth0 mtu 1300 && verbena doctor --port verbena0/1=udp:192.0.2.1", &texts);
    let texts = ["WARN  udp MTU          eth0 has MTU 1000: packets of the path MTU 512", "-m 512"];
    says("ip link set eth0 mtu 1000 && verbena doctor --port verbena0/1=udp:192.0.2.1", &texts);
}

/// Programs that ask for nothing work with the MTU that there is.
#[test]
fn the_path_mtu_is_what_the_interfaces_have_room_for() {
    need("ibv_devinfo");
    let two = Two::new();
    for (bytes, expected) in [(1000, 512), (1500, 1024), (9000, 4096)] {
        let [one, other] = ["one", "two"].map(|name| two.machine(name));
        let line = format!("ip link set eth0 mtu {bytes}");
        for machine in [one, other] {
            Program::start(machine.command(&line)).wait(LIMIT).expect_good();
        }
        let line = "verbena run --port verbena0/1=udp:192.0.2.1 -- ibv_devinfo -d verbena0 -i 1";
        let ended = Program::start(one.command(line)).wait(LIMIT);
        let mtu = format!("active_mtu:\t\t{expected} ");
        assert!(ended.said.contains(&mtu), "MTU {bytes}: no `{mtu}`:\n{}", ended.said);
        let lines = [
            ("one", "verbena run --port verbena0/1=udp:192.0.2.1 -- ib_write_bw -d verbena0 -x 0 -n 200"),
            ("two", "verbena run --port verbena0/1=udp:192.0.2.2 -- ib_write_bw -d verbena0 -x 0 -n 200 192.0.2.1"),
        ];
        let block =
            lines.map(|(name, command)| Line { name, command: command.to_owned(), prints: Vec::new() });
        run(&two, &block);
    }
}
