//! The example with a TCP/IP stack on each core, and programs of the kernel's side that know nothing of a card.

use super::*;
use tests::stock::{example, long_enough, repository, status};

const SERVER: &str = "198.18.0.102";

/// A host at one card, and the server at the other.
struct Served {
    server: Program,
    host: Host,
    net: StockNet,
    _alone: std::sync::MutexGuard<'static, ()>,
}

impl Served {
    /// With options for the interface.
    fn new(options: &[&str]) -> Served {
        let alone = alone();
        let net = StockNet::new();
        let host = Host::new();
        host.up(&net, "verbena0/1", &[&["--name", "vb0"], options].concat());
        let serve = ["serve", "--device", "verbena1", "--address", SERVER, "--cores", "2"];
        let mut server = net.start(example("http-per-core"), &serve);
        server.expect("http://198.18.0.102/", LIMIT);
        host.pings(SERVER, &[]);
        Served { server, host, net, _alone: alone }
    }

    /// A connection for each: both cores get some of twenty.
    fn both_cores_answer(&self) {
        let url = "http://198.18.0.102/[1-20]";
        let said = self.host.run(&["curl", "-sS", "--max-time", "30", "-H", "Connection: close", url]);
        let answers = |core: &str| said.lines().filter(|line| *line == core).count();
        let cores = [answers("core 0"), answers("core 1")];
        assert!(cores[0] + cores[1] == 20 && cores.iter().all(|&answers| answers > 0), "{said}");
    }

    /// Runs one of `http_clients.py`.
    fn client(&self, what: &str) {
        let script = repository().join("tests/python/http_clients.py");
        self.host.run(&["python3", script.to_str().expect("UTF-8"), what, SERVER]);
    }

    /// Memory of its own that the server has, in KiB.
    fn memory(&self) -> u64 {
        status(format!("/proc/{}", self.server.pid()), "RssAnon").expect("a number of KiB")
    }

    fn end(mut self) {
        assert!(!self.server.has_ended(), "{}", self.server.said());
        drop(self.server);
        self.net.does(&["netdev", "down", "verbena0/1"]);
    }
}

#[test]
fn curl_and_wrk_reach_a_stack_on_each_core() {
    need("curl");
    need("wrk");
    let served = Served::new(&[]);
    served.both_cores_answer();
    let wrk =
        |seconds| served.host.run(&["wrk", "-t", "1", "-c", "8", "-d", seconds, "http://198.18.0.102/"]);
    let said = long_enough(wrk, |said| said.contains(" 0 requests in"));
    assert!(
        said.contains("requests in") && !said.contains("Non-2xx") && !said.contains(" 0 requests in"),
        "{said}"
    );
    assert!(!said.contains("Socket errors"), "{said}");
    served.end();
}

/// It takes no more of a client than it can answer, and keeps nothing of one that was answered for the last time.
#[test]
fn no_client_can_fill_the_servers_memory() {
    let served = Served::new(&[]);
    for what in ["deaf", "talkative"] {
        let before = served.memory();
        served.client(what);
        let more = served.memory().saturating_sub(before);
        assert!(more < 2048, "{what}: the server has {more} KiB more than before");
    }
    served.end();
}

/// A client that sends no more still gets all its answers.
#[test]
fn every_request_is_answered() {
    let served = Served::new(&[]);
    served.client("hasty");
    served.end();
}

/// Frames longer than the stack's own are nothing to it, and harm no core.
#[test]
fn jumbo_frames_pass_by() {
    let served = Served::new(&["--mtu", "9000"]);
    for bytes in ["3000", "8972"] {
        let ping = ["ping", "-c", "3", "-i", "0.1", "-W", "1", "-M", "do", "-s", bytes, SERVER];
        let ended = Program::start(served.host.command(&ping)).wait(LIMIT);
        assert!(ended.said.contains("3 packets transmitted, 0 received"), "{ended}");
        served.both_cores_answer();
    }
    served.end();
}
