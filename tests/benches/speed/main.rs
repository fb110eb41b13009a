//! What stock perftest reaches on the modelled card, beside what the machine does without one, in one run.
//!
//! `cargo bench -p tests` prints a table of ratios and fails when one misses its goal. Needs two cores,
//! and the packages perftest and ucx-utils. Absolute figures drift with the machine; the ratios count.
//!
//! `ib_write_bw` is a copy on one core here: the thread that posts runs the peer's card too, the server sleeps, and
//! nobody reads what was written. So it is compared with a copy on one core. The rows with a reader measure what arrives at
//! another core.
#![allow(unsafe_code)]

mod ethernet;
mod limits;
mod link;
mod pin;
mod programs;
mod row;

use programs::{by_packet, by_udp, cma, last_row, pair, perftest, reader, ucx, UNPRIVILEGED};
use row::{heading, median, verdict, Goal, Row};

/// Tries per figure; their median counts, as it does for the limits.
const TRIES: u32 = 3;
/// Pairs of a limit and a figure whose median counts, for limits that change.
const PAIRS: usize = 5;
/// Tries for them.
const MOST_TRIES: u32 = 12;
/// By how much a limit may differ before and after a try.
const STEADY: f64 = 1.4;

/// Average bandwidth that perftest (or `ucx_perftest`, in another column) printed, in GB/s.
fn bandwidth(text: &str, column: usize) -> f64 {
    last_row(text)[column] * 1048576.0 / 1e9
}

/// Message rate of one perftest run in millions a second.
fn rate(test: &str, options: &str) -> f64 {
    last_row(&perftest(test, options))[4]
}

/// Typical latency of one perftest run in nanoseconds.
fn latency(test: &str, options: &str) -> f64 {
    last_row(&perftest(test, options))[4] * 1000.0
}

/// A limit beside several figures: the limit is measured before and after each of them. The median of the limit, and of
/// each figure the median and that of its ratio to the limit around it.
fn among(limit: impl Fn() -> f64, runs: &[&dyn Fn() -> f64]) -> (f64, Vec<(f64, f64)>) {
    let (mut limits, mut found) = (vec![limit()], vec![Vec::new(); runs.len()]);
    for _ in 0..TRIES {
        for (run, found) in runs.iter().zip(&mut found) {
            let before = limits[limits.len() - 1];
            let reached = run();
            let after = limit();
            limits.push(after);
            found.push((reached, reached / (before * after).sqrt()));
        }
    }
    let each = found.into_iter().map(|tries| {
        let (reached, ratios) = tries.into_iter().unzip();
        (median("figures", reached), median("ratios", ratios))
    });
    let each = each.collect();
    (median("limits", limits), each)
}

/// A limit and what is reached, the pair whose ratio is the median of several.
///
/// For limits that change from second to second, as the way from core to core does on a virtual machine whose
/// cores move: the limit is measured before and after each try, and a try between two moods does not count.
fn beside(limit: impl Fn() -> f64, reached: impl Fn() -> f64) -> (f64, f64) {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    let mut before = limit();
    for _ in 0..MOST_TRIES {
        let reached = reached();
        let after = limit();
        if before.max(after) < STEADY * before.min(after) {
            pairs.push(((before * after).sqrt(), reached));
        }
        before = after;
        if pairs.len() == PAIRS {
            break;
        }
    }
    assert!(
        !pairs.is_empty(),
        "the machine's own limit changed during each of {MOST_TRIES} tries: run this on a quieter one"
    );
    median_pair(&mut pairs)
}

/// Rates of two runs of `ib_write_bw`, with `one` and `other` queue pairs, on the same two cores at the same time, so
/// that each has half of the processors. Of several pairs, the one whose ratio is the median.
///
/// In sequence they would often meet different clock rates, where those change within seconds.
fn at_once(one: u32, other: u32) -> (f64, f64) {
    // What is done once for each queue pair, the first use of each page and what one of the two does alone fall into the
    // seconds at both ends that perftest does not count.
    let of = |qps| rate("ib_write_bw", &format!("-N -m 4096 -s 8 -t 128 -q {qps} -D 5 -f 1"));
    let mut pairs: Vec<(f64, f64)> = (0..PAIRS)
        .map(|_| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| of(other));
                (of(one), other.join().expect("the run beside it failed, see above"))
            })
        })
        .collect();
    median_pair(&mut pairs)
}

/// The pair with the median ratio.
fn median_pair(pairs: &mut [(f64, f64)]) -> (f64, f64) {
    pairs.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    if std::env::var_os("SPEED_VERBOSE").is_some() {
        eprintln!("  pairs: {pairs:.3?}");
    }
    pairs[pairs.len() / 2]
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    // Built before anything is pinned or measured.
    tests::stock::verbena();
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|o| name.contains(o));
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |row: Row| {
        row.print();
        rows.push(row);
    };
    heading("perftest");
    for (size, goals) in [(65_536usize, [0.45, 0.3]), (1 << 20, [0.7, 0.5])] {
        let name = if size == 65_536 { "64 KiB" } else { "1 MiB" };
        let iterations = if size == 65_536 { 20_000 } else { 4_000 };
        if wanted("bandwidth") {
            copies(size, name, iterations, goals, &mut add);
        }
        if wanted("kernel") {
            kernel_copies(size, name, iterations, &mut add);
        }
        if wanted("put") {
            let options = format!("-m 4096 -s {size} -n {iterations}");
            let put = || bandwidth(&ucx("ucp_put_bw", "posix,self", size, iterations), 4);
            let (put, each) = among(put, &[&|| bandwidth(&perftest("ib_write_bw", &options), 3)]);
            // Both are a copy by one core into memory that nobody reads.
            add(row(format!("ib_write_bw {name}, of UCX put (posix)"), put, each[0], Goal::AtLeast(0.5)));
        }
        if wanted("reader") {
            let (limit, each) = among(|| limits::copy_and_read(size) / 1e9, &[&|| reader(size, iterations)]);
            add(row(format!("SEND {name} to a reader, of copy and read"), limit, each[0], Goal::None));
        }
    }
    if wanted("rate") {
        let ring = || limits::bare_ring() / 1e6;
        let (ring, reached) = beside(ring, || rate("ib_write_bw", "-m 4096 -s 8 -t 128 -n 2000000"));
        add(Row {
            what: "ib_write_bw 8 B (one core), beside a 64 B ring (two)".into(),
            limit: ring,
            reached,
            ratio: reached / ring,
            unit: "M/s",
            goal: Goal::AtLeast(0.2),
        });
    }
    if wanted("udp") {
        udp(&mut add);
    }
    if wanted("ethernet") {
        ethernet::rows(&mut add);
    }
    if wanted("latency") {
        for (test, goal) in [("ib_write_lat", 3.0), ("ib_send_lat", 4.0)] {
            let (line, reached) = beside(limits::line_one_way, || latency(test, "-s 8 -n 200000"));
            add(Row {
                what: format!("{test} 8 B, of the line's one-way time"),
                limit: line,
                reached,
                ratio: reached / line,
                unit: "ns",
                goal: Goal::AtMost(goal),
            });
        }
    }
    if wanted("qps") {
        for qps in [16, 128, 1024] {
            let (one, reached) = at_once(1, qps);
            add(Row {
                what: format!("ib_write_bw 8 B, {qps} QPs, of one QP"),
                limit: one,
                reached,
                ratio: reached / one,
                unit: "M/s",
                goal: Goal::AtLeast(0.75),
            });
        }
    }
    if wanted("memory") {
        memory();
    }
    // The last one: its network has none of the others' addresses.
    if wanted("packet") {
        packet(&mut add);
    }
    verdict(&rows);
}

fn row(what: String, limit: f64, (reached, ratio): (f64, f64), goal: Goal) -> Row {
    Row { what, limit, reached, ratio, unit: "GB/s", goal }
}

/// Two nets whose ports lead to each other by UDP, beside datagrams of the same size without a card: of the path MTU of
/// 4096 with the longest headers, and of one WRITE of 8 bytes. The first packet of a WRITE is longer than the others, and the
/// kernel takes datagrams of one length at a time, but for the last, and less than 64 KiB: 64 KiB leave by two calls.
fn udp(add: &mut impl FnMut(Row)) {
    const FULL: usize = 4170;
    const SHORT: usize = 74;
    let blast = |counts: &[usize]| limits::udp_blast(FULL, counts) * 4096.0 / FULL as f64 / 1e9;
    let (limit, each) = among(
        || blast(&[limits::most_segments(FULL)]),
        &[&|| bandwidth(&by_udp("ib_write_bw", "-m 4096 -s 65536 -n 20000"), 3), &|| blast(&[2, 14])],
    );
    let what = "ib_write_bw 64 KiB by UDP, of a bare blast".to_owned();
    add(row(what, limit, each[0], Goal::AtLeast(0.5)));
    add(row("two calls for 64 KiB, of a bare blast".to_owned(), limit, each[1], Goal::None));
    let blast = || {
        let counts = [limits::most_segments(SHORT)];
        limits::udp_blast(SHORT, &counts) / SHORT as f64 / 1e6
    };
    let rate =
        |depth: u32| last_row(&by_udp("ib_write_bw", &format!("-m 4096 -s 8 -t {depth} -n 1000000")))[4];
    // perftest asks for every hundredth completion: with its 128 requests in flight both sides wait for each other.
    let depths = [(512, Goal::AtLeast(0.25)), (128, Goal::None)];
    let (limit, each) = among(blast, &[&|| rate(depths[0].0), &|| rate(depths[1].0)]);
    for ((depth, goal), reached) in depths.into_iter().zip(each) {
        let what = format!("ib_write_bw 8 B -t {depth} by UDP, of a bare blast of 74 B");
        add(Row { unit: "M/s", ..row(what, limit, reached, goal) });
    }
}

/// Two nets whose ports are the ends of a cable, beside frames of the same size by the kernel's rings without a card.
fn packet(add: &mut impl FnMut(Row)) {
    const FULL: usize = 4170;
    link::make_cable();
    let blast = || link::ring_blast(FULL) * 4096.0 / FULL as f64 / 1e9;
    let run = || bandwidth(&by_packet("ib_write_bw", "-m 4096 -s 65536 -n 5000", link::ENDS), 3);
    let (limit, each) = among(blast, &[&run]);
    let what = "ib_write_bw 64 KiB by `packet:`, of a bare ring blast".to_owned();
    add(row(what, limit, each[0], Goal::AtLeast(0.5)));
}

/// `ib_write_bw` beside a hot copy: plain buffers, shared files, and the exact wire, which makes frames of everything.
fn copies(size: usize, name: &str, iterations: usize, goals: [f64; 2], add: &mut impl FnMut(Row)) {
    let file = tempfile::NamedTempFile::new().expect("a file to map");
    file.as_file().set_len(64 << 20).expect("room for the file");
    let plain = format!("-m 4096 -s {size} -n {iterations}");
    let mapped = format!("{plain} --mmap={}", file.path().display());
    let run = |made: &[&str], options: &str| bandwidth(&pair(made, "ib_write_bw", options, options), 3);
    let (copy, each) = among(
        || limits::memcpy(size) / 1e9,
        &[&|| run(&[], &plain), &|| run(&[], &mapped), &|| run(&["--wire", "exact"], &plain)],
    );
    for ((what, goal), figures) in [
        ("of hot memcpy", Goal::AtLeast(goals[0])),
        ("both buffers a shared file", Goal::AtLeast(goals[1])),
        ("on the exact wire", Goal::None),
    ]
    .into_iter()
    .zip(each)
    {
        add(row(format!("ib_write_bw {name}, {what}"), copy, figures, goal));
    }
}

/// Buffers that can neither move into the segment nor be mapped by the peer, beside UCX's `cma`, which copies by the same
/// system calls: no slower, but for noise. Shared anonymous memory is of that kind: it has no file that an ordinary user can open.
fn kernel_copies(size: usize, name: &str, iterations: usize, add: &mut impl FnMut(Row)) {
    let plain = format!("-m 4096 -s {size} -n {iterations}");
    let shared = format!("{plain} --mmap=/dev/zero");
    let run = |client: &str| bandwidth(&pair(&[UNPRIVILEGED], "ib_write_bw", &shared, client), 3);
    let (cma, each) = among(|| bandwidth(&cma(size, iterations), 4), &[&|| run(&plain), &|| run(&shared)]);
    for ((what, goal), figures) in
        [("peer's buffer not mappable", Goal::AtLeast(0.95)), ("neither buffer mappable", Goal::None)]
            .into_iter()
            .zip(each)
    {
        add(row(format!("ib_write_bw {name}, {what}, of UCX cma"), cma, figures, goal));
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
    tests::stock::status("/proc/self", "VmRSS").expect("KiB") as usize * 1024
}
