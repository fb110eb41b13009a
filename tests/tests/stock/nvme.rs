//! The NVMe over Fabrics target of the examples, and initiators that know nothing of it: `nvmeof`, a Python package that
//! is not ours, and a small C program for what that package does not do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tests::place_for;
use tests::stock::{compile, example, fetched, repository, status, Ended, Program, StockNet, LIMIT};

/// An address of card 0, where the target listens; hosts use card 1.
const ADDRESS: &str = "198.18.0.1";
const NQN: &str = "nqn.2014-08.org.example:test";

/// The Python that has the package, installed first if it is not.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| fetched("nvmeof/setup"))
}

fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| example("nvme-target"))
}

/// A net, and a target on its card 0.
struct Served {
    target: Program,
    net: StockNet,
    launcher: &'static [&'static str],
}

impl Served {
    fn new(options: &[&str]) -> Served {
        Served::with(&[], options)
    }

    /// With options for `verbena run` too.
    fn with(launcher: &'static [&'static str], options: &[&str]) -> Served {
        let net = StockNet::alone();
        let command = net.command(launcher, target(), &[&["--nqn", NQN], options].concat());
        let mut target = Program::start(command);
        target.expect(" blocks, at ", LIMIT);
        Served { target, net, launcher }
    }

    fn start(&self, what: &str, more: &[&str]) -> Program {
        let script = repository().join("tests/python/nvme.py");
        let arguments = [&[script.to_str().expect("UTF-8"), what, ADDRESS, NQN], more].concat();
        Program::start(self.net.command(self.launcher, python(), &arguments))
    }

    /// A host does its work, and the target still runs.
    fn run(&mut self, what: &str, more: &[&str]) {
        let ended = self.start(what, more).wait(LIMIT);
        self.good(what, &ended);
    }

    fn good(&mut self, what: &str, ended: &Ended) {
        let target = self.target.said();
        assert!(ended.good(), "{ended}\nthe target:\n{target}");
        assert!(!self.target.has_ended(), "{what}: the target has ended:\n{target}");
    }
}

#[test]
fn a_file_has_what_was_written() {
    let (_directory, disk) = place_for("disk");
    std::fs::File::create(&disk).and_then(|file| file.set_len(24 << 20)).expect("a file");
    let disk = disk.to_str().expect("UTF-8");
    let mut served = Served::new(&["--file", disk]);
    served.run("copy", &[disk]);
    served.target.expect("controller 1 is gone: disconnected", LIMIT);
}

#[test]
fn several_controllers_and_queues() {
    Served::new(&[]).run("queues", &[]);
    Served::with(&["--wire", "exact", "--fault", "loss=0.01,seed=3"], &[]).run("queues", &[]);
}

#[test]
fn a_killed_host_comes_back() {
    let mut served = Served::new(&["--memory", "8"]);
    for round in 1..=3 {
        let mut host = served.start("endless", &[]);
        host.expect("going", LIMIT);
        host.signal(9);
        let gone = "controller 1 is gone";
        served.target.expect_that("it does not notice", |said| said.matches(gone).count() >= round);
    }
    // Its controller has the first number again: nothing of the others is left.
    served.run("queues", &[]);
    let said = served.target.said();
    assert_eq!(said.matches("controller 1: connected").count(), 4, "{said}");
    assert_eq!(said.matches("controller 2: connected").count(), 1, "{said}");
}

/// The host's commands fail or are not answered any more, and the address is free for the next target.
#[test]
fn a_killed_target_comes_back() {
    let mut served = Served::new(&["--memory", "8"]);
    let mut host = served.start("endless", &[]);
    host.expect("going", LIMIT);
    served.target.signal(9);
    let ended = host.wait(LIMIT);
    // Flushed: the connection manager has told the host before its request went unanswered.
    let failures =
        ["transport retry counter exceeded", "timed out", "no answer", "Work Request Flushed Error"];
    assert!(failures.iter().any(|why| ended.said.contains(why)), "{ended}");
    served.target = served.net.start(target(), &["--nqn", NQN]);
    served.target.expect(" blocks, at ", LIMIT);
    served.run("queues", &[]);
}

#[test]
fn what_is_wrong_gets_its_status() {
    let mut served = Served::new(&["--memory", "8"]);
    served.run("statuses", &[]);
    served.run("manager", &[]);
    for line in [
        "there is no queue of this number",
        "another format",
        "2 to 128 entries",
        "no room for answers",
        "queue 1 is gone: remote access error",
        "queue 1 is gone: a capsule of 63 bytes",
        "queue 1 is gone: local length error",
    ] {
        served.target.expect(line, LIMIT);
    }
    // After all of that it serves.
    served.run("queues", &[]);
}

/// The READs of both are answered late, so that both are on their way.
#[test]
fn a_queue_is_connected_once() {
    Served::with(&["--fault", "delay read-response by=20ms"], &["--memory", "8"]).run("connects", &[]);
}

#[test]
fn a_host_that_says_nothing_is_disconnected() {
    let mut served = Served::new(&["--memory", "8"]);
    served.run("mute", &[]);
    served.target.expect("a connection ends before Connect: no Connect in time", LIMIT);
}

/// Its address space has room for the memory of one more connection, and for no stack.
#[test]
fn a_target_without_threads_goes_on() {
    let mut served = Served::new(&["--memory", "8"]);
    let mut host = served.start("endless", &[]);
    host.expect("going", LIMIT);
    let pid = served.target.pid().to_string();
    let size = status(format!("/proc/{pid}"), "VmSize").expect("a number of KiB");
    let limit = |bytes: &str| {
        let output = Command::new("prlimit").args(["--pid", &pid, &format!("--as={bytes}:")]).output();
        assert!(output.is_ok_and(|output| output.status.success()), "prlimit");
    };
    limit(&((size + 5 * 1024) << 10).to_string());
    let ended = served.start("discovery", &[]).wait(LIMIT);
    assert!(!ended.good(), "{ended}");
    served.target.expect("a connection gets no thread", LIMIT);
    limit("unlimited");
    assert!(!host.has_ended(), "{}", host.said());
    served.run("discovery", &[]);
}

#[test]
fn discovery_and_keep_alive() {
    let mut served = Served::new(&["--memory", "8"]);
    served.run("discovery", &[]);
    served.run("silence", &[]);
    served.target.expect("is gone: no Keep Alive in time", LIMIT);
}

/// A C program on stock librdmacm: keys that the completion takes back, data in the capsule.
#[test]
fn keys_come_back_with_completions() {
    let (_directory, program) = place_for("nvme_host");
    let options = ["-O2", "-Wl,--no-as-needed", "-lrdmacm"];
    compile("cc", &options, &repository().join("tests/c/nvme_host.c"), &program);
    let mut served = Served::new(&["--memory", "8"]);
    let ended = served.net.start(&program, &[ADDRESS, NQN]).wait(LIMIT);
    served.good("nvme_host", &ended);
    for line in ["in the capsule: good", "the key came back", "cannot be used again"] {
        assert!(ended.said.contains(line), "no `{line}`:\n{}", ended.said);
    }
}

#[test]
fn it_says_what_is_wrong() {
    let net = StockNet::alone();
    let (_directory, odd) = place_for("odd");
    std::fs::write(&odd, [0; 700]).expect("a file");
    for (options, expected) in [
        (["--listen", "198.18.7.7:4420"], "is that an address of a card?"),
        (["--file", odd.to_str().expect("UTF-8")], "700 bytes are no number of blocks"),
        (["--file", "/nowhere"], "No such file"),
        (["--memory", "0"], "no number of blocks"),
    ] {
        let ended = net.start(target(), &options).wait(LIMIT);
        assert_eq!(ended.status.and_then(|status| status.code()), Some(1), "{ended}");
        assert!(ended.said.contains(expected), "{ended}");
    }
}
