//! Stock librdmacm: what `verbena matrix` (stock/programs.rs) does not try with the programs that connect by address.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use fpga_regs::regs::port;
use tests::pcap::records;
use tests::place_for;
use tests::stock::{alone, compile_c, need, Ended, Program, StockNet, LIMIT};

/// The address of card 0.
const SERVER: &str = "198.18.0.1";

/// Lines of a server and its client.
struct Case<'a> {
    net: &'a StockNet,
    launcher: &'a [&'a str],
    server: &'a [&'a str],
    client: &'a [&'a str],
}

impl Case<'_> {
    fn start(&self, line: &[&str]) -> Program {
        need(line[0]);
        Program::start(self.net.command(self.launcher, line[0], &line[1..]))
    }

    /// A client, once the server listens: before, it is refused.
    fn connected(&self) -> (Program, Ended) {
        let mut server = self.start(self.server);
        let begin = Instant::now();
        loop {
            let client = self.start(self.client).wait(LIMIT);
            let refused = !client.good() && !crashed(&client) && begin.elapsed() < LIMIT;
            if !refused || server.has_ended() {
                return (server, client);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Both end well.
    fn run(&self) -> [String; 2] {
        let (server, client) = self.connected();
        self.ended(server, client)
    }

    /// The server ends well, too, as the client has.
    fn ended(&self, server: Program, client: Ended) -> [String; 2] {
        let server = server.wait(LIMIT);
        assert!(client.good(), "{client}\nserver:\n{}", server.said);
        [server.expect_good(), client.said]
    }
}

/// A signal ended it.
fn crashed(ended: &Ended) -> bool {
    ended.status.is_some_and(|status| status.signal().is_some())
}

/// Runs a pair on a net of its own.
fn pair(server: &[&str], client: &[&str]) -> [String; 2] {
    let net = StockNet::alone();
    let said = Case { net: &net, launcher: &[], server, client }.run();
    net.expect_gone();
    said
}

/// MAD class, version and attribute, at their bytes of a frame.
fn management(frame: &[u8]) -> Option<u16> {
    const MAD: usize = 14 + 20 + 8 + 12 + 8;
    let mad = frame.get(MAD..MAD + 256)?;
    (mad[..4] == [1, 7, 2, 3]).then(|| u16::from_be_bytes([mad[16], mad[17]]))
}

#[test]
fn rping_connects_and_the_capture_shows_how() {
    let _alone = alone();
    for wire in ["fast", "exact"] {
        let net = StockNet::new();
        let (_directory, path) = place_for("frames.pcap");
        let launcher = ["--wire", wire, "--pcap", path.to_str().unwrap()];
        let server = ["rping", "-s", "-a", SERVER, "-v", "-C", "3"];
        let client = ["rping", "-c", "-a", SERVER, "-v", "-C", "3"];
        let [_, client] = Case { net: &net, launcher: &launcher, server: &server, client: &client }.run();
        assert!(client.contains("rdma-ping-2: CDEF"), "{client}");
        net.expect_gone();
        let frames = records(&path, 65_535);
        assert!(frames.is_sorted_by_key(|frame| frame.time));
        let found: Vec<u16> = frames.iter().filter_map(|frame| management(&frame.kept)).collect();
        // A client that came too early was refused; then REQ, REP, RTU, DREQ, DREP.
        assert!(found.ends_with(&[0x10, 0x13, 0x14, 0x15, 0x16]), "{found:x?}");
        let sizes = frames.iter().filter(|frame| management(&frame.kept).is_some());
        assert!(sizes.into_iter().all(|frame| frame.len == 322));
    }
}

/// The manager's datagrams are packets as others are: the ports count them where they leave and arrive.
#[test]
fn ports_count_the_datagrams_of_connections() {
    let _alone = alone();
    for options in [["--wire", "fast"], ["--wire", "exact"], ["--clock", "virtual"]] {
        let (_directory, path) = place_for("frames.pcap");
        let recorded = ["--pcap", path.to_str().unwrap()];
        let (net, holder) = StockNet::held(&[options, recorded].concat());
        let server = ["rping", "-s", "-a", SERVER, "-v", "-C", "3"];
        let client = ["rping", "-c", "-a", SERVER, "-v", "-C", "3"];
        Case { net: &net, launcher: &[], server: &server, client: &client }.run();
        let registers = [port::TX_PACKETS, port::TX_BYTES, port::RX_PACKETS, port::RX_BYTES];
        let counters = [0, 1].map(|card| registers.map(|register| net.register(card, 0, register)));
        net.expect_gone_after(holder);
        let frames = records(&path, 65_535);
        assert!(frames.iter().filter(|frame| management(&frame.kept).is_some()).count() >= 5, "{options:?}");
        // The card's number in the MAC addresses.
        let passed = |mac: usize, card: u8| {
            let passed = frames.iter().filter(|frame| frame.kept[mac + 4] == card);
            passed.fold([0, 0], |[packets, bytes], frame| [packets + 1, bytes + frame.len as u64])
        };
        let expected = [0, 1].map(|card| [passed(6, card), passed(0, card)].concat());
        assert_eq!(counters.map(Vec::from), expected, "{options:?}");
    }
}

#[test]
fn a_stream_that_does_not_block() {
    let server = ["rstream", "-S", "100", "-T", "n"];
    pair(&server, &[&server[..], &["-s", SERVER]].concat());
}

/// By the loopback address, and on the second port.
#[test]
fn perftest_connects_by_other_addresses() {
    for (program, address) in [("ib_send_lat", "127.0.0.1"), ("ib_read_bw", "198.18.1.1")] {
        let server = [program, "-R", "-n", "200"];
        let said = perftest(&server, &[&server[..], &[address]].concat());
        assert!(said.contains("#bytes"), "{said}");
    }
}

/// The client's output. perftest's server listens anew for its second connection, and its client does not wait for that: if it
/// is refused it crashes, and leaves a server that takes the next client's first connection for the second of its own.
fn perftest(server: &[&str], client: &[&str]) -> String {
    const TRIES: usize = 4;
    let _alone = alone();
    for _ in 0..TRIES {
        let net = StockNet::new();
        let case = Case { net: &net, launcher: &[], server, client };
        let (server, client) = case.connected();
        if crashed(&client) {
            continue;
        }
        let [_, said] = case.ended(server, client);
        net.expect_gone();
        return said;
    }
    panic!("the client crashed {TRIES} times");
}

/// librdmacm makes an address handle without a GRH for its own QP, which no card on Ethernet takes: Linux and mlx5's
/// provider say EINVAL, too.
#[test]
fn datagram_sockets_end_with_an_error() {
    let net = StockNet::new();
    let _server = net.start("udpong", &[]);
    net.start("udpong", &["-s", SERVER]).wait(LIMIT).expect_refusal("rconnect: ");
}

/// Threads that are cancelled while they wait, and a child that has its parent's channel.
#[test]
fn event_channels_as_programs_rarely_use_them() {
    let program = compile_c("channels");
    let net = StockNet::new();
    for use_of in ["cancel", "fork"] {
        assert!(net.run(&program, &[use_of], LIMIT).contains("as in the kernel"), "{use_of}");
    }
    net.expect_gone();
}

/// In simulated time a connection takes the same time in each run.
#[test]
fn simulated_time_repeats() {
    let _alone = alone();
    need("ib_write_lat");
    let launcher = ["--clock", "virtual"];
    let test = ["-R", "-n", "50"];
    let run = || {
        for seconds in [1, 2, 4, 8] {
            let net = StockNet::new();
            let server = Program::start(net.command(&launcher, "ib_write_lat", &test));
            // A client that is refused has moved the clock: the next try is on another net.
            std::thread::sleep(Duration::from_secs(seconds));
            let arguments = [&test[..], &[SERVER]].concat();
            let client = Program::start(net.command(&launcher, "ib_write_lat", &arguments)).wait(LIMIT);
            if client.good() {
                server.wait(LIMIT).expect_good();
                return client.said;
            }
        }
        panic!("the server never listened");
    };
    let first = run();
    assert!(first.contains("t_typical"), "{first}");
    assert_eq!(first, run());
}

#[test]
fn without_a_listener_or_an_address() {
    let net = StockNet::alone();
    for (address, expected) in [
        // No such service: reason 8.
        (SERVER, "RDMA_CM_EVENT_REJECTED, error 8"),
        ("198.18.0.200", "RDMA_CM_EVENT_ADDR_ERROR, error -113"),
    ] {
        let case = ["rping", "-c", "-a", address, "-C", "1"];
        net.start(case[0], &case[1..]).wait(LIMIT).expect_refusal(expected);
    }
}

#[test]
fn requests_that_are_lost_come_again_until_the_peer_is_unreachable() {
    let net = StockNet::alone();
    let launcher = ["--wire", "exact", "--fault", "loss=1,seed=1", "--cm-timeout", "8"];
    let client = ["-c", "-a", SERVER, "-C", "1"];
    // Without the shorter time-out it would try for 69 s (16 times 4.3 s), longer than the limit.
    let ended = Program::start(net.command(&launcher, "rping", &client)).wait(LIMIT);
    assert!(ended.said.contains("RDMA_CM_EVENT_UNREACHABLE, error -110"), "{}", ended.said);
    drop(net);
    let net = StockNet::new();
    // The programs have four seconds to answer: 16 times 268 ms.
    let launcher = ["--wire", "exact", "--fault", "loss=0.3,seed=5", "--cm-timeout", "16"];
    let case = Case {
        net: &net,
        launcher: &launcher,
        server: &["ucmatose", "-c", "5", "-C", "0"],
        client: &["ucmatose", "-c", "5", "-C", "0", "-s", SERVER],
    };
    case.run();
}

#[test]
fn a_killed_peer_disconnects() {
    let _alone = alone();
    for kills_server in [false, true] {
        let net = StockNet::new();
        let server = net.start("rping", &["-s", "-a", SERVER, "-v"]);
        let start = || net.start("rping", &["-c", "-a", SERVER, "-v"]);
        let mut client = start();
        let begin = Instant::now();
        while !client.said().contains("rdma-ping-9") {
            if client.has_ended() {
                client = start();
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(begin.elapsed() < LIMIT, "{}\n{}", server.said(), client.said());
        }
        let (killed, mut other) = if kills_server { (server, client) } else { (client, server) };
        killed.signal(9);
        other.expect("DISCONNECT EVENT", LIMIT);
        other.wait(LIMIT);
        net.expect_gone_after(killed);
    }
}

/// What the manager had of programs that are gone is free again.
#[test]
fn ports_are_free_after_their_programs() {
    let (net, _holder) = StockNet::held_alone(&[]);
    for _ in 0..3 {
        let mut server = net.start("rping", &["-s", "-a", SERVER, "-v", "-C", "1"]);
        let client = || net.start("rping", &["-c", "-a", SERVER, "-C", "1"]).wait(LIMIT);
        server.expect_that("clients are rejected", |_| !client().said.contains("REJECTED"));
        server.signal(9);
        drop(server);
    }
}

/// Eight processes make and tear down 1,008 connections, each with data, over a wire that loses packets; and
/// then some more, at the same ports.
#[test]
fn a_thousand_connections_leave_nothing() {
    let net = StockNet::alone();
    let program = compile_c("meetings");
    let launcher = ["--wire", "exact", "--fault", "loss=0.01,seed=3", "--cm-timeout", "17"];
    let limit = Duration::from_secs(90);
    let mut holder = net.hold(&launcher);
    for count in ["126", "14"] {
        let start =
            |rank: usize| Program::start(net.command(&launcher, &program, &[&rank.to_string(), count]));
        let all: Vec<Program> = (0..8).map(start).collect();
        let all: Vec<Ended> = all.into_iter().map(|one| one.wait(limit)).collect();
        let said: Vec<_> = all.iter().map(|ended| (ended.how(), &ended.said)).collect();
        let answered = format!("{count} of {count} answered");
        assert!(all.iter().all(|ended| ended.said.contains(&answered)), "{said:#?}");
    }
    assert!(!holder.has_ended());
    net.expect_gone_after(holder);
}
