//! What the tests of the preloaded clock share.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The library, built together with this test and beside it.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let library = test.parent().expect("a directory").join("libverbena_clock.so");
    assert!(library.is_file(), "cargo made no {}", library.display());
    library
}

/// Compiles `tests/c/<name>.c` into `dir`.
pub fn compile(dir: &TempDir, name: &str, output: &str, options: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    let program = dir.path().join(output);
    let result = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&program, &source])
        .args(options)
        .output()
        .expect("`cc` is not installed; get it with: apt-get install gcc libc6-dev");
    assert!(result.status.success(), "{name}.c: {}", String::from_utf8_lossy(&result.stderr));
    program.to_str().expect("a plain path").to_owned()
}

/// Compiles `tests/c/<name>.c`, which attaches the timeline of `tests/c/timeline.c`, into `dir`.
#[allow(dead_code)] // not all tests attach one
pub fn compile_attached(dir: &TempDir, name: &str) -> String {
    compile(dir, "timeline", "libtimeline.so", &["-shared", "-fPIC"]);
    let path = dir.path().display();
    compile(dir, name, name, &[&format!("-L{path}"), "-ltimeline", &format!("-Wl,-rpath,{path}")])
}

/// What happens to `program` under the clock, with some environment variables as `NAME=value`.
pub fn outcome(environment: &[&str], program: &str, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["60", "env"])
        .arg(format!("LD_PRELOAD={}", library().display()))
        .args(["TZ=UTC", "LC_ALL=C"])
        .args(environment)
        .arg(program)
        .args(arguments)
        .output()
        .expect("coreutils' timeout runs")
}

/// What `program` prints under the clock.
#[allow(dead_code)] // not all tests are content with that
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = outcome(&[], program, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}{err}", output.status);
    assert_eq!(err, "", "{program} {arguments:?} complains");
    out.into_owned()
}
