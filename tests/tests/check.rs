//! How `tests/check` ends early: with all that it has started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tests::stock::{repository, running, wait_for, Program};

/// A cargo whose commands start a program, say which, and wait for it.
const CARGO: &str = "#!/bin/sh
sleep 60 &
echo $! >\"$1\"
wait
";

/// In a project of nothing but the script, with that cargo: the build is begun, and `cargo fmt` is the step that runs.
#[test]
fn what_runs_ends_with_the_script() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let write = |name: &str, text: &str| {
        fs::write(root.join(name), text).unwrap();
        fs::set_permissions(root.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    };
    fs::create_dir(root.join("tests")).unwrap();
    let script = repository().join("tests/check");
    write("tests/check", &fs::read_to_string(script).unwrap());
    write("tests/setup", "#!/bin/sh\n");
    write("cargo", CARGO);
    let path = format!("{}:{}", root.display(), std::env::var("PATH").unwrap());
    let mut check = Command::new(root.join("tests/check"));
    check.env("PATH", path);
    let mut check = Program::start(check);
    let processes = ["build", "fmt"].map(|name| {
        let pid = || fs::read_to_string(root.join(name)).ok()?.strip_suffix('\n')?.parse().ok();
        check.expect_that(&format!("cargo {name} is not begun"), |_| pid().is_some());
        pid().expect("a number")
    });
    check.signal(libc::SIGTERM);
    wait_for("the script goes on", || check.has_ended());
    assert!(check.failed());
    processes.into_iter().for_each(|pid| wait_for("what a step has started goes on", || !running(pid)));
}
