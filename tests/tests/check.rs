//! How `tests/check` ends early: with all that it has started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A cargo whose commands start a program, say which, and wait for it.
const CARGO: &str = "#!/bin/sh
sleep 60 &
echo $! >\"$1\"
wait
";

fn within_a_minute<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(Instant::now() < until, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

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
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("check");
    write("tests/check", &fs::read_to_string(script).unwrap());
    write("tests/setup", "#!/bin/sh\n");
    write("cargo", CARGO);
    let path = format!("{}:{}", root.display(), std::env::var("PATH").unwrap());
    let mut check = Command::new(root.join("tests/check"));
    let mut check = check.env("PATH", path).stdout(Stdio::null()).spawn().unwrap();
    let processes = ["build", "fmt"].map(|name| {
        within_a_minute(name, || fs::read_to_string(root.join(name)).ok().filter(|pid| pid.ends_with('\n')))
    });
    assert!(Command::new("kill").arg(check.id().to_string()).status().unwrap().success());
    let status = within_a_minute("the script ends", || check.try_wait().unwrap());
    assert!(!status.success());
    for pid in processes {
        // A process that has ended has no command line, if it is there at all.
        let command = Path::new("/proc").join(pid.trim()).join("cmdline");
        let ended = || fs::read(&command).map_or(true, |line| line.is_empty());
        within_a_minute("what a step has started ends", || ended().then_some(()));
    }
}
