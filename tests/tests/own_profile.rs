//! A user's own card profile, in simulated time through the front door: what a number of it changes.

use std::time::Duration;

use tests::stock::{changed_profile, compile_c, simulated_perftest, Program, StockNet};

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(60);

/// `t_typical` of a latency test in microseconds.
fn latency(changes: &[(&str, u32)], test: &str, options: &[&str]) -> f64 {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = changed_profile(directory.path(), changes);
    let launcher = ["--card", profile.to_str().expect("a path in UTF-8")];
    simulated_perftest(&launcher, test, options, "t_typical[usec]")[0].1
}

#[test]
fn a_longer_cable_is_seen_once_in_a_write_and_twice_in_a_read() {
    let longer = [("cable_ns", 1015)];
    for (test, times) in [("ib_write_lat", 1.0), ("ib_read_lat", 2.0)] {
        let options = ["-s", "64", "-n", "100"];
        let difference = latency(&longer, test, &options) - latency(&[], test, &options);
        assert!((difference - times).abs() < 0.015, "{test}: 1 us of cable makes {difference:.3} us");
    }
}

#[test]
fn moderation_holds_an_event_back() {
    let options = ["-e", "-s", "64", "-n", "50"];
    let held = [("moderation_count", 8), ("moderation_ns", 20000)];
    let difference = latency(&held, "ib_send_lat", &options) - latency(&[], "ib_send_lat", &options);
    // One completion at a time: the count never ends the wait.
    assert!((difference - 20.0).abs() < 0.1, "held for 20 us, {difference:.2} us later");
    let single = [("moderation_count", 1), ("moderation_ns", 20000)];
    let difference = latency(&single, "ib_send_lat", &options) - latency(&[], "ib_send_lat", &options);
    assert!(difference.abs() < 0.1, "an event for each completion, {difference:.2} us later");
}

#[test]
fn what_is_held_back_is_not_lost_when_a_cq_is_armed_for_less() {
    let directory = tempfile::tempdir().expect("a directory");
    let moderate = compile_c("moderate");
    let held = [("moderation_count", 8), ("moderation_ns", 900000000)];
    let profile = changed_profile(directory.path(), &held);
    let options = ["--clock", "virtual", "--card", profile.to_str().expect("a path in UTF-8")];
    let net = StockNet::new();
    Program::start(net.command(&options, &moderate, &["own"])).wait(LIMIT).expect_good_saying("not lost");
}
