//! The driver and the provider on real VFIO, in a guest: `tests/guest/run`.
//!
//! Each test boots a guest of its own, which takes some seconds.

#[path = "guest/bonding.rs"]
mod bonding;
#[path = "guest/bring_up.rs"]
mod bring_up;
#[path = "guest/gids.rs"]
mod gids;
#[path = "guest/memory.rs"]
mod memory;
#[path = "guest/perftest.rs"]
mod perftest;
#[path = "guest/slots.rs"]
mod slots;
#[path = "guest/trouble.rs"]
mod trouble;

use std::time::Duration;

use tests::guest::{Machine, Options, Served};

/// The program that runs in the guest.
const CARD: &str = env!("CARGO_BIN_EXE_guest-card");
/// For what takes a second or two.
const SHORT: Duration = Duration::from_secs(60);
/// For what takes some seconds; the cores may be shared by two guests.
const LONG: Duration = Duration::from_secs(120);

/// PCI addresses of the served cards.
const A: &str = "0000:00:04.0";
const B: &str = "0000:00:05.0";

/// A guest with two served cards; `options` are those of `verbena serve`.
fn guest_with(options: &[&str]) -> (Served, Machine) {
    let served = Served::start(2, options);
    let options = served.sockets().iter().fold(Options::default(), |options, socket| options.card(socket));
    let machine = Machine::boot(&[(CARD, "guest-card")], &options);
    (served, machine)
}

/// A guest with two served cards.
fn guest() -> (Served, Machine) {
    guest_with(&[])
}

/// As [`guest`], both cards bound to vfio-pci.
fn bound() -> (Served, Machine) {
    bound_with(&[])
}

/// As [`guest_with`], both cards bound to vfio-pci.
fn bound_with(options: &[&str]) -> (Served, Machine) {
    let (served, mut guest) = guest_with(options);
    guest.good(&format!("verbena bind {A} {B}"), SHORT);
    (served, guest)
}
