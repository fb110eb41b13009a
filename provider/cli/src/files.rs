//! Files and directories, with errors that name them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Makes a directory, and those that it is in, unless it is there.
pub fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))
}

/// Writes a whole file.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}
