//! Who runs the tests.

use std::os::unix::fs::MetadataExt;

/// Whether root does.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").expect("/proc").uid() == 0
}
