//! DPDK's testpmd on two modelled cards, beside a bare ring and beside DPDK's own shared-memory driver, `net_memif`.

use std::process::Command;
use std::time::Duration;

use tests::stock::{EalFiles, Program, StockNet};

use crate::limits::bare_ring;
use crate::programs::{start, stop};
use crate::row::{median, Goal, Row};
use crate::{among, beside};

/// How long a receiver counts.
const SECONDS: u64 = 5;
/// Until a program has started its ports.
const READY: Duration = Duration::from_millis(2500);
/// What a receiver has the card find out about each frame.
const FLAGS: &str = "--enable-rx-cksum --enable-hw-vlan-strip";
/// Four queues, chosen by the hash of addresses and ports.
const SPREAD: &str = "--rxq=4 --txq=4 --rss-udp";
/// Frames of many connections.
const MANY: &str = "--txonly-multi-flow";

/// Bytes of a frame with its check sequence, which testpmd does not count.
fn frames_of(bytes: usize) -> String {
    format!("--forward-mode=txonly --txpkts={}", bytes - 4)
}

/// A program that is to start, and its files.
type Testpmd = (Command, EalFiles);

/// testpmd, on a net if there is one, all of whose threads are on these cores: the first is that of commands, which sleeps.
fn testpmd(net: Option<&StockNet>, cores: &str, ports: &[&str], options: &str) -> Testpmd {
    let files = EalFiles::new();
    let mut words = vec!["--no-huge", "-m", "192", "--no-telemetry", "--no-pci", "--lcores", cores];
    words.extend(["--file-prefix", &files.prefix]);
    words.extend(ports.iter().flat_map(|port| ["--vdev", *port]));
    words.extend(["--", "--no-mlockall", "--total-num-mbufs=4096", "--stats-period=1"]);
    words.extend(options.split_whitespace());
    let Some(net) = net else {
        let mut command = Command::new("dpdk-testpmd");
        command.args(words);
        return (command, files);
    };
    (net.command(&[], "dpdk-testpmd", &words), files)
}

/// The median of what each second of a program's statistics says of what its ports received together, in millions; the
/// first and the last second with frames are not whole.
fn received(said: &str, ports: usize) -> f64 {
    let each = said.lines().filter_map(|line| line.trim().strip_prefix("Rx-pps:"));
    let each = each.filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let seconds: Vec<f64> =
        each.collect::<Vec<_>>().chunks_exact(ports).map(|second| second.iter().sum::<f64>() / 1e6).collect();
    let some: Vec<f64> = seconds.into_iter().filter(|&rate| rate > 0.0).collect();
    assert!(some.len() > 2, "testpmd received nothing for three seconds; it said:\n{said}");
    median("seconds", some[1..some.len() - 1].to_vec())
}

/// Frames that come from a sender on core 0 to a receiver on core 1, in millions a second.
fn one_way((receiver, _received): Testpmd, (sender, _sent): Testpmd) -> f64 {
    let receiver = start(1, receiver);
    std::thread::sleep(READY);
    let sender = start(0, sender);
    std::thread::sleep(READY + Duration::from_secs(SECONDS));
    // First the receiver: one of memif does not outlive its peer.
    let said = stop(receiver);
    stop(sender);
    received(&said, 1)
}

/// Over the cards.
fn cards(bytes: usize, receiver: &str, sender: &str) -> f64 {
    let net = StockNet::new();
    let receive = format!("--forward-mode=rxonly {FLAGS} {receiver}");
    let send = format!("{} --eth-peer=0,02:56:42:00:01:00 {sender}", frames_of(bytes));
    one_way(
        testpmd(Some(&net), "(0-1)@1", &["net_verbena1"], &receive),
        testpmd(Some(&net), "(0-1)@0", &["net_verbena0"], &send),
    )
}

/// Over memif, which copies as the cards do, and looks at nothing.
fn memif(bytes: usize) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("memif").display().to_string();
    let port = |role: &str| format!("net_memif0,role={role},socket={socket},socket-abstract=no");
    one_way(
        testpmd(None, "(0-1)@1", &[&port("server")], "--forward-mode=rxonly"),
        testpmd(None, "(0-1)@0", &[&port("client")], &frames_of(bytes)),
    )
}

/// Both cards in one program, which forwards what comes to one by the other, on these cores, with a queue of each card each.
fn forwarding(cores: &[usize]) -> (Program, (EalFiles, StockNet)) {
    let count = cores.len();
    let options = format!(
        "--forward-mode=io --tx-first {MANY} --txpkts=60 --nb-cores={count} --rxq={count} --txq={count} --rss-udp \
         --eth-peer=0,02:56:42:00:01:00 --eth-peer=1,02:56:42:00:00:00"
    );
    // The first thread is that of commands.
    let places: Vec<String> = cores.iter().enumerate().map(|(n, core)| format!("{}@{core}", n + 1)).collect();
    let places = format!("0@{},{}", cores[0], places.join(","));
    let net = StockNet::new();
    let (testpmd, files) = testpmd(Some(&net), &places, &["net_verbena0", "net_verbena1"], &options);
    (start(cores[0], testpmd), (files, net))
}

/// What such a program forwards.
fn forwarded(cores: &[usize]) -> f64 {
    let (running, _kept) = forwarding(cores);
    // The first bursts go to queues of both cores, which makes all of them one island for the first two seconds.
    std::thread::sleep(READY + Duration::from_secs(2 * SECONDS));
    received(&stop(running), 2)
}

/// What two of them do together, on a core and a net each: what the machine has for two cores.
fn forwarded_apart() -> f64 {
    let both = [0, 1].map(|core| forwarding(&[core]));
    std::thread::sleep(READY + Duration::from_secs(2 * SECONDS));
    both.map(|(running, _kept)| received(&stop(running), 2)).iter().sum()
}

/// Adds the rows.
pub fn rows(add: &mut impl FnMut(Row)) {
    let row = |what: &str, limit, (reached, ratio), goal| Row {
        what: what.into(),
        limit,
        reached,
        ratio,
        unit: "M/s",
        goal: Goal::AtLeast(goal),
    };
    let (ring, each) = among(|| bare_ring() / 1e6, &[&|| cards(64, "", ""), &|| cards(64, SPREAD, MANY)]);
    add(row("testpmd 64 B, of a bare ring of 64 B slots", ring, each[0], 1.0));
    add(row("testpmd 64 B, four queues by RSS, of the bare ring", ring, each[1], 0.8));
    for (bytes, goal) in [(64, 1.2), (1518, 1.8)] {
        let (limit, each) = among(|| memif(bytes), &[&|| cards(bytes, "", "")]);
        add(row(&format!("testpmd {bytes} B, of net_memif"), limit, each[0], goal));
    }
    let (one, two) = beside(|| forwarded(&[0]), || forwarded(&[0, 1]));
    add(row("testpmd 64 B, two cores with a queue each, of one", one, (two, two / one), 1.8));
    let (apart, two) = beside(forwarded_apart, || forwarded(&[0, 1]));
    let of_two = row("testpmd 64 B, the same, of two programs apart", apart, (two, two / apart), 0.0);
    add(Row { goal: Goal::None, ..of_two });
}
