//! Traces, budgets and comparisons of real runs in virtual time: the parts add up to what perftest
//! itself printed, and the same command gives the same figures.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value as Json;
use tests::stock::{need, verbena};

fn run(dir: &Path, arguments: &[&str]) -> Output {
    need("ib_write_lat");
    let output = Command::new(verbena())
        .args(arguments)
        .current_dir(dir)
        .env("XDG_RUNTIME_DIR", dir)
        .output()
        .expect("verbena runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "verbena {}: {}\n{said}", arguments.join(" "), output.status);
    output
}

/// The number behind a word.
fn after(text: &str, word: &str) -> f64 {
    let rest = text.split(word).nth(1).unwrap_or_else(|| panic!("no `{word}` in:\n{text}"));
    rest.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn the_parts_add_up_to_what_perftest_printed() {
    for test in ["ib_write_lat", "ib_send_lat", "ib_read_lat"] {
        let dir = tempfile::tempdir().expect("a directory");
        run(dir.path(), &["trace", "-o", "out", "--card", "cx4lx", "--", test, "-s", "64", "-n", "100"]);
        let text = fs::read_to_string(dir.path().join("out/budget.txt")).expect("a budget");
        let printed = text.split("perftest printed:").nth(1).unwrap_or_else(|| panic!("{test}:\n{text}"));
        let counted = text.split("As perftest counts").nth(1).expect("above it");
        for figure in ["t_typical ", "t_avg "] {
            let (counted, printed) = (after(counted, figure), after(printed, figure));
            // perftest prints two digits.
            assert!(
                (counted - printed).abs() <= 0.0055,
                "{test}: {figure}{counted}, printed {printed}\n{text}"
            );
        }
        // The last table is that of the latency; its parts are of the same messages.
        let table = text.split("phase ").last().expect("a table");
        let mean = after(table, "total");
        let parts: f64 = table
            .lines()
            .filter(|line| line.starts_with("  ") && line.contains('%') && !line.contains("total"))
            .map(|line| {
                line.get(16..)
                    .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
                    .expect("a mean")
            })
            .sum();
        assert!((parts - mean).abs() < 0.02, "{test}: {parts} against {mean}\n{text}");
        let json: Json =
            serde_json::from_str(&fs::read_to_string(dir.path().join("out/trace.json")).expect("a trace"))
                .expect("JSON");
        assert!(json["traceEvents"].as_array().is_some_and(|events| events.len() > 1000), "{test}");
    }
}

#[test]
fn a_comparison_is_the_same_when_it_is_run_again() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), &["compare", "--tests=write_lat,qps", "--save=golden.json"]);
    let first = fs::read_to_string(dir.path().join("verbena-compare/report.html")).expect("a report");
    for verb in ["f10a, 8 B", "cx4lx, 256 B", "cx4lx, 4 KiB"] {
        assert!(first.contains(verb), "no phase budget of {verb}");
    }
    let output = run(dir.path(), &["compare", "--check=golden.json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("all figures are as in golden.json"), "{said}");
    let results = fs::read_to_string(dir.path().join("verbena-compare/results.csv")).expect("results");
    assert_eq!(results.lines().filter(|line| line.starts_with("write_lat,cx4lx")).count(), 23, "{results}");
}
