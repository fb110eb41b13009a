//! Congestion in simulated time: the switch, its marks and pauses, and what DCQCN makes of them.
//!
//! The senders' cards post through the driver, all from one thread, which lets time pass. The expected figures are
//! those of published models; [`fluid`] computes DCQCN's.

#[path = "congestion/fluid.rs"]
mod fluid;
#[path = "congestion/frames.rs"]
mod frames;
#[path = "congestion/plot.rs"]
mod plot;
#[path = "congestion/stock.rs"]
mod stock;
#[path = "congestion/traffic.rs"]
mod traffic;

use std::fs;
use std::path::PathBuf;

use tests::stock::repository;

use fluid::fixed_point;
use fpga_regs::regs::port;
use model::congestion::dcqcn::Parameters;
use model::link::LinkOptions;
use traffic::{at_40g, Flow, Port, Traffic, MESSAGE};

const MS: u64 = 1_000_000_000;
/// Bytes of a frame of 1 KiB of payload, with FCS; 20 more with preamble and gap.
const FRAME: f64 = 1086.0;
/// Bits a second of payload that 40 Gb/s carry.
const GOODPUT: f64 = 40e9 * 1024.0 / (FRAME + 20.0);

/// Senders 1 to `count`, all to card 0.
fn incast(count: u8) -> Vec<Flow> {
    (1..=count).map(|from| Flow { from, to: 0 }).collect()
}

/// Jain's index of fairness: 1 is fair, 1/n is one that has all.
fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), r| (sum + r, squares + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

fn paper() -> Parameters {
    "dcqcn".parse::<model::congestion::CcOptions>().expect("a known name").0
}

/// From here on (ps) the mean of the queue counts.
const SETTLED: u64 = 20 * MS;

/// What was found of so many flows.
struct Found {
    flows: u8,
    /// Of the table in docs/congestion.md.
    row: String,
    /// Mean queue (bytes) in each step of the drawing.
    queue: Vec<f64>,
}

/// Mean queue (bytes) between two looks at a port.
fn queue(before: &Port, after: &Port) -> f64 {
    let byte_ns = after.counts.byte_ns - before.counts.byte_ns;
    byte_ns as f64 / ((after.at - before.at).max(1) as f64 / 1000.0)
}

/// Flows into one port: the queue is where the fluid model has its fixed point, the flows share the port, the port is
/// busy, and nothing is lost.
fn settles(flows: u8, end: u64) -> Found {
    let mut traffic = Traffic::start(at_40g(), "pfc", Some("dcqcn"), &incast(flows));
    let (mut looks, mut done) = (vec![traffic.port(0)], Vec::new());
    for at in (plot::STEP..=plot::END).step_by(plot::STEP as usize) {
        traffic.run_until(at);
        looks.push(traffic.port(0));
        if at == SETTLED {
            done = traffic.bytes_done();
        }
    }
    let before = looks[(SETTLED / plot::STEP) as usize];
    traffic.run_until(end);
    let after = traffic.port(0);
    let seconds = (after.at - before.at) as f64 * 1e-12;
    let rates: Vec<f64> = traffic
        .bytes_done()
        .iter()
        .zip(done)
        .map(|(now, then)| (now - then) as f64 * 8.0 / seconds)
        .collect();
    let mean = queue(&before, &after);
    let used =
        (after.counts.bytes - before.counts.bytes) as f64 * 8.0 / seconds / (40e9 * FRAME / (FRAME + 20.0));
    let expected = fixed_point(&paper(), &traffic.switch, 40e9, FRAME, flows.into());
    println!(
        "{flows} flows: queue {mean:.0} B, fluid model {:.0} B (p {:.5}); Jain {:.4}; port used {used:.4}; deepest {} B, \
         {} marks, {} pauses, {} drops",
        expected.queue,
        expected.p,
        jain(&rates),
        after.counts.deepest,
        after.counts.marks,
        traffic.pauses(),
        after.counts.drops
    );
    assert!((mean / expected.queue - 1.0).abs() <= 0.25, "queue {mean}, fluid model {}", expected.queue);
    assert!(jain(&rates) >= 0.99, "{rates:?}");
    assert!(used >= 0.97, "{used}");
    assert_eq!(after.counts.drops, 0);
    let (kb, model) = (mean / 1000.0, expected.queue / 1000.0);
    let row = format!("| {flows} | {kb:.1} KB | {model:.1} KB | {:.3} | {used:.3} |", jain(&rates));
    Found { flows, row, queue: looks.windows(2).map(|looks| queue(&looks[0], &looks[1])).collect() }
}

const UPDATE: &str = "UPDATE_DOCS=1 cargo test -p tests --test congestion flows_settle";

fn docs(name: &str) -> PathBuf {
    repository().join("docs").join(name)
}

/// Two, four and eight flows do what the table and the drawing of docs/congestion.md say. [`UPDATE`] rewrites both.
#[test]
fn flows_settle_at_the_fixed_point() {
    // Of two there are fewer notifications: it takes longer until both have had their share.
    let runs = [(8, 50 * MS), (4, 50 * MS), (2, 100 * MS)];
    let found = std::thread::scope(|scope| {
        let threads = runs.map(|(flows, end)| scope.spawn(move || settles(flows, end)));
        threads.map(|thread| thread.join().expect("the flows settle"))
    });
    let drawing = plot::drawing(found.each_ref().map(|found| (found.flows, &found.queue[..])));
    let page = fs::read_to_string(docs("congestion.md")).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let row_of = |line: &str| found.iter().find(|it| line.starts_with(&format!("| {} | ", it.flows)));
        let lines = page.lines().map(|line| row_of(line).map_or(line, |it| it.row.as_str()));
        fs::write(docs("congestion.md"), lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        return fs::write(docs("congestion-queue.svg"), drawing).unwrap();
    }
    for Found { row, .. } in &found {
        assert!(
            page.lines().any(|line| line == row),
            "docs/congestion.md is stale; rewrite it, {UPDATE}:\n{row}"
        );
    }
    let drawn = fs::read_to_string(docs("congestion-queue.svg")).unwrap();
    assert!(drawn == drawing, "docs/congestion-queue.svg is stale; rewrite it: {UPDATE}");
}

/// A message of a queue pair that was slowed down takes longer than all time-outs together: they begin when its packets leave.
#[test]
fn a_slow_message_is_not_a_lost_one() {
    let cc = "dcqcn-mlx,first=0.0005,min=20Mb/s,timer=1s";
    let wire = (at_40g(), LinkOptions::default());
    // 2.1 ms; a message takes 27 ms.
    let mut traffic = Traffic::with(wire, "pfc", Some(cc), &incast(2), 9);
    traffic.run_until(100 * MS);
    for card in 1..=2 {
        assert_eq!(traffic.counter(card, port::ACK_TIMEOUTS), 0, "card {card}");
    }
    let done = traffic.bytes_done();
    assert!(done.iter().all(|&bytes| bytes > 0), "{done:?}");
}

/// Without flow control what finds no room is lost, and sent again: the data arrives.
#[test]
fn a_full_queue_drops() {
    let mut traffic = Traffic::start(at_40g(), "buffer=64KiB", None, &incast(4));
    traffic.run_until(MS);
    let port = traffic.port(0);
    assert!(port.counts.drops > 0, "{port:?}");
    assert!(port.counts.deepest <= 64 << 10 && port.counts.deepest > 62 << 10, "{port:?}");
    assert_eq!((port.counts.marks, traffic.pauses()), (0, 0), "nobody asked for either");
    traffic.finish();
}

/// Flow control alone: nothing is lost, the cards are paused, and the flows share the port.
#[test]
fn pauses_prevent_loss() {
    let mut traffic = Traffic::start(at_40g(), "pfc,xoff=40KiB,xon=32KiB", None, &incast(4));
    traffic.run_until(3 * MS);
    let port = traffic.port(0);
    assert_eq!((port.counts.drops, port.counts.marks), (0, 0), "{port:?}");
    // What the four hold together: up to xoff, and what was under way when they were told.
    assert!((4 * (32 << 10)..=4 * (56 << 10)).contains(&port.counts.deepest), "{port:?}");
    let received: Vec<u64> = (1..=4).map(|card| traffic.pauses_received(card)).collect();
    assert!(received.iter().all(|&pauses| pauses > 10), "{received:?}");
    // The last ones may be on their way.
    assert!(received.iter().sum::<u64>().abs_diff(traffic.pauses()) <= 4, "{received:?}");
    // Three quarters of the time.
    let paused = traffic.port(1).counts.paused_ps as f64 / port.at as f64;
    assert!((0.65..0.8).contains(&paused), "{paused}");
    let done: Vec<f64> = traffic.bytes_done().iter().map(|&bytes| bytes as f64).collect();
    assert!(jain(&done) > 0.99, "{done:?}");
    traffic.finish();
}

/// Too little headroom is not enough.
#[test]
fn a_short_headroom_drops() {
    let mut traffic = Traffic::start(at_40g(), "pfc,xoff=40KiB,xon=32KiB,headroom=1KiB", None, &incast(4));
    traffic.run_until(MS);
    assert!(traffic.port(0).counts.drops > 0);
}

/// Card 1 sends to the port that all send to, and to one that nobody else sends to. With pauses alone the second flow is
/// held up by the first one's: both have a quarter. DCQCN reduces the first, and the second has what is left.
#[test]
fn a_victim_is_freed() {
    let mut flows = incast(4);
    flows.push(Flow { from: 1, to: 5 });
    let gbps = |cc: Option<&str>| {
        let mut traffic = Traffic::start(at_40g(), "pfc", cc, &flows);
        traffic.run_until(10 * MS);
        let done = traffic.bytes_done();
        traffic.run_until(20 * MS);
        let rate = |n: usize| (traffic.bytes_done()[n] - done[n]) as f64 * 8.0 / 0.01 / GOODPUT;
        assert_eq!(traffic.port(0).counts.drops, 0);
        (rate(0), rate(4))
    };
    let (first, victim) = gbps(None);
    println!("pauses alone: {first:.3} and {victim:.3} of the port");
    assert!((0.22..0.28).contains(&first) && (0.22..0.28).contains(&victim), "{first} {victim}");
    let (first, victim) = gbps(Some("dcqcn"));
    println!("dcqcn: {first:.3} and {victim:.3} of the port");
    assert!(victim > 0.6 && first < 0.4, "{first} {victim}");
    let said = format!("has {victim:.2} of its port.");
    let page = fs::read_to_string(docs("congestion.md")).unwrap();
    assert!(page.contains(&said), "docs/congestion.md is stale: the victim {said}");
}

/// The other form of DCQCN keeps the queue short and loses nothing, too.
#[test]
fn mellanoxs_form() {
    let mut traffic =
        Traffic::start(at_40g(), "pfc", Some("dcqcn-mlx,timer=300us,g=1/256,ai=40Mb/s"), &incast(4));
    traffic.run_until(20 * MS);
    let port = traffic.port(0);
    assert_eq!(port.counts.drops, 0);
    assert!(port.counts.marks > 100, "{port:?}");
    let used = port.counts.bytes as f64 * 8.0 / (port.at as f64 * 1e-12) / 40e9;
    println!("mlx: used {used:.3}, {} marks", port.counts.marks);
    assert!(used > 0.5, "{used}");
}

/// Flows of one port take turns packet by packet, so each has the same share without any congestion.
#[test]
fn queue_pairs_of_a_port_take_turns() {
    let flows: Vec<Flow> = (0..4).map(|_| Flow { from: 1, to: 0 }).collect();
    let mut traffic = Traffic::start(at_40g(), "default", None, &flows);
    traffic.run_until(2 * MS);
    let done = traffic.bytes_done();
    let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
    assert!(most - least <= MESSAGE as u64, "{done:?}");
    assert_eq!(traffic.port(0).counts.drops, 0);
    traffic.finish();
}

/// The same in every run.
#[test]
fn the_same_in_every_run() {
    let run = || {
        let mut traffic = Traffic::start(at_40g(), "pfc,xoff=60KB", Some("dcqcn"), &incast(3));
        traffic.run_until(2 * MS);
        (traffic.bytes_done(), traffic.port(0), traffic.port(1), traffic.pauses())
    };
    assert_eq!(run(), run());
}
