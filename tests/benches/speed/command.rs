//! The command that is measured.

use std::path::PathBuf;

/// The release build of the `verbena` command, beside this benchmark.
pub fn verbena() -> PathBuf {
    let target = std::env::current_exe().expect("our path");
    let release = target.parent().and_then(|deps| deps.parent()).expect("target/release/deps").to_path_buf();
    let binary = release.join("verbena");
    assert!(binary.exists(), "{} is missing: run `cargo build --release` first", binary.display());
    binary
}
