//! Stock programs that send and receive whole Ethernet frames: perftest's raw tests.
//!
//! The two sides do not talk before they begin, and the server waits for ever for a frame that is lost; so each client
//! starts when the card says that the server has posted its receives.

use std::time::Duration;

use driver::Registers;
use fpga_regs::regs::{self, port};
use model::attach::SegmentCard;
use tests::stock::{check_report, need, rows, until_calibrated, Both, Kind, Program, StockNet, LIMIT};

const MAC: [&str; 2] = ["02:56:42:00:00:00", "02:56:42:00:01:00"];
/// The second port of the first card.
const OTHER_PORT: &str = "02:56:42:00:00:01";
const IPV4: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
const IPV6: [&str; 2] = ["fd00::1", "fd00::2"];

/// More than a server still has to do when it has posted its receives, or just before: two changes of state. Then it spins.
const MOMENT: Duration = Duration::from_millis(200);

/// Waits until a server on the first card has posted receives; gives the card.
pub fn posted(net: &StockNet, server: &mut Program) -> SegmentCard {
    // A net starts with its first program.
    let open = || net.socket().exists().then(|| SegmentCard::open(&net.socket(), 0).ok()).flatten();
    let mut card = None;
    server.expect_that("it posts no receives", |_| {
        card = card.take().or_else(open);
        card.as_ref().is_some_and(|card| card.read32(regs::RECVS_WAITING) > 0)
    });
    server.expect_work(MOMENT, LIMIT);
    card.expect("it has receives")
}

/// A server and a client of a raw test.
struct Frames<'a> {
    launcher: &'a [&'a str],
    program: &'a str,
    arguments: String,
    /// Further arguments of the server, and of the client.
    own: [String; 2],
    devices: [&'a str; 2],
}

impl<'a> Frames<'a> {
    fn new(program: &'a str, arguments: &str) -> Frames<'a> {
        let own = [0, 1].map(|side| format!("-B {} -E {}", MAC[side], MAC[1 - side]));
        let devices = ["verbena0", "verbena1"];
        // Room for all frames: a server that is not run for long loses none.
        let room = if program == BW && arguments.contains("-n ") { "-r 4096 " } else { "" };
        Frames { launcher: &[], program, arguments: format!("{room}{arguments}"), own, devices }
    }

    /// With IP addresses, and ports unless they are none: first the client's, for both sides alike.
    fn with_ip(mut self, ip: [&str; 2], ports: Option<[u16; 2]>) -> Frames<'a> {
        self.arguments += &format!(" -j {} -J {}", ip[0], ip[1]);
        if let Some([client, server]) = ports {
            self.arguments += &format!(" -k {client} -K {server}");
        }
        self
    }

    fn side(&self, net: &StockNet, side: usize) -> Program {
        let role = ["--server", "--client"][side];
        let line = format!("-F -d {} {role} {} {}", self.devices[side], self.own[side], self.arguments);
        let words: Vec<&str> = line.split_whitespace().collect();
        Program::start(net.command(self.launcher, self.program, &words))
    }

    /// Starts the server, and the client once receives are posted.
    fn start(&self, net: &StockNet) -> [Program; 2] {
        need(self.program);
        let mut server = self.side(net, 0);
        posted(net, &mut server);
        let client = self.side(net, 1);
        [server, client]
    }

    /// Runs both to their end, and checks the client's table.
    fn run(&self, net: &StockNet) -> Result<(), String> {
        until_calibrated(|| self.run_once(net), |ended| ended.clone().err().unwrap_or_default())
    }

    fn run_once(&self, net: &StockNet) -> Result<(), String> {
        let [server, client] = self.start(net);
        let both = Both::of([client, server], LIMIT)?;
        let words: Vec<&str> = self.arguments.split_whitespace().collect();
        check_report(&both.client.said, Kind::of(self.program, &words))
            .map_err(|error| format!("{}: {error}\n{}", both.client.line, both.report()))
    }
}

fn run_all(launcher: &[&str], all: Vec<Frames<'_>>) {
    let net = StockNet::alone();
    let mut failures = Vec::new();
    for frames in all {
        failures.extend(Frames { launcher, ..frames }.run(&net).err());
    }
    assert!(failures.is_empty(), "{} failed:\n\n{}", failures.len(), failures.join("\n\n"));
    net.expect_gone();
}

const BW: &str = "raw_ethernet_bw";
const LAT: &str = "raw_ethernet_lat";
const BURST_LAT: &str = "raw_ethernet_burst_lat";

#[test]
fn sizes() {
    let sizes = ["-s 64 -n 3000", "-s 1500 -n 3000", "-m 9600 -s 9000 -n 1000"];
    let programs = [BW, LAT].into_iter().flat_map(|program| sizes.map(|size| Frames::new(program, size)));
    run_all(&[], programs.collect());
}

#[test]
fn both_ways_and_many_queue_pairs() {
    let options = ["-s 1500 -n 2000 -b", "-s 512 -n 2000 -q 4", "-s 64 -n 1600 -l 16", "-s 1500 -D 1"];
    run_all(&[], options.map(|options| Frames::new(BW, options)).into());
}

#[test]
fn rules_by_addresses_and_ports() {
    let ports = Some([1000, 2000]);
    let options = "-s 256 -n 2000";
    run_all(
        &[],
        vec![
            Frames::new(BW, options).with_ip(IPV4, None),
            Frames::new(BW, options).with_ip(IPV4, ports),
            Frames::new(BW, &format!("{options} --tcp")).with_ip(IPV4, ports),
            Frames::new(BW, &format!("{options} --raw_ipv6")).with_ip(IPV6, ports),
            Frames::new(BW, &format!("{options} --raw_ipv6 --tcp")).with_ip(IPV6, ports),
            Frames::new(BW, &format!("{options} --flows 16 --flows_burst 8")).with_ip(IPV4, ports),
            Frames::new(BW, &format!("{options} --vlan_en")).with_ip(IPV4, ports),
            Frames::new(LAT, &format!("{options} --vlan_en --tcp")).with_ip(IPV4, ports),
        ],
    );
}

#[test]
fn everything_and_what_no_rule_takes() {
    let modes = ["--promiscuous", "--sniffer", "--vlan_en", "--ethertype=0x88b5"];
    run_all(&[], modes.map(|mode| Frames::new(BW, &format!("-s 512 -n 2000 {mode}"))).into());
}

/// perftest's server ends such a run by destroying a rule that it has not made, after its report.
#[test]
fn a_group() {
    let net = StockNet::alone();
    let frames = Frames::new(BW, "-s 512 -n 2000 --raw_mcast");
    let [server, client] = frames.start(&net);
    let (client, server) = (client.wait(LIMIT), server.wait(LIMIT));
    for side in [&client, &server] {
        let received: Vec<f64> = rows(&side.said).concat();
        assert_eq!(received.get(..2), Some(&[512.0, 2000.0][..]), "{side}");
    }
    client.expect_good();
    assert!(server.good() || server.how() == "ended by signal 11", "{server}");
    net.expect_gone();
}

/// A port gives frames to its own other queue pairs, and to the card's other port.
#[test]
fn within_a_card() {
    let mut same = Frames::new(BW, "-s 512 -n 2000");
    same.own = [0, 1].map(|_| format!("-B {0} -E {0}", MAC[0]));
    same.devices[1] = "verbena0";
    let mut other = Frames::new(BW, "-s 512 -n 2000");
    other.own =
        [format!("-i 2 -B {OTHER_PORT} -E {}", MAC[0]), format!("-i 1 -B {} -E {OTHER_PORT}", MAC[0])];
    other.devices[1] = "verbena0";
    // Of one card, a cable connects the two ports.
    run_all(&["--cards", "1"], vec![same, other]);
}

#[test]
fn on_the_exact_wire() {
    let options = ["-s 64 -n 1000", "-s 1500 -n 1000 -q 2", "-m 9600 -s 9000 -n 500"];
    run_all(&["--wire", "exact"], options.map(|options| Frames::new(BW, options)).into());
}

/// Also the last frame arrives, which no other one passes.
#[test]
fn a_frame_that_others_pass_arrives() {
    let late = ["--wire", "exact", "--fault", "reorder nth=3, reorder nth=500"];
    run_all(&late, vec![Frames::new(BW, "-s 64 -n 500")]);
}

/// Rules made and removed, ten thousand of them.
#[test]
fn a_rate_of_rules() {
    let net = StockNet::alone();
    let (program, mac) = ("raw_ethernet_fs_rate", format!("-B {} -E {}", MAC[0], MAC[1]));
    need(program);
    let line = format!("-F -d verbena0 --server {mac} -j {} -J {} -n 10000", IPV4[0], IPV4[1]);
    let words: Vec<&str> = line.split_whitespace().collect();
    println!("{}", net.run(program, &words, LIMIT));
}

/// 16.384 Mbit/s, which perftest calls two megabytes.
#[test]
fn a_rate_limit_is_kept() {
    let net = StockNet::alone();
    let paced = "--rate_units=M --rate_limit_type=PP";
    const COUNT: f64 = 400.0;
    let frames = Frames::new(BW, &format!("-s 1518 -n {COUNT} --rate_limit=2 {paced}"));
    let [server, client] = frames.start(&net);
    let both = Both::of([client, server], LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let got = rows(&both.client.said).concat()[4];
    // The first frame does not wait for its microseconds, and a millisecond may be caught up.
    let most = COUNT / ((COUNT - 1.0) * 1514.0 * 8.0 / 16.384 - 1000.0);
    // A clock that perftest has calibrated on a machine with other work may be slow.
    assert!(got <= most * 1.05, "{got} of {most} million frames a second: {}", both.report());
    Frames::new(LAT, &format!("-s 64 -n 100 --rate_limit=2 {paced}"))
        .run(&net)
        .unwrap_or_else(|error| panic!("{error}"));
    // perftest's server ends without waiting for its last answers to leave.
    let mut bursts = Frames::new(BURST_LAT, &format!("-s 64 -n 320 --burst_size=16 -Q 1 {paced}"));
    bursts.own.iter_mut().zip([1000, 2]).for_each(|(own, rate)| *own += &format!(" --rate_limit={rate}"));
    let [server, client] = bursts.start(&net);
    let both = Both::of([client, server], LIMIT).unwrap_or_else(|error| panic!("{error}"));
    // It prints the head of its table twice.
    let table = both.client.said.rsplit("#bytes").next().unwrap_or_default();
    let row = rows(&format!("#bytes{table}")).concat();
    assert_eq!(row.get(..2), Some(&[64.0, 320.0][..]), "{}", both.report());
    net.expect_gone();
}

/// A receiver that is stopped holds the wire for a tenth of a second, not for ever: the client ends, and what it sent
/// is counted where it was dropped.
#[test]
fn a_stopped_receiver_does_not_stop_the_wire() {
    let net = StockNet::alone();
    let frames = Frames::new(BW, "-s 512 -n 20000 -r 512");
    need(BW);
    let mut server = frames.side(&net, 0);
    let card = posted(&net, &mut server);
    server.signal(libc::SIGSTOP);
    let said = frames.side(&net, 1).wait(LIMIT).expect_good();
    assert_eq!(rows(&said).len(), 1, "{said}");
    let dropped = card.read64(port::base(0) + port::RX_NO_RECV);
    assert!(dropped > 10_000, "{dropped} frames were dropped and counted");
    server.signal(libc::SIGCONT);
    drop(server);
}
