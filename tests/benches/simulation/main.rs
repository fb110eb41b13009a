//! How fast simulated time passes: the machine's time over it, for stock perftest on 10GbE cards.
//!
//! `cargo bench -p tests --bench simulation` prints each ratio beside its goal and fails when one is missed.
//! What a run takes to start, and perftest's measuring of the processor's clock, are not counted: two
//! runs of different length are compared. Needs two cores and the package perftest, and the machine
//! for itself.
#![allow(unsafe_code)]

mod cards;
mod event;
mod handover;
#[path = "../speed/pin.rs"]
mod pin;

use std::process::Command;

use tests::stock::verbena;

/// Tries per figure; their median counts.
const TRIES: usize = 5;

/// A figure and its goal.
struct Row {
    what: &'static str,
    reached: f64,
    at_most: f64,
}

impl Row {
    fn print(&self) {
        let verdict = if self.met() { "" } else { "  MISSED" };
        println!("{:<58} {:>8.2}   at most {:.1}{verdict}", self.what, self.reached, self.at_most);
    }

    /// A ratio below zero is one of times that differ by less than they vary.
    fn met(&self) -> bool {
        0.0 < self.reached && self.reached <= self.at_most
    }
}

/// What is run: options, and the iterations of the shorter and the longer run.
struct Load {
    what: &'static str,
    one_core: bool,
    options: &'static str,
    iterations: [u32; 2],
    at_most: f64,
}

const fn load(
    what: &'static str,
    one_core: bool,
    options: &'static str,
    iterations: [u32; 2],
    at_most: f64,
) -> Load {
    Load { what, one_core, options, iterations, at_most }
}

/// Up to 20,000 iterations perftest reads the time stamp counter for each post and completion, which traps each time,
/// and looks for the peak by comparing each post with each hundredth, which is not the simulation's but counts.
const LOADS: [Load; 6] = [
    load("64 KiB, two cores", false, "-s 65536", [21_000, 42_000], 1.0),
    load("8 B, two cores, -n 100000 and more", false, "-s 8", [100_000, 600_000], 5.0),
    load("8 B, two cores, perftest's default", false, "-s 8", [2_000, 20_000], 50.0),
    load("64 KiB, one core", true, "-s 65536", [21_000, 42_000], 10.0),
    load("8 B, one core, -n 100000 and more", true, "-s 8", [100_000, 600_000], 50.0),
    load("8 B, one core, perftest's default", true, "-s 8", [2_000, 20_000], 50.0),
];

/// Simulated and real seconds of a run, as the command tells them.
fn run(test: &str, load: &Load, iterations: u32) -> (f64, f64) {
    let mut command = Command::new(if load.one_core { "taskset" } else { "env" });
    if load.one_core {
        command.args(["-c", "0"]);
    }
    let out = tempfile::tempdir().expect("a directory");
    command.arg(verbena()).args(["perftest", "--clock", "virtual", "--card", "cx4lx", "--out"]);
    command.arg(out.path()).arg(test).args(load.options.split(' ')).args(["-n", &iterations.to_string()]);
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} {} failed:\n{said}", load.options);
    let line =
        said.lines().find_map(|line| line.strip_prefix("verbena: ")?.split_once(" s of simulated time, in "));
    let (simulated, real) = line.unwrap_or_else(|| panic!("no times in:\n{said}"));
    let number = |text: &str| text.trim_end_matches(" s").parse().expect("seconds");
    (number(simulated), number(real))
}

/// Real over simulated time of what the longer run does more.
fn ratio(test: &str, load: &Load) -> f64 {
    // A run's start varies by some ten milliseconds, which counts where the longer one is not much longer.
    let tries = if load.iterations[1] < 50_000 { 3 * TRIES } else { TRIES };
    let runs: Vec<_> = (0..tries).map(|_| load.iterations.map(|n| run(test, load, n))).collect();
    let [short, long] = [0, 1].map(|which| {
        let mut real: Vec<f64> = runs.iter().map(|pair| pair[which].1).collect();
        real.sort_by(f64::total_cmp);
        real[real.len() / 2]
    });
    // The same in every run.
    let [(short_simulated, _), (long_simulated, _)] = runs[0];
    (long - short) / (long_simulated - short_simulated)
}

/// Starts again with addresses that are not random, as programs in simulated time have them: with random ones the
/// cost of an event differs by half from run to run.
fn same_addresses() {
    use std::os::unix::process::CommandExt;
    // SAFETY: personality(2) with plain numbers.
    let set = |persona: libc::c_ulong| unsafe { libc::personality(persona) };
    let now = set(0xffff_ffff);
    let fixed = now | libc::ADDR_NO_RANDOMIZE;
    if now < 0 || now == fixed || set(fixed as libc::c_ulong) < 0 {
        return;
    }
    let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).exec();
    panic!("this program does not start again: {error}");
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    // Built before anything is pinned or measured.
    tests::stock::verbena();
    same_addresses();
    if std::env::args().any(|a| a == event::ALONE) {
        return event::alone();
    }
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    let mut rows: Vec<Row> = Vec::new();
    println!("handing over between two processes, each way:");
    println!("  two cores, spinning {:>8.0} ns", handover::spinning());
    println!("  two cores, futex    {:>8.0} ns", handover::futex(false));
    println!("  one core, futex     {:>8.0} ns", handover::futex(true));
    if wanted("event") {
        let event::Cost { event, per_message, bare } = event::cost();
        println!(
            "an event: {event:.1} ns with all that a message costs, {per_message:.1} events a message of 8 B"
        );
        println!("a push and a pop of the event queue: {bare:.1} ns");
        rows.push(Row { what: "cost of an event, of a push and a pop", reached: event / bare, at_most: 4.0 });
    }
    if wanted("cards") {
        rows.push(cards::cost());
    }
    println!("\nreal over simulated time, ib_write_bw and ib_send_bw on cx4lx:");
    for load in LOADS.iter().filter(|load| wanted(load.what)) {
        for (test, what) in [("ib_write_bw", "ib_write_bw "), ("ib_send_bw", "ib_send_bw ")] {
            let what = String::leak([what, load.what].concat());
            rows.push(Row { what, reached: ratio(test, load), at_most: load.at_most });
            rows[rows.len() - 1].print();
        }
    }
    println!();
    rows.iter().for_each(Row::print);
    let missed = rows.iter().filter(|row| !row.met()).count();
    println!("\n{} of {} goals met", rows.len() - missed, rows.len());
    if missed != 0 {
        std::process::exit(1);
    }
}
