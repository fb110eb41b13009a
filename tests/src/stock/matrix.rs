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
    let said = Program::start(command).wait(LIMIT).expect_good();
    assert!(!said.contains("not installed"), "get them with: tests/setup programs\n{said}");
    said
}
