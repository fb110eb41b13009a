//! Small C and C++ programs against stock verbs, compiled when a test needs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{need, repository};

/// Compiles `tests/c/<name>.c` into `into` and gives the program's path.
pub fn compile_c(name: &str, into: &Path) -> PathBuf {
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
