//! Traces of real runs in virtual time: the spans of a message leave no gap and add up to what perftest
//! itself printed, viewers are told the same, and the same command gives the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value as Json;
use tests::stock::{need, verbena_in, wait_for, Ended, Program};

const LIMIT: Duration = Duration::from_secs(120);

fn run(dir: &Path, arguments: &[&str]) -> Output {
    need("ib_write_lat");
    let output = verbena_in(dir).args(arguments).output().expect("verbena runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "verbena {}: {}\n{said}", arguments.join(" "), output.status);
    output
}

/// A record of the trace file (docs/trace.md).
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    end: u64,
    phase: u8,
    /// Card that did it: bits 4 to 7 of the flags.
    place: u8,
    /// Card, QPN and running number.
    message: (u8, u32, u32),
}

const NAMES: [&str; 13] = [
    "post",
    "doorbell",
    "WQE fetch",
    "payload fetch",
    "TX",
    "wire",
    "RX",
    "DMA write",
    "ACK",
    "CQE",
    "poll",
    "read response",
    "interrupt",
];
/// Phases that a program does, not a card.
const HOST: [u8; 3] = [0, 1, 10];

fn read(path: &Path) -> Vec<Span> {
    let bytes = fs::read(path).expect("a trace");
    assert_eq!((&bytes[..8], &bytes[8..12]), (b"VBTRACE1".as_slice(), 40u32.to_le_bytes().as_slice()));
    let u64_at = |r: &[u8], at: usize| u64::from_le_bytes(r[at..at + 8].try_into().expect("eight bytes"));
    let u32_at = |r: &[u8], at: usize| u32::from_le_bytes(r[at..at + 4].try_into().expect("four bytes"));
    let records = bytes[64..].chunks_exact(40);
    assert!(records.remainder().is_empty(), "the last record is whole");
    let span = |r: &[u8]| Span {
        start: u64_at(r, 0),
        end: u64_at(r, 8),
        phase: r[16],
        place: r[19] >> 4,
        message: (r[17], u32_at(r, 20), u32_at(r, 32)),
    };
    records.map(span).collect()
}

fn sums(spans: impl Iterator<Item = Span>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for span in spans {
        *sums.entry(NAMES[usize::from(span.phase)].to_owned()).or_default() += span.end - span.start;
    }
    sums
}

/// The number behind a word.
fn after(text: &str, word: &str) -> f64 {
    let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no `{word}` in:\n{text}"));
    rest.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Every moment from a message's first span to its last is in one of them.
fn no_gaps(spans: &[Span]) {
    let mut messages: BTreeMap<(u8, u32, u32), Vec<Span>> = BTreeMap::new();
    for span in spans {
        messages.entry(span.message).or_default().push(*span);
    }
    for (message, mut spans) in messages {
        spans.sort_by_key(|span| span.start);
        let mut reached = spans[0].start;
        for span in &spans {
            assert!(span.start <= reached, "{message:?}: nothing between {reached} and {span:?}\n{spans:?}");
            reached = reached.max(span.end);
        }
    }
}

fn latency(test: &str, expected: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    run(
        dir.path(),
        &["trace", "-o", "out", "--card", "cx4lx", "--", test, "-s", "64", "-n", "50", "-m", "1024"],
    );
    let spans = read(&dir.path().join("out/trace.vbtrace"));
    no_gaps(&spans);
    let seen = sums(spans.iter().copied());
    for phase in expected {
        assert!(seen.contains_key(*phase), "{test}: no {phase} in {seen:?}");
    }

    let text = fs::read_to_string(dir.path().join("out/budget.txt")).expect("a budget");
    let printed = text.split("perftest printed:").nth(1).unwrap_or_else(|| panic!("{test}:\n{text}"));
    let counted = text.split("As perftest counts").nth(1).expect("above it");
    for figure in ["t_typical ", "t_avg "] {
        let (counted, printed) = (after(counted, figure), after(printed, figure));
        // perftest prints two digits.
        assert!((counted - printed).abs() <= 0.0055, "{test}: {figure}{counted}, printed {printed}\n{text}");
    }
    // The last table is that of the latency; its parts are of the same messages.
    let table = text.split("phase ").last().expect("a table");
    let part = |line: &str| line.get(16..)?.split_whitespace().next()?.parse::<f64>().ok();
    let parts = table.lines().filter(|line| line.starts_with("  ") && line.contains('%'));
    let sum: f64 = parts.filter(|line| !line.contains("total")).filter_map(part).sum();
    assert!((sum - after(table, "total")).abs() < 0.02, "{test}: {sum}\n{text}");
    let average = after(printed, "t_avg ") * 1000.0;
    assert!((sum / average - 1.0).abs() < 0.01, "{test}: {sum} ns of {average}\n{text}");
    table_of_messages(dir.path());
    viewers(dir.path(), &spans);
}

/// Each message's parts add up to its time.
fn table_of_messages(dir: &Path) {
    let table = fs::read_to_string(dir.join("out/messages.csv")).expect("a table");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][4..9], ["bytes", "start_ps", "total_ps", "post", "doorbell"], "{table}");
    for line in &lines[1..] {
        let numbers: Vec<u64> = line[4..].iter().map(|cell| cell.parse().expect("a number")).collect();
        assert_eq!((numbers[0], numbers[3..].iter().sum::<u64>()), (64, numbers[2]), "{line:?}");
    }
    assert!(lines.len() > 50, "{table}");
}

/// The files for viewers have the time of each phase that the records have.
fn viewers(dir: &Path, spans: &[Span]) {
    let json = fs::read_to_string(dir.join("out/trace.json")).expect("a trace for Perfetto");
    let json: Json = serde_json::from_str(&json).expect("JSON");
    let mut shown: BTreeMap<String, u64> = BTreeMap::new();
    for slice in json["traceEvents"].as_array().expect("a list").iter().filter(|event| event["ph"] == "X") {
        let took = (slice["dur"].as_f64().expect("a time") * 1e6).round() as u64;
        *shown.entry(slice["name"].as_str().expect("a name").to_owned()).or_default() += took;
    }
    assert_eq!(shown, sums(spans.iter().copied()));

    let vcd = fs::read_to_string(dir.join("out/trace.vcd")).expect("waveforms");
    let areas = areas(&vcd);
    let mut checked = 0;
    for (name, area) in &areas {
        let Some((place, name)) = name.strip_prefix("card_").and_then(|rest| rest.split_once('.')) else {
            continue;
        };
        let Some(block) = name.strip_suffix("_depth") else { continue };
        let of = |span: &&Span| {
            let phase = NAMES[usize::from(span.phase)].to_lowercase().replace(' ', "_");
            let phase = if span.phase == 5 { "wire1".to_owned() } else { phase };
            span.place.to_string() == place && phase == block && !HOST.contains(&span.phase)
        };
        let expected: u64 = spans.iter().filter(of).map(|span| span.end - span.start).sum();
        assert_eq!(*area, expected, "card {place}, {block}");
        checked += 1;
    }
    assert!(checked >= 10, "{areas:?}");
}

/// For each variable of more than one bit the sum of value and time, over all the time.
fn areas(vcd: &str) -> BTreeMap<String, u64> {
    let (header, changes) = vcd.split_once("$enddefinitions").expect("definitions");
    assert!(header.contains("$timescale 1 ps $end"), "{header}");
    let (mut scope, mut names) = (String::new(), BTreeMap::new());
    for line in header.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["$scope", "module", name, "$end"] => scope = name.to_owned(),
            ["$var", _, width, id, name, "$end"] if width != "1" => {
                names.insert(id, format!("{scope}.{name}"));
            }
            _ => {}
        }
    }
    let (mut now, mut areas) = (0u64, BTreeMap::new());
    let mut held: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for line in changes.lines() {
        if let Some(time) = line.strip_prefix('#') {
            let time = time.parse().expect("a time");
            assert!(time > now, "time goes from {now} to {time}");
            now = time;
        } else if let Some((bits, id)) = line.strip_prefix('b').and_then(|rest| rest.split_once(' ')) {
            let value = u64::from_str_radix(bits, 2).expect("bits");
            let (since, before) = held.insert(id, (now, value)).unwrap_or((now, 0));
            *areas.entry(names[id].clone()).or_default() += before * (now - since);
        }
    }
    assert!(held.values().all(|(_, value)| *value == 0), "something never ends");
    areas
}

#[test]
fn a_write_adds_up_to_what_perftest_printed() {
    latency(
        "ib_write_lat",
        &["post", "WQE fetch", "payload fetch", "wire", "DMA write", "ACK", "CQE", "poll"],
    );
}

#[test]
fn a_send_adds_up_to_what_perftest_printed() {
    latency("ib_send_lat", &["doorbell", "TX", "RX", "DMA write", "ACK", "CQE", "poll"]);
}

#[test]
fn a_read_adds_up_to_what_perftest_printed() {
    latency("ib_read_lat", &["doorbell", "TX", "RX", "read response", "DMA write", "CQE", "poll"]);
}

/// The two sides connect by messages, some of them as long as those that are measured.
#[test]
fn what_connects_the_sides_is_in_no_budget() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &["trace", "--", "ib_write_lat", "-R", "-s", "4", "-n", "50"]);
    let text = fs::read_to_string(dir.path().join("verbena-trace/budget.txt")).expect("a budget");
    let sizes: Vec<&str> = text.lines().filter(|line| line.starts_with("==")).collect();
    assert_eq!(sizes, ["== 4 bytes, 100 messages"], "{text}");
    assert!(text.contains("Not in these budgets: ") && !text.contains("NOTE: "), "{text}");
    let [counted, printed] = ["As perftest counts", "perftest printed"].map(|line| {
        let line = text.split(line).nth(1).unwrap_or_else(|| panic!("no `{line}` in:\n{text}"));
        after(line, "t_typical ")
    });
    assert!((counted - printed).abs() <= 0.0055, "{text}");
}

/// Two runs of a lossy bandwidth test.
#[test]
fn the_same_run_gives_the_same_trace_and_a_trace_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let table = |trace: &[&str]| {
        let test = ["ib_write_bw", "-s", "3000", "-n", "300", "-q", "2", "-m", "1024"];
        let options = ["perftest", "--clock=virtual", "--out=out", "--fault=loss=0.01,seed=7"];
        let output = run(dir.path(), &[&options, trace, &test].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.split("#bytes").nth(1).unwrap_or_else(|| panic!("no table in {said}")).to_owned()
    };
    let first = table(&["--trace=first"]);
    assert_eq!(first, table(&["--trace=second"]));
    assert_eq!(first, table(&[]), "without a trace");
    let traces = ["first", "second"].map(|name| fs::read(dir.path().join(name)).expect("a trace"));
    assert!(traces[0].len() > 64 + 40 * 300 * 10, "{} bytes", traces[0].len());
    assert!(traces[0] == traces[1], "the traces differ");
}

#[test]
fn what_cannot_be_traced_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    for (options, why) in [
        (["perftest", "--trace=x", "ib_send_bw"].as_slice(), "add --clock virtual"),
        (&["perftest", "--clock=virtual", "--trace=nowhere/x", "ib_send_bw"], "/nowhere/x: No such file"),
    ] {
        let output = verbena_in(dir.path()).args(options).output().expect("verbena runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "no `{why}` in: {said}");
    }
}

/// Whoever has to write it: a side, which shows what it says only when it fails, or the keeper.
#[test]
fn a_trace_that_could_not_be_written_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let trace = dir.path().join("t");
    let try_it = |count: &str| {
        let mut command = verbena_in(dir.path());
        let test = ["--", "ib_send_lat", "-s", "8", "-n", count];
        command.args(["perftest", "--clock=virtual", "--trace=t"]).args(test);
        let perftest = Program::start(command);
        wait_for("no trace was begun", || fs::remove_file(&trace).is_ok());
        perftest.wait(LIMIT)
    };
    for count in ["200", "20000"] {
        // On a busy machine the file may be removed when all is written.
        let mut tries = (0..30).map(|_| try_it(count)).skip_while(Ended::good);
        let ended = tries.next().expect("one of thirty says that the trace is gone");
        assert!(ended.said.contains("t is not complete"), "{count}: {ended}");
    }
}
