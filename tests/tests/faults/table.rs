//! What losses cost: goodput and latency against the probability of loss, beside the closed forms. And what packets cost that are late:
//! no more than if they were lost.
//!
//! With go-back-N a lost packet costs the time of `W` packets: those that are on their way until the sender has the NAK, which it
//! sends again. So the goodput is (1 - p) / (1 + p (W - 1)) of that without loss, where `W` is what one loss costs here, by
//! itself. With selective repeat it costs its own time only: the goodput is (1 - p) of that without loss, while enough is on its way
//! behind a lost packet. A message of one packet, alone on its way, waits for the time-out when it or its answer is lost:
//! an attempt fails with P = 1 - (1 - p)^2, and the mean is the latency without loss and P / (1 - P) time-outs.

use std::fmt::Write;

use fpga_regs::WqeOpcode;
use tests::{Options, Side};

use super::scene::Scene;

/// Path MTU of the goodput.
const MTU: u64 = 4096;
const MESSAGE: u64 = 8 * MTU;
const MESSAGES: u64 = 2000;
const PACKETS: u64 = MESSAGES * MESSAGE / MTU;
/// Messages on their way with go-back-N.
const DEPTH: u64 = 4;
/// And with selective repeat: so many that a lost packet comes again before they are all sent.
const DEEP: u64 = 16;
/// Packets that a card keeps with selective repeat.
const KEPT: u32 = 128;
/// Of the time-out: longer than what waits in the card and on the wire takes, which the timer does not know.
const BUSY: u8 = 6;
/// Of frames, that are late or lost.
const P: f64 = 0.02;
/// Runs of each of these, with random numbers of their own.
const SEEDS: u64 = 3;
/// Messages, one after the other, of the latency.
const PINGS: u64 = 2000;
const LOSSES: [f64; 4] = [0.0, 1e-4, 1e-3, 1e-2];
const VERBS: [(&str, WqeOpcode); 3] =
    [("write", WqeOpcode::WRITE), ("read", WqeOpcode::READ), ("send", WqeOpcode::SEND)];
/// Of the sampling error, how many standard deviations are allowed.
const SIGMAS: f64 = 3.0;
/// One loss in so many packets: they do not meet.
const APART: u64 = 997;

/// A post, and its receive.
fn post(opcode: WqeOpcode, x: &Side, y: &Side, number: u64, (depth, bytes): (u64, u64)) {
    let at = (number % depth * MESSAGE) as usize;
    let bytes = bytes as usize;
    if opcode == WqeOpcode::SEND {
        y.recv(number, &[y.sge(at, bytes)]);
    }
    let sges = [x.sge(at, bytes)];
    let mut post = x.remote(number, opcode, &sges, y, at);
    if opcode == WqeOpcode::FETCH_ADD {
        post.compare_add = 1;
    }
    x.post(&[post]);
}

fn complete(opcode: WqeOpcode, x: &Side, y: &Side, number: u64) {
    x.expect(number);
    if opcode == WqeOpcode::SEND {
        y.expect(number);
    }
}

/// With a time-out of 4.096 us * 2^`timeout`.
fn options(timeout: u8) -> Options {
    Options { mtu: 5, timeout, rd_atomic: 8, bytes: (DEEP * MESSAGE) as usize, ..Options::default() }
}

/// How long many messages take (ps), some of them on their way at a time.
fn stream(opcode: WqeOpcode, reorder: u32, faults: &str) -> f64 {
    stream_of(opcode, (reorder, if reorder == 0 { DEPTH } else { DEEP }), faults).0
}

/// The same, with so many on their way; and how many time-outs there were.
fn stream_of(opcode: WqeOpcode, (reorder, depth): (u32, u64), faults: &str) -> (f64, u64) {
    let scene = Scene::new(reorder, faults, false);
    let (mut x, mut y) = scene.connect(options(BUSY));
    let atomic = opcode == WqeOpcode::FETCH_ADD;
    if !atomic {
        x.buffer.pattern(3);
        y.buffer.pattern(if opcode == WqeOpcode::READ { 3 } else { 4 });
    }
    let start = scene.now();
    for number in 0..MESSAGES + depth {
        if number >= depth {
            complete(opcode, &x, &y, number - depth);
        }
        if number < MESSAGES {
            post(opcode, &x, &y, number, (depth, if atomic { 8 } else { MESSAGE }));
        }
    }
    let took = scene.now() - start;
    let used = (depth * MESSAGE) as usize;
    match atomic {
        true => (0..used).step_by(MESSAGE as usize).for_each(|at| {
            assert_eq!(y.buffer[at..at + 8], (MESSAGES / depth).to_le_bytes(), "{faults}: each once");
        }),
        false => assert!(x.buffer[..used] == y.buffer[..used], "{faults}: the bytes"),
    }
    (took as f64, scene.counter("ACK_TIMEOUTS"))
}

/// How long a message takes (ps), one after the other: the mean.
fn ping(opcode: WqeOpcode, reorder: u32, faults: &str) -> f64 {
    let scene = Scene::new(reorder, faults, false);
    let (x, y) = scene.connect(options(4));
    let start = scene.now();
    for number in 0..PINGS {
        post(opcode, &x, &y, number, (DEPTH, 64));
        complete(opcode, &x, &y, number);
    }
    (scene.now() - start) as f64 / PINGS as f64
}

/// `got` is what was expected, up to the sampling error.
fn within(what: &str, p: f64, got: f64, expected: f64, error: f64) {
    assert!(
        (got - expected).abs() <= error,
        "{what} at p = {p}: {got:.4}, and not {expected:.4} +- {error:.4}"
    );
}

fn goodput(text: &mut String, name: &str, opcode: WqeOpcode, reorder: u32) {
    let bits = (MESSAGES * MESSAGE * 8) as f64;
    let base = stream(opcode, reorder, "");
    let slot = base / PACKETS as f64;
    let apart = stream(opcode, reorder, &format!("drop data every={APART}"));
    let losses = (apart / slot / APART as f64).floor();
    let window = (apart - base) / slot / losses;
    writeln!(text, "{name}: a loss costs W = {window:.1} packets").expect("text");
    for p in LOSSES {
        let took = if p == 0.0 { base } else { stream(opcode, reorder, &format!("drop data p={p},seed=1")) };
        let (got, best) = (bits * 1000.0 / took, bits * 1000.0 / base);
        let costs = if reorder == 0 { window } else { 1.0 };
        let expected = best * (1.0 - p) / (1.0 + p * (costs - 1.0));
        writeln!(text, "  p = {p:<6} {got:>6.3} Gb/s   closed form {expected:>6.3} Gb/s").expect("text");
        // The number of losses varies by its root. A loss that meets another one costs a time-out.
        let many = PACKETS as f64 * p;
        let deviation = got * costs * many.sqrt() / (PACKETS as f64 + many * costs);
        within(&format!("goodput of {name}"), p, got, expected, SIGMAS * deviation + 0.002 * best);
    }
}

fn latency(text: &mut String, name: &str, opcode: WqeOpcode, reorder: u32) {
    let base = ping(opcode, reorder, "");
    let timeout = (ping(opcode, reorder, "drop nth=100") - base) * PINGS as f64;
    writeln!(text, "{name}: a time-out costs {:.1} us", timeout / 1e6).expect("text");
    for p in LOSSES {
        let got = if p == 0.0 { base } else { ping(opcode, reorder, &format!("drop p={p},seed=1")) };
        let fails = 1.0 - (1.0 - p) * (1.0 - p);
        let expected = base + fails / (1.0 - fails) * timeout;
        writeln!(text, "  p = {p:<6} {:>6.3} us   closed form {:>6.3} us", got / 1e6, expected / 1e6)
            .expect("text");
        let deviation = timeout * (fails / PINGS as f64).sqrt();
        within(&format!("latency of {name}"), p, got, expected, SIGMAS * deviation + timeout / PINGS as f64);
    }
}

/// A table of all verbs.
fn of_verbs(reorder: u32, row: impl Fn(&mut String, &str, WqeOpcode, u32)) -> String {
    let mut text = String::new();
    VERBS.iter().for_each(|(name, opcode)| row(&mut text, name, *opcode, reorder));
    text
}

#[test]
fn goodput_against_loss() {
    insta::assert_snapshot!("goodput", of_verbs(0, goodput));
}

#[test]
fn goodput_against_loss_with_selective_repeat() {
    insta::assert_snapshot!("selective_goodput", of_verbs(KEPT, goodput));
}

#[test]
fn latency_against_loss() {
    insta::assert_snapshot!("latency", of_verbs(0, latency));
}

#[test]
fn latency_against_loss_with_selective_repeat() {
    insta::assert_snapshot!("selective_latency", of_verbs(KEPT, latency));
}

/// Goodput with frames that are late, and with as many that are lost, as parts of that without faults.
fn reordering(text: &mut String, name: &str, opcode: WqeOpcode, reorder: u32) {
    let run = |faults: &str| stream_of(opcode, (reorder, DEEP), faults);
    let (base, _) = run("");
    let [(lost, _), (late, timeouts)] = ["loss", "reorder"].map(|kind| {
        let runs = (1..=SEEDS).map(|seed| run(&format!("{kind}={P},seed={seed}")));
        let (took, timeouts) = runs.fold((0.0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        (base * SEEDS as f64 / took, timeouts)
    });
    writeln!(text, "{name:<6}   lost {lost:.3}   late {late:.3}").expect("text");
    assert!(late >= lost, "{name}: a late packet costs more than a lost one, {late:.3} instead of {lost:.3}");
    assert_eq!(timeouts, 0, "{name}: nothing was lost");
}

/// What is dropped because it comes too early comes again before any time-out.
#[test]
fn goodput_against_reordering() {
    for (kind, reorder) in [("go_back_n", 0), ("selective", KEPT)] {
        let mut text = of_verbs(reorder, reordering);
        reordering(&mut text, "atomic", WqeOpcode::FETCH_ADD, reorder);
        insta::assert_snapshot!(format!("{kind}_reordering"), text);
    }
}
