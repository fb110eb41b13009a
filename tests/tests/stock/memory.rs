//! What a program may do with registered memory, on stock verbs.

use tests::stock::{compile_c, StockNet, LIMIT};

/// Runs a program of `tests/c` on a net of its own; gives what it said.
fn run(name: &str, arguments: &[&str]) -> String {
    let program = compile_c(name);
    let net = StockNet::new();
    net.run(&program, arguments, LIMIT)
}

#[test]
fn memory_that_vanishes_is_an_error_and_no_signal() {
    let said = run("vanish", &["verbena0"]);
    assert!(said.contains("done"), "{said}");
}

/// What a registration and its end cost does not depend on how much else the process has mapped. (To look through all
/// of its mappings took a dozen times as long among sixteen times as many.)
#[test]
fn a_registration_costs_the_same_among_many() {
    let said = run("regions", &["verbena0", "1000", "16000"]);
    println!("{said}");
    for what in ["register", "deregister"] {
        let line = said.lines().find_map(|line| line.strip_prefix(what)).expect("a line of each");
        let numbers: Vec<f64> = line.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        assert!(numbers[1] < 5.0 * numbers[0], "{said}");
    }
}

/// Libraries such as UCX put functions of their own in the place of libc's. Registered memory stays where it is for the
/// program, so it is told of nothing.
#[test]
fn programs_with_their_own_mmap_register_memory() {
    let said = run("hooks", &["verbena0"]);
    assert!(said.contains("done"), "{said}");
}
