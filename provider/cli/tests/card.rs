//! `verbena card` as a person uses it.

use std::process::{Command, Output};

fn card(line: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_verbena")).arg("card").args(line).output().unwrap()
}

/// Standard output of a command that succeeds.
fn good(line: &[&str]) -> String {
    let output = card(line);
    assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a command that fails.
fn bad(line: &[&str]) -> String {
    let output = card(line);
    assert_eq!(output.status.code(), Some(1), "{line:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A profile file of one's own: f10a with a text replaced.
fn own(from: &str, to: &str) -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("mine.toml").to_str().unwrap().to_owned();
    let text = good(&["show", "--toml", "f10a"]);
    assert!(text.contains(from), "{from}");
    std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
    (home, file)
}

#[test]
fn the_profiles_are_listed() {
    let list = good(&["list"]);
    for name in ["f10a", "cx4lx", "cx3", "cx5-25g"] {
        assert!(list.lines().any(|line| line.split_whitespace().next() == Some(name)), "{list}");
    }
    assert!(list.contains("of them estimates"));
}

#[test]
fn every_number_is_shown_with_unit_and_source() {
    for name in ["f10a", "cx4lx", "cx3", "cx5-25g"] {
        let shown = good(&["show", name]);
        // Each number of the file is there, with its unit and its source.
        let file = good(&["show", "--toml", name]);
        let numbers = file.lines().filter_map(|line| line.split_once(" = ["));
        let mut count = 0;
        for (key, rest) in numbers {
            let (value, source) = rest.split_once(", ").unwrap();
            let source = source.trim_matches([']', '"']);
            let unit = [("_ns", " ns"), ("_gbps", " Gb/s"), ("_mhz", " MHz"), ("_bytes", " B")];
            let unit = unit.iter().find(|(ending, _)| key.ends_with(ending)).map_or("", |(_, unit)| unit);
            let is_it = |line: &&str| line.trim_start().starts_with(key) && line.ends_with(source);
            let line = shown.lines().find(is_it).unwrap_or_else(|| panic!("{name}: no {key} from {source}"));
            assert!(line.contains(&format!(" {value}{unit}")), "{line}: no {value}{unit}");
            count += 1;
        }
        assert!(count > 60, "{count}");
        assert!(shown.contains("What follows"));
    }
    assert!(good(&["show", "--explain", "cx4lx"]).contains("Serial work of a QP"));
}

#[test]
fn a_profile_of_ones_own_is_checked_and_compared() {
    let (_home, file) = own("qp_ns = [480", "qp_ns = [400.5");
    assert!(good(&["check", &file]).contains("mine.toml: good: f10a ("));
    let diff = good(&["diff", "f10a", &file]);
    let line = diff.lines().find(|line| line.starts_with("sq.qp_ns")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["sq.qp_ns", "480", "ns", "400.5", "ns"]);
    assert!(diff.contains("1 number differs."), "{diff}");
    assert!(good(&["diff", "f10a", "f10a"]).contains("the same numbers"));
    assert!(good(&["diff", "cx4lx", "cx3"]).contains("wire.rate_gbps"));
}

#[test]
fn faults_are_named_with_file_key_and_reason() {
    for (from, to, reason) in [
        ("read_ns = [500", "read_ns = [-500", "mine.toml: pcie.read_ns: -500 ns must not be negative"),
        ("mps = [256", "mps = [384", "mine.toml: pcie.mps: 384 is no power of two"),
        ("rate_gbps = [10", "rate_gbps = [0", "mine.toml: wire.rate_gbps: 0 Gb/s is impossible"),
        ("read_ns = [500", "read_ns = [2e9", "mine.toml: pcie.read_ns: 2000000000 ns is impossible"),
        ("key_entries = [1024", "key_entries = [5000", "mine.toml: caches.key_entries: 5000 is impossible"),
        ("\nread_ns =", "\nread_us =", "mine.toml: pcie.read_us: unknown"),
        ("[rx]", "[recv]", "mine.toml: recv: unknown"),
        ("cable_ns = [15, ", "cable_ns = 15 # ", "mine.toml: wire.cable_ns: has no source"),
    ] {
        let (_home, file) = own(from, to);
        for line in [vec!["check", file.as_str()], vec!["show", &file], vec!["diff", "f10a", &file]] {
            let said = bad(&line);
            assert!(said.contains(reason), "{line:?}: {said}");
        }
    }
}

#[test]
fn mistakes_are_explained() {
    assert!(bad(&["show", "cx7"]).contains("there are f10a, cx4lx, cx3, cx5-25g"));
    assert!(bad(&["check", "./nosuch.toml"]).contains("./nosuch.toml: cannot be read"));
    assert_eq!(card(&["check"]).status.code(), Some(2));
}
