//! The HTTP server of the examples, with a TCP/IP stack on each core: what it is asked, and what it says to mistakes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tests::stock::{alone, example, long_enough, number_before, Ended, Program, StockNet, LIMIT};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| example("http-per-core"))
}

/// A core had no answer within the time of the run.
fn silent(ended: &Ended) -> bool {
    ended.said.contains(", 0 answers")
}

#[test]
fn each_core_of_the_client_gets_the_answers_to_its_questions() {
    let net = StockNet::new();
    let serve = ["serve", "--device", "verbena1", "--address", "198.18.0.102", "--cores", "2"];
    let mut server = net.start(program(), &serve);
    server.expect("http://198.18.0.102/ on verbena1/1, 2 cores", LIMIT);
    let load = ["load", "--device", "verbena0", "--address", "198.18.0.101", "--to", "198.18.0.102"];
    let options = ["--cores", "2", "--connections", "12", "--seconds"];
    let run = |seconds| net.start(program(), &[&load[..], &options, &[seconds]].concat()).wait(LIMIT);
    let both =
        |said: &str| [" from core 0", " from core 1"].iter().all(|from| said.matches(from).count() == 2);
    let ended = long_enough(run, |ended| silent(ended) || ended.good() && !both(&ended.said));
    assert!(ended.good() && !server.has_ended(), "{ended}\nthe server: {}", server.said());
    let said = ended.said;
    // A frame for the other core would be for a port that has no socket there, whose answer resets the connection.
    for core in 0..2 {
        let begin = format!("core {core}: 12 connections, ");
        let line = said.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{said}"));
        let of_each = [" from core 0", " from core 1"].map(|from| number_before(line, from));
        assert_eq!(number_before(line, " answers"), of_each[0] + of_each[1], "{line}");
        assert!(
            of_each.iter().all(|&answers| answers > 0.0),
            "12 connections, all to one core of the server: {line}"
        );
    }
}

#[test]
fn both_directions_of_a_connection_stay_on_a_core() {
    let net = StockNet::new();
    let words = |seconds| ["scale", "--connections", "4", "--seconds", seconds];
    let said =
        long_enough(|seconds| net.start(program(), &words(seconds)).wait(2 * LIMIT), silent).expect_good();
    for line in ["core 0: 4 connections", "core 1: 4 connections", "2 cores: "] {
        assert!(said.contains(line), "{said}");
    }
    let cores: Vec<_> = said.lines().filter(|line| line.starts_with("core ")).collect();
    for line in cores {
        let own = format!(" from {}", &line[..6]);
        let [all, own] = [" answers", &own].map(|words| number_before(line, words));
        assert_eq!(all, own, "{line}");
    }
}

/// Clients of a server that has no more sockets than one of them needs.
struct Clients {
    _server: Program,
    _holder: Program,
    // After its programs.
    net: StockNet,
}

impl Clients {
    fn new() -> Clients {
        let (net, holder) = StockNet::held(&["--cards", "3"]);
        let serve = ["serve", "--device", "verbena1", "--address", "198.18.0.102", "--connections", "32"];
        let mut server = net.start(program(), &serve);
        server.expect("http://198.18.0.102/", LIMIT);
        Clients { net, _holder: holder, _server: server }
    }

    /// One that is alone.
    fn first(&self, seconds: &str) -> Program {
        self.start("verbena0", "198.18.0.101", "32", seconds)
    }

    /// Whether another one gets answers.
    fn another_is_answered(&self) -> bool {
        let run = |seconds| self.start("verbena2", "198.18.0.103", "1", seconds).wait(LIMIT);
        let ended = long_enough(run, silent);
        assert!(ended.good() || ended.said.contains("or refused it"), "{ended}");
        ended.good()
    }

    fn start(&self, device: &str, address: &str, connections: &str, seconds: &str) -> Program {
        let load = ["load", "--to", "198.18.0.102", "--device", device, "--address", address];
        let options = ["--connections", connections, "--seconds", seconds];
        self.net.start(program(), &[&load[..], &options].concat())
    }
}

#[test]
fn sockets_of_a_client_that_ends_are_free_at_once() {
    let clients = Clients::new();
    for _ in 0..2 {
        long_enough(|seconds| clients.first(seconds).wait(LIMIT), silent).expect_good();
    }
    assert!(clients.another_is_answered());
}

/// It cannot say that it has gone, but leaves the server's questions unanswered.
#[test]
fn sockets_of_a_killed_client_become_free() {
    let _alone = alone();
    let clients = Clients::new();
    let mut first = clients.first("600");
    let begin = Instant::now();
    while clients.another_is_answered() {
        assert!(begin.elapsed() < LIMIT, "another client is answered:\n{}", first.said());
        // Where the other one was faster, the first was refused.
        if first.has_ended() {
            first = clients.first("600");
        }
    }
    first.signal(9);
    let begin = Instant::now();
    while !clients.another_is_answered() {
        assert!(begin.elapsed() < 2 * LIMIT, "another client is refused");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn mistakes_are_told() {
    let net = StockNet::new();
    let to = ["load", "--address", "198.18.0.101", "--to", "198.18.0.102", "--device"];
    for (device, message) in
        [("verbena0/3", "they are called verbena0, verbena0/2"), ("verbena7", "verbena7 is not in view")]
    {
        net.start(program(), &[&to[..], &[device]].concat()).wait(LIMIT).expect_refusal(message);
    }
    // Nobody serves: told after ten seconds, not never.
    let more = ["verbena0", "--seconds", "30"];
    let ended = net.start(program(), &[&to[..], &more[..]].concat()).wait(LIMIT);
    ended.expect_refusal("no answer from 198.18.0.102");
}
