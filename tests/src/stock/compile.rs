//! Small C and C++ programs against stock verbs, compiled when a test needs them.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{need, repository};

/// A compiled program, in a directory that goes when this is dropped.
pub struct Compiled {
    path: PathBuf,
    _directory: TempDir,
}

impl Deref for Compiled {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Compiled {
    fn as_ref(&self) -> &Path {
        self
    }
}

/// Compiles `tests/c/<name>.c`.
pub fn compile_c(name: &str) -> Compiled {
    let directory = tempfile::tempdir().expect("a directory");
    Compiled { path: compile_c_into(directory.path(), name), _directory: directory }
}

/// Compiles `tests/c/<name>.c` into a directory and gives the program's path.
pub fn compile_c_into(into: &Path, name: &str) -> PathBuf {
    let source = repository().join("tests/c").join(format!("{name}.c"));
    let program = into.join(name);
    compile("cc", &["-O2", "-pthread"], &source, &program);
    program
}

/// Compiles one source file with every warning an error, and links libibverbs and, if it is used, librdmacm.
pub fn compile(compiler: &str, options: &[&str], source: &Path, program: &Path) {
    need(compiler);
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-o")
        .args([program, source])
        .args(["-libverbs", "-Wl,--as-needed", "-lrdmacm"])
        .output()
        .unwrap_or_else(|error| panic!("{compiler} does not run: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{} does not compile (are the headers installed? apt-get install libibverbs-dev librdmacm-dev):\n{said}",
        source.display()
    );
}
