//! The command's own output: where it cannot be printed or written, that is told.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tests::stock::{need, verbena, verbena_in, Program};
use tests::unshare;

/// Commands that print something and need no cards.
const COMMANDS: [&[&str]; 8] = [
    &["doctor"],
    &["doctor", "--json"],
    &["list", "--all"],
    &["card", "list"],
    &["card", "show", "cx4lx"],
    &["card", "diff", "f10a", "cx4lx"],
    &["decode", "cqe", "00"],
    &["export", "c", "--out"],
];

/// Runs the command with that standard output.
fn run(arguments: &[&str], out: Stdio) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = verbena_in(directory.path());
    command.args(arguments).stdout(out).stdin(Stdio::null()).stderr(Stdio::piped());
    if arguments.last() == Some(&"--out") {
        command.arg(directory.path());
    }
    command.spawn().expect("it runs").wait_with_output().expect("its end")
}

/// A pipe whose reader has left.
fn unread() -> Stdio {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("true runs");
    let writer = reader.stdin.take().expect("a pipe");
    reader.wait().expect("its end");
    writer.into()
}

#[test]
fn a_full_disk_is_told() {
    for arguments in COMMANDS {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = run(arguments, full.into());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("writing to standard output: No space left"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_left_is_no_failure() {
    for arguments in COMMANDS {
        let output = run(arguments, unread());
        let usual = run(arguments, Stdio::null()).status;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status, usual, "{arguments:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{arguments:?}: {said}");
    }
}

#[test]
fn results_are_written_though_nobody_reads_the_remarks() {
    need("ib_write_bw");
    let home = tempfile::tempdir().expect("a directory");
    let mut command = verbena_in(home.path());
    command.args(["perftest", "--clock", "virtual", "--as", "cx5", "--out", "r", "ib_write_bw", "-n", "50"]);
    let output = command.stderr(unread()).output().expect("it runs");
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stdout));
    assert!(home.path().join("r/results.csv").exists());
}

/// Runs perftest with a capture to a full disk, or to a good one.
fn perftest(options: &[&str], full: bool) -> tests::stock::Ended {
    need("ib_write_bw");
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("frames.pcap");
    let script = if full {
        // A disk of a page: there is room for the file's header.
        format!(
            "mount -t tmpfs -o size=4k none {0} && {1} perftest {2} --pcap {3} --out {0}/../out-$$ ib_write_bw -n 50; \
             code=$?; rm -rf {0}/../out-$$; exit $code",
            directory.path().display(),
            verbena().display(),
            options.join(" "),
            capture.display()
        )
    } else {
        format!(
            "{} perftest {} --pcap {} --out {}/out ib_write_bw -n 50",
            verbena().display(),
            options.join(" "),
            capture.display(),
            directory.path().display()
        )
    };
    let runtime = tempfile::tempdir().expect("a directory");
    let mut command = unshare(&["--mount", "sh", "-c", &script]);
    command.env("XDG_RUNTIME_DIR", runtime.path());
    Program::start(command).wait(Duration::from_secs(60))
}

#[test]
fn a_capture_that_is_not_complete_is_told() {
    for options in [&[][..], &["--wire", "exact"], &["--clock", "virtual"]] {
        let ended = perftest(options, true);
        assert_eq!(ended.status.and_then(|status| status.code()), Some(1), "{ended}");
        ended.expect_refusal("frames.pcap is not complete: No space left");
        perftest(options, false).expect_good();
    }
}
