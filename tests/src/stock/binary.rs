//! The programs under test: our own command, built when needed, and the distribution's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names a `verbena` binary to test instead of building one.
const OVERRIDE: &str = "VERBENA_BIN";

/// The root of the sources.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// The `verbena` command in release mode, with the provider beside it.
///
/// Debug builds of the model are many times slower than what a user runs, and these tests are
/// about what a user runs.
pub fn verbena() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "{OVERRIDE} names {}, which is no file", path.display());
            path
        }
        None => build(),
    })
}

/// `verbena`, in a directory that is its runtime directory, too.
pub fn verbena_in(directory: &Path) -> Command {
    let mut command = Command::new(verbena());
    command.current_dir(directory).env("XDG_RUNTIME_DIR", directory);
    command
}

fn build() -> PathBuf {
    cargo_build("verbena", &["--release"], "release")
}

/// A program of docs/examples that is a package of the workspace. Not in release mode: what it does is tested, not how fast,
/// and to link it as a user does takes minutes. With a test of the workspace, so that it has the features that its libraries were
/// built with for the tests: with those of its package alone they would be compiled once more.
pub fn example(name: &str) -> PathBuf {
    cargo_build(name, &["--workspace", "--test", "house", "--bin", name], "debug")
}

fn cargo_build(program: &str, options: &[&str], profile: &str) -> PathBuf {
    let target = target_dir();
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--quiet", "--target-dir"])
        .arg(&target)
        .args(options)
        .current_dir(repository())
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`cargo build {}` failed:\n{said}", options.join(" "));
    let binary = target.join(profile).join(program);
    assert!(binary.is_file(), "cargo made no {}", binary.display());
    binary
}

/// Where this test was built: `target/<profile>/deps/<test>` is below it.
pub fn target_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.ancestors().nth(3).expect("a target directory").to_owned()
}

/// Runs a script of `tests/` that fetches something, which needs a network, unless it is there. Gives the place that it prints.
pub fn fetched(script: &str) -> PathBuf {
    let output = Command::new(repository().join("tests").join(script)).output();
    let output = output.unwrap_or_else(|error| panic!("tests/{script} does not run: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tests/{script} failed:\n{said}");
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// Where servers are unpacked that are not installed.
pub fn peers() -> &'static Path {
    static PEERS: OnceLock<PathBuf> = OnceLock::new();
    PEERS.get_or_init(|| fetched("peers/fetch"))
}

/// Fails, with the remedy, unless `program` is installed.
///
/// A skipped test looks like a passed one; so a missing program is a failure.
pub fn need(program: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    assert!(found, "`{program}` is not installed; get it with: apt-get install {}", package(program));
}

fn package(program: &str) -> &'static str {
    match program {
        "cc" | "gcc" | "g++" => "gcc g++ libibverbs-dev",
        "ucx_perftest" | "ucx_info" => "ucx-utils",
        "ibstat" | "ibstatus" => "infiniband-diags",
        "rdma" => "iproute2",
        "rping" | "rcopy" | "ucmatose" | "udaddy" | "mckey" | "rdma_server" | "rstream" => "rdmacm-utils",
        "dpdk-testpmd" | "dpdk-test-acl" | "dpdk-test-flow-perf" => "dpdk-dev",
        "iperf3" | "ssh" | "ssh-keygen" => "iperf3 openssh-client (or: tests/setup programs)",
        "tshark" => "tshark (or: tests/setup programs)",
        "verilator" => "verilator (or: tests/setup exports)",
        _ => "perftest ibverbs-utils",
    }
}
