//! A card that is reset in mid-traffic, and one that is pulled out.

use super::{bound, A, B, LONG};

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
    let shell = guest.shell();
    shell.start(&format!("guest-card traffic {A} {B}")).expect("a shell");
    shell.expect("running", LONG).expect("traffic");
    served.pull();
    let said = shell.finish(LONG).expect("it ends");
    assert_eq!(said.status, 3, "{}", said.text);
    assert!(said.text.contains("the card is gone"), "{}", said.text);
    // The guest goes on, and who comes now is told too.
    guest.refused(&format!("guest-card bring-up {A}"), "", LONG);
}
