//! Who runs the tests, and what they may.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Whether root does.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("/proc").uid() == 0
}

/// `unshare` with these words, as whoever runs the tests may: as root without a user namespace, which not every system allows.
pub fn unshare(words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(words);
    command
}
