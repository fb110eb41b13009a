//! Two processes with a timeline (tests/c/timeline.c) attached: time travels with the bytes, and the
//! same clocks come out whatever the machine does.

mod common;

use common::{compile_attached, run};

/// What a part of `attached.c` prints.
fn attached(part: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    run(&compile_attached(&dir, "attached"), &[part])
}

/// 50 round trips of two messages of 3 us with a pause of 10 us, connecting included; then the server
/// sleeps 5 ms, and no stream position is missed.
#[test]
fn sockets_carry_time() {
    for family in ["tcp", "unix"] {
        for _ in 0..3 {
            assert_eq!(attached(family), "status 0 server 5797000000 client 800000000 lost 0 open 0\n");
        }
    }
}

#[test]
fn pipes_carry_time() {
    for _ in 0..3 {
        assert_eq!(attached("pipes"), "status 0 parent 350000000 child 347000000 lost 0\n");
    }
}

#[test]
fn a_time_out_comes_when_the_timeline_passes_it() {
    assert_eq!(attached("deadline"), "status 7 ready 0 at 5000000000\n");
}

/// The handler without SA_RESTART ends the call, the one with it does not.
#[test]
fn alarms_come_while_the_program_waits() {
    let interrupted = "-1 Interrupted system call at";
    let expected = format!("read {interrupted} 2000, wait {interrupted} 4000, wait again 1 7 at 6000\n");
    assert_eq!(attached("alarms"), expected);
}

#[test]
fn spinning_is_found_and_computing_is_not() {
    for _ in 0..2 {
        assert_eq!(attached("spin"), "spins: 300 waits, 300000000 ps\ncomputes: 0 waits\n");
    }
}

#[test]
fn the_attached_library_sees_the_machine_s_time() {
    assert_eq!(attached("exempt"), "exempt 1, virtual before 1, program 1000.000000020\n");
}
