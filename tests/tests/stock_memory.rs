//! What a program may do with registered memory, on stock verbs.

use std::time::Duration;

use tests::stock::{compile_c, StockNet};

const LIMIT: Duration = Duration::from_secs(60);

/// Runs a program of `tests/c` on a net of its own; gives what it said.
fn run(name: &str, arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let program = compile_c(name, directory.path());
    let net = StockNet::new();
    net.run(&program, arguments, LIMIT)
}

#[test]
fn memory_that_vanishes_is_an_error_and_no_signal() {
    let said = run("vanish", &["verbena0"]);
    assert!(said.contains("done"), "{said}");
}
