//! `verbena matrix`: stock programs, and what came of them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{verbena_in, Program};

/// All of the table takes a minute or two on a quiet machine, and many times that where other programs poll beside it.
const LIMIT: Duration = Duration::from_secs(1800);

/// Runs the programs of a release whose lines contain one of these texts, or that one of these packages has. All have to be
/// there, and to work. Gives the table.
pub fn matrix(on: &str, only: &[&str]) -> String {
    // Two spinning programs fill two cores: one at a time.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tempfile::tempdir().expect("a directory");
    let mut command = verbena_in(runtime.path());
    command.args(["matrix", "--on", on]);
    only.iter().for_each(|text| {
        command.args(["--only", text]);
    });
    let ended = Program::start(command).wait(LIMIT);
    let rows = ended.said.lines().filter(|line| line.starts_with("| ")).skip(2);
    // In the first line, which is what a summary of many tests shows.
    let failed: Vec<&str> = rows.filter(|row| !row.contains("| pass ")).collect();
    assert!(ended.good(), "not passed: {failed:?}; {ended}");
    let said = ended.said;
    assert!(!said.contains("not installed"), "get them with: tests/setup programs\n{said}");
    said
}
