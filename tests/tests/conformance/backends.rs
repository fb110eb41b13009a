//! Runs all tests of this program on the other backends.

use std::process::Command;
use std::time::Duration;

use tests::guest::{Machine, Options, Served};
use tests::stock::Program;

/// The tests of this file, which the others are not to start again.
const HERE: &str = "backends::";
/// PCI addresses of the guest's cards.
const SLOTS: [&str; 2] = ["0000:00:04.0", "0000:00:05.0"];

/// What cannot be done with a card in a slot of that guest, and why.
const NOT_IN_SLOTS: &[(&str, &str)] = &[
    ("memory::a_region_of_64_gib", "VFIO pins registered memory, and the guest has 1 GiB"),
    (
        "states::a_time_out_in_sqd",
        "both sides have events to wait for, and within one card they are one device there",
    ),
    (
        "raw::a_slow_receiver_loses_nothing_of_two_senders",
        "the emulated processor stops for longer than frames wait for receives",
    ),
    (
        "multicast::groups_are_counted_where_they_pass",
        "it pulls a cable of the net, which is outside the guest",
    ),
];

#[test]
fn all_on_served_cards_by_the_vfio_user_client() {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--test-threads=2", "--skip", HERE]).env("VERBENA_TEST_CARDS", "served");
    let ended = Program::start(command).wait(Duration::from_secs(900));
    assert!(ended.said.contains("test result: ok."), "{ended}");
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn all_on_vfio_in_a_guest() {
    let served = Served::start(SLOTS.len(), &[]);
    let options = served.sockets().iter().fold(Options::default(), |options, socket| options.card(socket));
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("conformance");
    let stripped = Command::new("strip")
        .arg("--strip-debug")
        .arg("-o")
        .arg(&program)
        .arg(std::env::current_exe().expect("this program"))
        .status()
        .expect("strip runs: apt-get install binutils");
    assert!(stripped.success(), "strip: {stripped}");
    let mut guest = Machine::boot(&[(program.to_str().expect("a plain path"), "guest-card")], &options);
    guest.good(&format!("verbena bind {}", SLOTS.join(" ")), Duration::from_secs(60));
    let mut line = format!("VERBENA_TEST_CARDS=vfio:{} guest-card --test-threads=1", SLOTS.join(","));
    for (test, _) in NOT_IN_SLOTS.iter().chain(&[(HERE, "")]) {
        line += &format!(" --skip {test}");
    }
    let said = guest.good(&line, Duration::from_secs(1800));
    println!("{said}");
    assert!(said.contains("test result: ok."), "{said}");
}
