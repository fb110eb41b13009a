//! Programs that read the time stamp counter often see the same whether it traps each time or is patched.

mod common;

use std::time::Instant;

use common::{compile_attached, outcome};
use tempfile::TempDir;

/// Both lines that a part of `rdtsc.c` prints.
struct Said {
    /// What it has read.
    read: String,
    /// Which sites are patched.
    patched: String,
}

fn program(dir: &TempDir) -> String {
    compile_attached(dir, "rdtsc")
}

fn said(program: &str, part: &str, how: &str) -> Said {
    let output = outcome(&[&format!("VERBENA_RDTSC={how}")], program, &[part]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{part}, {how}: {}\n{out}{err}", output.status);
    let (read, patched) = out.split_once('\n').expect("two lines");
    Said { read: read.to_owned(), patched: patched.trim_end().to_owned() }
}

/// Runs a part both ways: it has to read the same, and to be patched as it says. Returns what it reads.
fn same(part: &str, patched: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let program = program(&dir);
    let trapped = said(&program, part, "trap");
    assert!(!trapped.patched.contains('1'), "{part} is patched: {}", trapped.patched);
    let fast = said(&program, part, "patch");
    assert_eq!(fast.read, trapped.read, "{part} reads something else");
    assert_eq!(fast.patched, patched, "{part}");
    fast.read
}

#[test]
fn all_that_may_move_is_patched_and_nothing_else() {
    same("kinds", "patched 11111 111, never 000 0");
}

#[test]
fn registers_flags_and_the_red_zone_stay() {
    assert_eq!(same("registers", "patched 1"), "changed 0");
}

#[test]
fn a_handler_may_return_into_what_was_patched_meanwhile() {
    same("handlers", "patched 1");
}

/// They are interrupted anywhere, so not all ten runs are alike.
#[test]
fn threads_run_while_their_code_is_patched() {
    for _ in 0..10 {
        assert!(same("threads", "patched 11").starts_with("wrong 0, "));
    }
}

#[test]
fn a_child_goes_on_with_what_is_patched() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = program(&dir);
    let both = |how| {
        let output = outcome(&[&format!("VERBENA_RDTSC={how}")], &program, &["forks"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (trapped, patched) = (both("trap"), both("patch"));
    assert_eq!(trapped.matches("patched 00\n").count(), 2, "{trapped}");
    assert!(patched.contains("status 5"), "{patched}");
    assert_eq!(patched, trapped.replace("patched 00", "patched 11"));
}

/// On a signal stack the timeline must not run, whether the instruction traps or not.
#[test]
fn signal_stacks_stay_small() {
    same("stacks", "patched 110");
}

/// The least of some tries each: the machine may be busy, and a debug build is slow at what is left.
#[test]
fn patched_is_many_times_faster() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = program(&dir);
    let [mut trap, mut patch] = [f64::INFINITY; 2];
    for _ in 0..4 {
        let seconds = |how| {
            let begin = Instant::now();
            let said = said(&program, "many", how);
            (begin.elapsed().as_secs_f64(), said.read)
        };
        let (trapped, patched) = (seconds("trap"), seconds("patch"));
        assert_eq!(trapped.1, patched.1);
        (trap, patch) = (trap.min(trapped.0), patch.min(patched.0));
    }
    assert!(patch * 2.0 < trap, "{patch} s are no fraction of {trap} s");
}

#[test]
fn a_wrong_value_is_refused() {
    let output = outcome(&["VERBENA_RDTSC=maybe"], "true", &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("VERBENA_RDTSC: `maybe` is neither `patch` nor `trap`"), "{said}");
}
