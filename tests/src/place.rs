//! Places for files that tests write.

use std::path::PathBuf;

use tempfile::TempDir;

/// The path of a file that is not there yet, in a directory of its own, which goes when it is dropped.
pub fn place_for(name: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    (directory, path)
}
