//! How the cards scale: pairs of processes, and threads of one, that have nothing to do with each other, at the same time.
//!
//! `cargo bench -p tests --bench scaling` prints a table of ratios and fails when one misses its
//! goal; `-- pairs`, `datagrams`, `threads`, `crowd` or `alone` is one part. Needs two cores. The sides of a row send in turns, in windows
//! of an eighth of a second, so that what else the machine does meets all of them; the median of the ratios counts. All programs are on stock verbs
//! ([`tests/c/scale.c`](../../c/scale.c)).
//!
//! `VERBENA_BEFORE=.../release/verbena` names another build: the part `alone` compares one pair on it with one on this.
#![allow(unsafe_code)]

mod net;
// Not all kinds of goal are here.
#[allow(dead_code)]
#[path = "../speed/row.rs"]
mod row;

use std::path::Path;

use net::{window, Net, Pair, Stream};
use row::{heading, median, verdict, Goal, Row};
use tests::stock::verbena;

/// Windows of each side of a row.
const ROUNDS: usize = 11;

const SIZES: [(&str, usize); 4] = [("8 B", 8), ("4 KiB", 4096), ("64 KiB", 65_536), ("1 MiB", 1 << 20)];

/// Rates of several sides, in turns; of each the median, and that of its ratio to the first.
fn beside(sides: &mut [&mut dyn FnMut() -> f64]) -> Vec<(f64, f64)> {
    // The first use of a page or a path costs more.
    for side in sides.iter_mut() {
        side();
    }
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for round in 0..ROUNDS {
        let mut rates = vec![0.0; sides.len()];
        let order: Vec<usize> = (0..sides.len()).collect();
        // Every other time the other way round.
        let order: Vec<usize> = if round % 2 == 0 { order } else { order.into_iter().rev().collect() };
        for n in order {
            rates[n] = sides[n]();
        }
        rounds.push(rates);
    }
    let middle = |what, figure: &dyn Fn(&Vec<f64>) -> f64| median(what, rounds.iter().map(figure).collect());
    let figures = |n| (middle("rates", &|rates| rates[n]), middle("ratios", &|rates| rates[n] / rates[0]));
    (0..sides.len()).map(figures).collect()
}

/// A row of messages or, of long ones, bytes a second.
fn row(what: String, stream: Stream, limit: f64, (reached, ratio): (f64, f64), goal: Goal) -> Row {
    let (unit, scale) = if stream.size < 4096 { ("M/s", 1e-6) } else { ("GB/s", stream.size as f64 * 1e-9) };
    Row { what, limit: limit * scale, reached: reached * scale, ratio, unit, goal }
}

/// Two pairs, each on a core, on two nets, on one, and on one pair of cards; and four pairs on the two cores.
fn pairs(scale: &Path, part: &str, add: &mut impl FnMut(Row)) {
    let on = |net: &Net, first: u32, core: &str| net.pair(scale, first, 1, [core; 2], &[]);
    let [left, right, both, shared] = [2, 2, 4, 2].map(|cards| Net::new(verbena(), cards));
    let mut apart = [on(&left, 0, "0"), on(&right, 0, "1")];
    let all = |pairs: &mut [Pair], stream| window(&mut pairs.iter_mut().collect::<Vec<_>>(), stream, 1);
    if part != "crowd" {
        let mut together = [on(&both, 0, "0"), on(&both, 2, "1")];
        let mut one = [on(&shared, 0, "0"), on(&shared, 0, "1")];
        for kind in ["write", "send"] {
            for (name, size) in SIZES {
                let stream = Stream { kind, size };
                let found = beside(&mut [
                    &mut || all(&mut apart, stream),
                    &mut || all(&mut together, stream),
                    &mut || all(&mut one, stream),
                ]);
                for (what, figures) in
                    ["two pairs in one net", "two pairs on the same cards"].iter().zip(&found[1..])
                {
                    let what = format!("{kind} {name}, {what}, of two nets");
                    add(row(what, stream, found[0].0, *figures, Goal::AtLeast(0.9)));
                }
            }
        }
    }
    if part != "pairs" {
        let mut crowd = [on(&both, 0, "0"), on(&both, 2, "1"), on(&both, 0, "0"), on(&both, 2, "1")];
        for (name, size) in [SIZES[0], SIZES[2]] {
            let stream = Stream { kind: "write", size };
            let found = beside(&mut [&mut || all(&mut apart, stream), &mut || all(&mut crowd, stream)]);
            let what = format!("write {name}, 4 pairs in one net, of 2 pairs in 2 nets");
            add(row(what, stream, found[0].0, found[1], Goal::AtLeast(0.8)));
        }
    }
}

/// Two pairs of UD queue pairs, on two nets and on one.
fn datagrams(scale: &Path, add: &mut impl FnMut(Row)) {
    let on = |net: &Net, first: u32, core: &str| net.pair(scale, first, 1, [core; 2], &["ud"]);
    let [left, right, both] = [2, 2, 4].map(|cards| Net::new(verbena(), cards));
    let mut apart = [on(&left, 0, "0"), on(&right, 0, "1")];
    let mut together = [on(&both, 0, "0"), on(&both, 2, "1")];
    let all = |pairs: &mut [Pair], stream| window(&mut pairs.iter_mut().collect::<Vec<_>>(), stream, 1);
    let stream = Stream { kind: "send", size: SIZES[0].1 };
    let found = beside(&mut [&mut || all(&mut apart, stream), &mut || all(&mut together, stream)]);
    let what = format!("send UD {}, two pairs in one net of two nets", SIZES[0].0);
    add(row(what, stream, found[0].0, found[1], Goal::AtLeast(0.9)));
}

/// Threads of one process, each with a queue pair.
fn threads(scale: &Path, add: &mut impl FnMut(Row)) {
    let net = Net::new(verbena(), 2);
    let mut own = net.pair(scale, 0, 2, ["spread"; 2], &[]);
    let mut one_cq = net.pair(scale, 0, 16, ["spread"; 2], &["shared"]);
    let own = std::cell::RefCell::new(&mut own);
    let one_cq = std::cell::RefCell::new(&mut one_cq);
    for (name, size) in &SIZES[..2] {
        let stream = Stream { kind: "write", size: *size };
        let on = |pair: &std::cell::RefCell<&mut Pair>, threads| {
            window(&mut [&mut pair.borrow_mut()], stream, threads)
        };
        let found =
            beside(&mut [&mut || on(&own, 1), &mut || on(&own, 2), &mut || on(&one_cq, 2), &mut || {
                on(&one_cq, 16)
            }]);
        let rows =
            [("two threads, a CQ each", 1.7), ("two threads, one CQ", 1.0), ("16 threads, one CQ", 0.5)];
        for ((what, goal), figures) in rows.into_iter().zip(&found[1..]) {
            let what = format!("write {name}, {what}, of one thread");
            add(row(what, stream, found[0].0, *figures, Goal::AtLeast(goal)));
        }
    }
}

/// One pair alone, each side on a core, on another build and on this one.
fn alone(scale: &Path, before: &Path, add: &mut impl FnMut(Row)) {
    let nets = [before, verbena()].map(|verbena| Net::new(verbena, 2));
    let [mut before, mut now] = nets.each_ref().map(|net| net.pair(scale, 0, 1, ["0", "1"], &[]));
    for kind in ["write", "send"] {
        for (name, size) in SIZES {
            let stream = Stream { kind, size };
            let found = beside(&mut [&mut || window(&mut [&mut before], stream, 1), &mut || {
                window(&mut [&mut now], stream, 1)
            }]);
            let what = format!("{kind} {name}, one pair alone, of the build before");
            add(row(what, stream, found[0].0, found[1], Goal::AtLeast(0.95)));
        }
    }
}

fn main() {
    // `cargo test --benches` only checks that it builds.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    // Built before anything is pinned or measured.
    tests::stock::verbena();
    let only = std::env::args().skip(1).find(|a| !a.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| name == only);
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |row: Row| {
        row.print();
        rows.push(row);
    };
    let scale = tests::stock::compile_c("scale");
    heading("together");
    if wanted("pairs") || wanted("crowd") {
        pairs(&scale, only.as_deref().unwrap_or_default(), &mut add);
    }
    if wanted("datagrams") {
        datagrams(&scale, &mut add);
    }
    if wanted("threads") {
        threads(&scale, &mut add);
    }
    if let Some(before) = std::env::var_os("VERBENA_BEFORE").filter(|_| wanted("alone")) {
        alone(&scale, Path::new(&before), &mut add);
    }
    verdict(&rows);
}
