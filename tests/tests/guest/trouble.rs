//! A card that is reset in mid-traffic, and one that is pulled out.

use super::{bound, A, B, LONG, SHORT};

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn a_function_level_reset_in_traffic_is_told_and_survived() {
    let (_served, mut guest) = bound();
    let said = guest.good(&format!("guest-card reset {A} {B}"), LONG);
    assert!(said.contains("was reset or failed while it was in use"), "{said}");
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn a_card_that_is_pulled_out_in_traffic_is_told() {
    let (served, mut guest) = bound();
    // In the background: when the program has ended, the kernel waits a minute for the reset of a card
    // that is not there.
    guest.good(&format!("guest-card traffic {A} {B} >/tmp/traffic 2>&1 &"), SHORT);
    let until = |text: &str| {
        format!("for i in $(seq 300); do grep -q '{text}' /tmp/traffic && break; sleep 0.1; done; cat /tmp/traffic")
    };
    let said = guest.good(&until("running"), LONG);
    assert!(said.contains("running"), "{said}");
    served.pull();
    let said = guest.good(&until("^the card is gone"), LONG);
    assert!(said.contains("a command: the card is gone"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("the card is gone")), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    // The machine keeps running.
    let list = guest.good("verbena list", SHORT);
    assert!(list.contains(A), "{list}");
}
