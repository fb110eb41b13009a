//! What stock perftest reaches on the modelled card, beside the limits of this machine, in one run.
//!
//! `cargo bench -p tests` prints a table of ratios and fails when one misses its goal. Needs two cores,
//! and the packages perftest and ucx-utils. Absolute figures drift with the machine; the ratios count.
#![allow(unsafe_code)]

mod command;
mod limits;
mod pin;
mod programs;

use limits::typical;
use programs::{last_row, perftest, ucx};

/// Tries per figure; their median counts, as it does for the limits.
const TRIES: u32 = 3;

struct Row {
    what: String,
    limit: String,
    reached: String,
    ratio: f64,
    /// At least (bandwidth, rate) or at most (latency) this.
    goal: Goal,
}

enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Row {
    fn met(&self) -> bool {
        match self.goal {
            Goal::AtLeast(goal) => self.ratio >= goal,
            Goal::AtMost(goal) => self.ratio <= goal,
        }
    }
}

/// Average bandwidth of a perftest run in GB/s.
fn bandwidth(test: &str, options: &str) -> f64 {
    typical(TRIES, || last_row(&perftest(test, options))[3] * 1048576.0 / 1e9)
}

/// Message rate of a perftest run in millions a second.
fn rate(test: &str, options: &str) -> f64 {
    typical(TRIES, || last_row(&perftest(test, options))[4])
}

/// Typical latency of a perftest run in nanoseconds.
fn latency(test: &str, options: &str) -> f64 {
    typical(TRIES, || last_row(&perftest(test, options))[4] * 1000.0)
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |row: Row| {
        println!(
            "{:<46} {:>16} {:>16} {:>7.2}  {}",
            row.what,
            row.limit,
            row.reached,
            row.ratio,
            describe(&row)
        );
        rows.push(row);
    };
    println!("{:<46} {:>16} {:>16} {:>7}  goal", "", "limit", "perftest", "ratio");
    for (size, goal, unmapped_goal) in [(65_536usize, 0.45, 0.3), (1 << 20, 0.7, 0.5)] {
        let name = if size == 65_536 { "64 KiB" } else { "1 MiB" };
        let iterations = if size == 65_536 { 20_000 } else { 4_000 };
        if wanted("bandwidth") {
            let copy = limits::memcpy(size) / 1e9;
            let reached = bandwidth("ib_write_bw", &format!("-m 4096 -s {size} -n {iterations}"));
            add(Row {
                what: format!("ib_write_bw {name}, of hot memcpy"),
                limit: format!("{copy:.1} GB/s"),
                reached: format!("{reached:.1} GB/s"),
                ratio: reached / copy,
                goal: Goal::AtLeast(goal),
            });
            let tag = typical(TRIES, || last_row(&ucx("tag_bw", size, iterations))[4] * 1048576.0 / 1e9);
            add(Row {
                what: format!("ib_write_bw {name}, of UCX tag (posix + cma)"),
                limit: format!("{tag:.1} GB/s"),
                reached: format!("{reached:.1} GB/s"),
                ratio: reached / tag,
                goal: Goal::AtLeast(1.0),
            });
        }
        if wanted("unmapped") {
            let copy = limits::memcpy(size) / 1e9;
            println!(
                "from core to core through shared slots, copied twice: {:.1} GB/s",
                limits::double_copy() / 1e9
            );
            let file = tempfile::NamedTempFile::new().expect("a file to map");
            file.as_file().set_len(64 << 20).expect("room for the file");
            let options = format!("-m 4096 -s {size} -n {iterations} --mmap={}", file.path().display());
            // A shared file mapping cannot be moved; others may map the file. Then as if they could not.
            for (what, others_can_map) in [("a shared file", true), ("not mappable", false)] {
                if others_can_map {
                    std::env::remove_var("VERBENA_NO_WINDOWS");
                } else {
                    std::env::set_var("VERBENA_NO_WINDOWS", "1");
                }
                let reached = bandwidth("ib_write_bw", &options);
                add(Row {
                    what: format!("ib_write_bw {name}, buffer {what}"),
                    limit: format!("{copy:.1} GB/s"),
                    reached: format!("{reached:.1} GB/s"),
                    ratio: reached / copy,
                    goal: Goal::AtLeast(unmapped_goal),
                });
            }
            std::env::remove_var("VERBENA_NO_WINDOWS");
        }
    }
    if wanted("rate") {
        let ring = limits::bare_ring() / 1e6;
        let reached = rate("ib_write_bw", "-m 4096 -s 8 -t 128 -n 2000000");
        add(Row {
            what: "ib_write_bw 8 B, of a bare 64 B ring".into(),
            limit: format!("{ring:.1} M/s"),
            reached: format!("{reached:.1} M/s"),
            ratio: reached / ring,
            goal: Goal::AtLeast(0.2),
        });
    }
    if wanted("latency") {
        for (test, goal) in [("ib_write_lat", 3.0), ("ib_send_lat", 4.0)] {
            let line = limits::line_one_way();
            let reached = latency(test, "-s 8 -n 200000");
            add(Row {
                what: format!("{test} 8 B, of the line's one-way time"),
                limit: format!("{line:.0} ns"),
                reached: format!("{reached:.0} ns"),
                ratio: reached / line,
                goal: Goal::AtMost(goal),
            });
        }
    }
    if wanted("qps") {
        let one = rate("ib_write_bw", "-N -m 4096 -s 8 -t 128 -n 1000000");
        for qps in [16, 128, 1024] {
            // Whole hundreds: perftest 4.5 credits the last completion of a QP with a full --cq-mod (100),
            // and may then stop polling while other QPs still wait for theirs.
            let each = (20_000 / qps).max(10) * 100;
            let reached = rate("ib_write_bw", &format!("-N -m 4096 -s 8 -t 128 -q {qps} -n {each}"));
            add(Row {
                what: format!("ib_write_bw 8 B, {qps} QPs, of one QP"),
                limit: format!("{one:.1} M/s"),
                reached: format!("{reached:.1} M/s"),
                ratio: reached / one,
                goal: Goal::AtLeast(0.75),
            });
        }
    }
    if wanted("memory") {
        memory();
    }
    let missed = rows.iter().filter(|r| !r.met()).count();
    println!("\n{} of {} goals met", rows.len() - missed, rows.len());
    if missed != 0 {
        std::process::exit(1);
    }
}

/// What a QP costs: the card's context, and what a process grows by for each (rings of 128, no buffers).
fn memory() {
    const QPS: usize = 1024;
    let net = tests::Net::new(1);
    let device = net.open(0);
    let options =
        tests::Options { depth: 128, sges: 1, inline: 0, bytes: 4096, cqes: 128, ..Default::default() };
    let first = tests::Peer::new(&device, options);
    let before = resident();
    let qps: Vec<_> = (0..QPS).map(|_| first.another_qp()).collect();
    let each = (resident() - before) / QPS;
    println!(
        "\nmemory of an RC QP, 128 sends and 128 receives deep: {each} bytes in all ({} of them the card's context)",
        size_of::<model::device::qp::Qp>()
    );
    drop(qps);
}

/// Resident memory of this process, which holds the card too.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

fn describe(row: &Row) -> String {
    let (sign, goal) = match row.goal {
        Goal::AtLeast(goal) => ("at least", goal),
        Goal::AtMost(goal) => ("at most", goal),
    };
    format!("{sign} {goal:.2}{}", if row.met() { "" } else { "  MISSED" })
}
