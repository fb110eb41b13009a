//! The suites of two Rust bindings of verbs, as they are published, on the cards: `ibverbs` and `sideway`, which
//! `tests/rust-suites/setup` builds.

use std::path::PathBuf;
use std::time::Duration;

use tests::stock::{target_dir, StockNet};

const LIMIT: Duration = Duration::from_secs(120);

fn suites() -> PathBuf {
    let suites = target_dir().join("rust-suites");
    assert!(
        suites.join("stamp").is_file(),
        "the suites are not there; get them with: tests/rust-suites/setup"
    );
    suites
}

/// Runs a crate's tests, which were built, and expects so many to pass.
fn passes(name: &str, expected: u32) {
    let suites = suites();
    let (manifest, build) = (suites.join(name).join("Cargo.toml"), suites.join("build"));
    let words = ["test", "--locked", "--offline", "--lib", "--tests", "--manifest-path"];
    let words = words.into_iter().chain([manifest.to_str().expect("UTF-8"), "--target-dir"]);
    // `compile_test` compares messages of one version of the compiler.
    let words = words.chain([build.to_str().expect("UTF-8"), "--", "--skip", "compile_test"]);
    let net = StockNet::new();
    let said = net.run("cargo", &words.collect::<Vec<_>>(), LIMIT);
    net.expect_gone();
    let results = said.lines().filter_map(|line| line.trim().strip_prefix("test result: ok. "));
    let passed: u32 = results.filter_map(|line| line.split(' ').next()?.parse::<u32>().ok()).sum();
    assert_eq!(passed, expected, "{said}");
}

#[test]
#[ignore = "the long form of the checks"]
fn ibverbs() {
    passes("ibverbs", 2);
    // The package has no other tests: its example sends to itself.
    let net = StockNet::new();
    let said = net.run(suites().join("build/debug/examples/loopback"), &[], LIMIT);
    assert!(said.contains("received"), "{said}");
}

#[test]
#[ignore = "the long form of the checks"]
fn sideway() {
    passes("sideway", 68);
}
