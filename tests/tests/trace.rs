//! `verbena trace` on traces whose times are known: what it says adds up, and what it writes is what
//! viewers read.

#[path = "trace/writer.rs"]
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::BufReader;

use std::process::{Command, Output};

use serde_json::Value as Json;
use tests::stock::verbena;
use writer::{file, one_at_a_time, one_way, ping_pong, pipelined, Record, BACK, FORWARD, PROGRAM};

struct Run {
    dir: tempfile::TempDir,
    output: Output,
}

fn trace(bytes: &[u8], options: &[&str]) -> Run {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("input");
    fs::write(&path, bytes).expect("a trace");
    let output = Command::new(verbena())
        .args(["trace", "--read"])
        .arg(&path)
        .arg("--out")
        .arg(dir.path())
        .args(options)
        .output()
        .expect("verbena runs");
    Run { dir, output }
}

impl Run {
    fn good(self) -> Run {
        assert!(self.output.status.success(), "{}", self.stderr());
        self
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// The tables of a budget: by part the mean in picoseconds.
fn tables(text: &str) -> Vec<BTreeMap<String, i64>> {
    let mut tables = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("phase ") {
            tables.push(BTreeMap::new());
        }
        let (Some(table), Some(name)) = (tables.last_mut(), line.get(2..16)) else {
            continue;
        };
        let mean = line
            .get(16..)
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|cell| cell.parse::<f64>().ok());
        if let (Some(mean), true) = (mean, line.starts_with("  ")) {
            table.insert(name.trim().to_owned(), (mean * 1000.0).round() as i64);
        }
    }
    tables
}

/// The parts are as expected, and the total is their sum.
fn expect_table(table: &BTreeMap<String, i64>, expected: &[(&str, u64)]) {
    let mut expected: BTreeMap<String, i64> =
        expected.iter().map(|(name, took)| ((*name).to_owned(), *took as i64)).collect();
    expected.insert("total".to_owned(), expected.values().sum());
    assert_eq!(*table, expected);
}

const NAMES: [&str; 11] =
    ["post", "doorbell", "WQE fetch", "payload fetch", "TX", "wire", "RX", "DMA write", "ACK", "CQE", "poll"];

fn named(phases: &[(u8, u64)]) -> Vec<(&'static str, u64)> {
    phases.iter().map(|(phase, took)| (NAMES[usize::from(*phase)], *took)).collect()
}

#[test]
fn half_the_round_trip_of_a_ping_pong() {
    let run = trace(&file(2, "cx4lx", 40, &ping_pong(20, 64)), &["--format", "text"]).good();
    let text = run.file("budget.txt");
    assert!(text.contains("2 cards `cx4lx`") && text.contains("== 64 bytes, 40 messages"), "{text}");
    assert_eq!(text.trim(), String::from_utf8_lossy(&run.output.stdout).trim());
    let tables = tables(&text);
    assert_eq!(tables.len(), 2, "{text}");
    expect_table(&tables[0], &[named(&FORWARD), named(&BACK)].concat());
    expect_table(&tables[1], &[named(&FORWARD), vec![("program", PROGRAM)]].concat());
    let microseconds = one_way() as f64 / 1e6;
    let said = format!("t_typical {microseconds:.4} us, t_avg {microseconds:.4} us");
    assert!(text.contains("Half the round trip") && text.contains(&said), "no `{said}` in:\n{text}");
}

#[test]
fn the_whole_round_trip_of_a_program_that_waits() {
    let text =
        trace(&file(2, "f10a", 40, &one_at_a_time(10, 8)), &["--format", "text"]).good().file("budget.txt");
    assert!(text.contains("The whole round trip"), "{text}");
    let tables = tables(&text);
    expect_table(&tables[1], &[named(&FORWARD), named(&BACK), vec![("program", PROGRAM)]].concat());
}

#[test]
fn overlapping_packets_count_to_the_wire() {
    let text = trace(&file(2, "f10a", 40, &pipelined(50)), &["--format", "text"]).good().file("budget.txt");
    assert!(text.contains("Messages overlap") && !text.contains("round trip"), "{text}");
    let tables = tables(&text);
    assert_eq!(tables.len(), 1);
    let table = &tables[0];
    // Four packets of 800 ns, whatever the other blocks do meanwhile; then the last one is received.
    assert_eq!(table["wire"], 3_200_000, "{text}");
    assert_eq!(table["RX"], 300_000, "{text}");
    let parts: i64 = table.iter().filter(|(name, _)| *name != "total").map(|(_, mean)| mean).sum();
    assert!((parts - table["total"]).abs() <= table.len() as i64, "{text}");
    assert!(text.contains("requester  wire            9"), "the wire's share is not above 90 %:\n{text}");
}

#[test]
fn sizes_have_budgets_of_their_own() {
    let mut records = one_at_a_time(5, 8);
    let later = |record: Record| Record {
        start: record.start + 1_000_000_000,
        end: record.end + 1_000_000_000,
        message: record.message + 5,
        ..record
    };
    records.extend(one_at_a_time(7, 256).into_iter().map(later));
    let text = trace(&file(2, "f10a", 48, &records), &["--format", "text"]).good().file("budget.txt");
    assert!(text.contains("== 8 bytes, 5 messages") && text.contains("== 256 bytes, 7 messages"), "{text}");
}

#[test]
fn perfetto_trace_keeps_the_formats_rules() {
    for records in [ping_pong(5, 64), pipelined(30)] {
        let run = trace(&file(2, "f10a", 40, &records), &["--format", "perfetto"]).good();
        let json: Json = serde_json::from_str(&run.file("trace.json")).expect("JSON");
        assert_eq!(json["displayTimeUnit"], "ns");
        let events = json["traceEvents"].as_array().expect("a list");
        check_slices(events, &records);
        check_flows(events);
    }
}

fn row(event: &Json) -> (u64, u64) {
    let number = |name: &str| event[name].as_u64().unwrap_or_else(|| panic!("no {name} in {event}"));
    (number("pid"), number("tid"))
}

/// Microseconds of the file in picoseconds.
fn ps(event: &Json, name: &str) -> u64 {
    (event[name].as_f64().unwrap_or_else(|| panic!("no {name} in {event}")) * 1e6).round() as u64
}

fn kind<'a>(events: &'a [Json], ph: &'a str) -> impl Iterator<Item = &'a Json> {
    events.iter().filter(move |event| event["ph"] == ph)
}

fn check_slices(events: &[Json], records: &[Record]) {
    let known: BTreeSet<&str> = events.iter().map(|event| event["ph"].as_str().expect("a phase")).collect();
    assert_eq!(known, BTreeSet::from(["M", "X", "f", "s", "t"]));
    let mut rows: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for slice in kind(events, "X") {
        let (start, took) = (ps(slice, "ts"), ps(slice, "dur"));
        rows.entry(row(slice)).or_default().push((start, start + took));
        *sums.entry(slice["name"].as_str().expect("a name").to_owned()).or_default() += took;
    }
    // Slices of a thread do not overlap, or a viewer nests them.
    for (row, spans) in &mut rows {
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{row:?}: {spans:?}");
    }
    // Every row has a name, and every process.
    let metadata = |name: &str| -> BTreeSet<(u64, u64)> {
        kind(events, "M")
            .filter(|event| event["name"] == name && event["args"]["name"].is_string())
            .map(row)
            .collect()
    };
    assert_eq!(metadata("thread_name"), rows.keys().copied().collect());
    let processes: BTreeSet<u64> = metadata("process_name").iter().map(|row| row.0).collect();
    assert_eq!(processes, rows.keys().map(|row| row.0).collect());
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for record in records {
        *expected.entry(NAMES[usize::from(record.phase)].to_owned()).or_default() +=
            record.end - record.start;
    }
    assert_eq!(sums, expected);
}

/// A flow begins once, ends once, and each of its events is in a slice of its row.
fn check_flows(events: &[Json]) {
    let mut flows: BTreeMap<u64, Vec<(u64, &str)>> = BTreeMap::new();
    for ph in ["s", "t", "f"] {
        for event in kind(events, ph) {
            let at = ps(event, "ts");
            flows.entry(event["id"].as_u64().expect("an id")).or_default().push((at, ph));
            let within = |slice: &Json| {
                row(slice) == row(event)
                    && (ps(slice, "ts")..=ps(slice, "ts") + ps(slice, "dur")).contains(&at)
            };
            assert!(kind(events, "X").any(within), "{event} is in no slice");
        }
    }
    assert!(!flows.is_empty());
    for (id, steps) in flows {
        let count = |ph: &str| steps.iter().filter(|step| step.1 == ph).count();
        assert_eq!((count("s"), count("f")), (1, 1), "flow {id}");
        let times =
            |ph: &str| steps.iter().filter(|step| step.1 == ph).map(|step| step.0).collect::<Vec<_>>();
        let (first, last) = (times("s")[0], times("f")[0]);
        assert!(steps.iter().all(|step| (first..=last).contains(&step.0)), "flow {id}");
    }
}

/// Time for which a variable was not zero, and its last value, by module and name.
fn read_vcd(text: &str) -> BTreeMap<String, (u64, u64)> {
    let mut parser = vcd::Parser::new(BufReader::new(text.as_bytes()));
    let header = parser.parse_header().expect("a header");
    assert_eq!(header.timescale, Some((1, vcd::TimescaleUnit::PS)));
    let mut names = BTreeMap::new();
    for scope in header.items.iter().filter_map(|item| {
        if let vcd::ScopeItem::Scope(scope) = item {
            Some(scope)
        } else {
            None
        }
    }) {
        for item in &scope.items {
            if let vcd::ScopeItem::Var(var) = item {
                names.insert(var.code, (format!("{}.{}", scope.identifier, var.reference), var.size));
            }
        }
    }
    let mut values: BTreeMap<vcd::IdCode, (u64, u64, u64)> = BTreeMap::new();
    let mut now = 0;
    for command in parser {
        let (id, value) = match command.expect("a command") {
            vcd::Command::Timestamp(time) => {
                assert!(time >= now, "time goes back to {time}");
                now = time;
                continue;
            }
            vcd::Command::ChangeScalar(id, value) => (id, u64::from(value == vcd::Value::V1)),
            vcd::Command::ChangeVector(id, value) => {
                assert_eq!(value.len() as u32, names[&id].1);
                (id, value.iter().fold(0, |sum, bit| sum << 1 | u64::from(bit == vcd::Value::V1)))
            }
            vcd::Command::Begin(_) | vcd::Command::End(_) => continue,
            other => panic!("unexpected {other:?}"),
        };
        let (since, held, busy) = values.get(&id).copied().unwrap_or((now, 0, 0));
        let more = if held > 0 { now - since } else { 0 };
        values.insert(id, (now, value, busy + more));
    }
    assert_eq!(values.len(), names.len(), "every variable has a first value");
    values.into_iter().map(|(id, (_, last, busy))| (names[&id].0.clone(), (busy, last))).collect()
}

#[test]
fn waveforms_show_what_was_busy() {
    let records = ping_pong(10, 64);
    let signals =
        read_vcd(&trace(&file(2, "f10a", 40, &records), &["--format", "vcd"]).good().file("trace.vcd"));
    assert!(signals.values().all(|(_, last)| *last == 0), "something never ends: {signals:?}");
    let sum = |wanted: &dyn Fn(&Record) -> bool| {
        records.iter().filter(|record| wanted(record)).map(|record| record.end - record.start).sum::<u64>()
    };
    // Card 1 fetches its own payload, and receives what card 0 sends.
    assert_eq!(signals["card_1.payload_fetch_busy"].0, sum(&|r| r.phase == 3 && r.card == 1));
    assert_eq!(signals["card_1.wire1_depth"].0, sum(&|r| r.phase == 5 && r.card == 1));
    assert_eq!(signals["card_1.rx_busy"].0, sum(&|r| r.phase == 6 && r.card == 0));
    assert_eq!(signals["program_4.post_busy"].0, sum(&|r| r.phase == 0 && r.card == 1));
    assert_eq!(signals["program_3.cq_entries"].0, sum(&|r| r.phase == 10 && r.card == 0));
    assert_eq!(signals["card_0.sq_waiting"].0, sum(&|r| r.phase == 1 && r.card == 0));
}

#[test]
fn long_traces_are_cut_for_viewers_and_it_is_said() {
    let records = pipelined(30);
    let bytes = file(2, "f10a", 40, &records);
    let run = trace(&bytes, &["--messages", "3"]).good();
    let json: Json = serde_json::from_str(&run.file("trace.json")).expect("JSON");
    let all = json["traceEvents"].as_array().expect("a list");
    assert_eq!(kind(all, "X").count(), 3 * records.len() / 30);
    assert!(run.stderr().contains("--messages 0 shows all"), "{}", run.stderr());
    assert!(run.file("budget.txt").contains("30 messages"));
    let run = trace(&bytes, &["--messages", "0"]).good();
    assert!(!run.stderr().contains("--messages"), "{}", run.stderr());
}

#[test]
fn what_is_no_trace_is_refused_in_words() {
    let good = file(2, "f10a", 40, &ping_pong(1, 8));
    let mut small = good.clone();
    small[8] = 39;
    let mut backwards = good.clone();
    backwards[64 + 8..64 + 16].fill(0);
    let cases: [(&[u8], &str); 5] = [
        (b"hello", "it is no trace"),
        (&good[..63], "it is no trace"),
        (&good[..64], "has no spans"),
        (&small, "records of 39 bytes"),
        (&backwards, "record 0 ends at 0 ps"),
    ];
    for (bytes, why) in cases {
        let run = trace(bytes, &[]);
        assert_eq!(run.output.status.code(), Some(1));
        assert!(run.stderr().contains(why), "no `{why}` in: {}", run.stderr());
    }
    let missing = Command::new(verbena())
        .args(["trace", "--read", "/nowhere/trace"])
        .current_dir(std::env::temp_dir())
        .output();
    let said = String::from_utf8_lossy(&missing.expect("verbena runs").stderr).into_owned();
    assert!(said.contains("opening the trace /nowhere/trace"), "{said}");
}

#[test]
fn a_trace_that_was_cut_off_is_read_up_to_there() {
    let mut bytes = file(2, "f10a", 40, &ping_pong(5, 8));
    bytes.truncate(bytes.len() - 7);
    let text = trace(&bytes, &["--format", "text"]).good().file("budget.txt");
    assert!(text.contains("ends within a record"), "{text}");
}
