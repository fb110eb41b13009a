//! Programs of all kinds under the preloaded clock, as separate processes.

mod common;

use std::time::{Duration, Instant};

use common::{compile, run};

/// What a part of `clocks.c` prints.
fn clocks(part: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    run(&compile(&dir, "clocks", "clocks", &[]), &[part])
}

#[test]
fn a_calibration_finds_the_frequency() {
    assert_eq!(clocks("mhz"), "mhz 1000.000000, measured within 1e-6: yes\n");
}

#[test]
fn sleeps_take_their_time_and_that_of_a_reading() {
    let begin = Instant::now();
    // Each figure has the 20 ns of the readings in it; the fifth those of two.
    assert_eq!(clocks("sleeps"), "sleeps 1000000000020 7020 1520 1520 3000000040 9000020\n");
    assert!(begin.elapsed() < Duration::from_secs(20), "it really slept");
}

#[test]
fn time_outs_are_virtual() {
    assert_eq!(clocks("timeouts"), "timeouts 0 10000020 0 20000020 0 30000020, ready 1 1 1\n");
}

#[test]
fn alarms_come_at_their_virtual_time() {
    assert_eq!(clocks("alarms"), "alarms 3000 7 7000 2000\n");
}

/// The longest wait ends after 212 days.
#[test]
fn times_that_never_come_are_far_away() {
    assert_eq!(clocks("long"), "long 0 0 1 1 0 212\n");
}

#[test]
fn threads_see_the_clock_and_conditions_time_out() {
    assert_eq!(clocks("threads"), "threads 250 250 250 250, condition Connection timed out 5\n");
}

#[test]
fn locks_and_joins_time_out() {
    assert_eq!(clocks("locks"), format!("locks{}\n", " late 5".repeat(6)));
}

/// A signal to a condition wakes who waits, also while its wait goes on by slices of real time.
#[test]
fn conditions_with_a_time_out_are_signalled() {
    assert_eq!(clocks("handover"), "handover 4000, late 0\n");
}

#[test]
fn a_program_keeps_its_own_fault_handler() {
    assert_eq!(clocks("faults"), "faults 1 1 1 kept\n");
    assert_eq!(clocks("death"), "death by Segmentation fault\n");
}

#[test]
fn programs_start_programs() {
    let expected = "system\nprograms popen\nfailed exec goes on: 2\nexecle v 1 2 3 4\nexeclp 1 2 3 4 5 6\n";
    assert_eq!(clocks("programs"), expected);
}

#[test]
fn a_watchdog_over_a_child_waits_in_reality() {
    assert_eq!(run("bash", &["-c", "timeout 5 sleep 1; echo $?"]), "0\n");
}

#[test]
fn all_dates_are_the_fixed_one_and_the_same_twice() {
    let date = clocks("date");
    assert_eq!(date, "date 1767225600 1767225600 1767225600 Thu Jan  1 00:00:00 2026\n");
    assert_eq!(run("date", &[]), "Thu Jan  1 00:00:00 UTC 2026\n");
    let script = "date +%s.%N; sleep 3; date +%s.%N; (sleep 5; echo $EPOCHREALTIME) | cat";
    assert_eq!(run("bash", &["-c", script]), run("bash", &["-c", script]));
}

#[test]
fn python_sleeps_and_starts_threads_and_processes() {
    let script = "\
import time, threading, subprocess, select
a = time.time(); time.sleep(3600); print(round(time.time() - a, 3))
t = threading.Thread(target=time.sleep, args=(5,)); t.start(); t.join(); print(round(time.time() - a, 3))
e = threading.Event(); m = time.monotonic(); e.wait(0.25); print(round(time.monotonic() - m, 3))
print(subprocess.run(['date', '+%Y'], capture_output=True, text=True, timeout=30).stdout.strip())
print(time.gmtime().tm_year)
";
    assert_eq!(run("python3", &["-c", script]), "3600.0\n3605.0\n0.25\n2026\n2026\n");
}

#[test]
fn a_child_gets_as_much_real_time_as_its_parent_waits_in_virtual_time() {
    // The child sees the machine's time. Python checks whether it has ended after each of many short virtual sleeps.
    let script = "\
import subprocess
print(subprocess.run(['env', '-u', 'LD_PRELOAD', 'sleep', '3'], timeout=30).returncode)
";
    assert_eq!(run("python3", &["-c", script]), "0\n");
}

#[test]
fn perftest_says_its_version() {
    // It ends with 1 after saying so.
    assert!(run("sh", &["-c", "! ib_write_bw --version"]).starts_with("Version"));
}
