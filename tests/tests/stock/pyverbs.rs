//! rdma-core's own tests, which nobody here wrote: none fails, and those that are skipped are the ones of
//! docs/rdma-core-tests.md.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::place_for;
use tests::stock::{repository, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(300);
/// Where the package has them, and where `tests/setup` puts them if the image has no documentation.
const PLACES: [&str; 2] =
    ["/usr/share/doc/rdma-core/tests", concat!(env!("CARGO_MANIFEST_DIR"), "/../target/rdma-core-tests")];
/// Of the package; there may be other Pythons without its modules.
const PYTHON: &str = "/usr/bin/python3";

/// How often each reason is given.
type Skips = BTreeMap<String, usize>;

fn run(options: &[&str]) {
    let installed = PLACES.into_iter().find(|place| Path::new(place).is_dir());
    let installed = installed.unwrap_or_else(|| panic!("none of {PLACES:?} is there; run tests/setup"));
    let (_directory, tests) = place_for("tests");
    let script = format!("cp -r {installed} {0} && gunzip -f {0}/*.gz", tests.display());
    let copied = Command::new("sh").args(["-c", &script]).status().expect("sh runs");
    assert!(copied.success(), "{script}");
    let net = StockNet::new();
    let main = tests.join("run_tests.py");
    let main = main.to_str().expect("a path in UTF-8");
    let ended = Program::start(net.command(options, PYTHON, &["-u", main, "-v"])).wait(LIMIT);
    let simulated = options.contains(&"virtual");
    let failed = |line: &&str| line.starts_with("ERROR: ") || line.starts_with("FAIL: ");
    let failed: Vec<&str> = ended.said.lines().filter(failed).collect();
    assert!(failed.is_empty(), "{failed:?}: {ended}");
    assert!(ended.said.contains("Ran 273 tests"), "{options:?}: {}", ended.said);
    compare(&listed(simulated), &skipped(&ended.said));
}

/// The reasons at the ends of the lines `test ... skipped 'reason'`.
fn skipped(said: &str) -> Skips {
    let mut skips = Skips::new();
    for line in said.lines() {
        if let Some((_, reason)) = line.split_once("... skipped ") {
            let reason = reason.trim().trim_matches(|c| c == '\'' || c == '"');
            *skips.entry(reason.to_owned()).or_default() += 1;
        }
    }
    skips
}

/// What rows begin with that hold by one of the clocks only.
const CLOCKS: [&str; 2] = ["by the machine's clock", "in simulated time"];

/// The table for one of the clocks: numbers, words, and whether it is for the machine to have it. A row may have several
/// of both.
fn listed(simulated: bool) -> BTreeMap<String, (usize, bool)> {
    let page = repository().join("docs/rdma-core-tests.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut listed = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, numbers, what, words, _] = cells[..] else { continue };
        if what.starts_with(CLOCKS[usize::from(!simulated)]) {
            continue;
        }
        let numbers = numbers.split('+').map(|number| number.trim().parse().ok());
        let Some(numbers) = numbers.collect::<Option<Vec<usize>>>() else { continue };
        let words: Vec<_> =
            words.split("<br>").map(|word| word.trim().trim_matches('`').to_owned()).collect();
        assert_eq!(numbers.len(), words.len(), "{line}");
        let of_machine = what.starts_with("of the machine");
        listed.extend(words.into_iter().zip(numbers.into_iter().map(|number| (number, of_machine))));
    }
    listed
}

/// The same, but for tests that ran, or came further, because the machine has what they need.
fn compare(listed: &BTreeMap<String, (usize, bool)>, found: &Skips) {
    assert!(listed.len() > 10, "{listed:?}");
    let mut differences = Vec::new();
    let (mut more, mut had) = (0, 0);
    for reason in listed.keys().chain(found.keys().filter(|reason| !listed.contains_key(*reason))) {
        let (expected, of_machine) = listed.get(reason).copied().unwrap_or((0, false));
        let found = found.get(reason).copied().unwrap_or(0);
        if found != expected {
            differences.push(format!("{found} instead of {expected}: {reason}"));
        }
        match of_machine {
            true => had += expected.saturating_sub(found),
            false if found < expected => more = usize::MAX / 2,
            false => more += found - expected,
        }
    }
    assert!(more <= had, "docs/rdma-core-tests.md says otherwise:\n{}", differences.join("\n"));
}

#[test]
fn by_the_machines_clock() {
    run(&[]);
}

#[test]
#[ignore = "the long form of the checks"]
fn on_the_exact_wire() {
    run(&["--wire", "exact"]);
}

#[test]
fn in_simulated_time() {
    run(&["--clock", "virtual"]);
}
