//! The card comes up, its registers are what they are defined to be, its interrupts arrive.

use super::{bound, A, LONG};

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn bring_up_registers_and_every_interrupt_vector() {
    let (_served, mut guest) = bound();
    guest.good(&format!("guest-card bring-up {A}"), LONG);
    guest.good(&format!("guest-card walk {A}"), LONG);
    let said = guest.good(&format!("guest-card interrupts {A}"), LONG);
    assert!(said.contains("vectors"), "{said}");
}
