//! The card comes up, its registers are what they are defined to be, its interrupts arrive.

use super::{bound, A, LONG, SHORT};

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn bring_up_registers_and_every_interrupt_vector() {
    let (_served, mut guest) = bound();
    guest.good(&format!("guest-card bring-up {A}"), LONG);
    guest.good(&format!("guest-card walk {A}"), LONG);
    let said = guest.good(&format!("guest-card interrupts {A}"), LONG);
    assert!(said.contains("vectors"), "{said}");
}

/// The commands for a new board, on a card in a slot.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn the_commands_for_a_new_board() {
    let (_served, mut guest) = bound();
    let device = format!("--device vfio:{A}");
    let said = guest.good(&format!("verbena probe {device}"), LONG);
    assert!(said.contains("registers 1.2") && said.contains("nothing is wrong"), "{said}");
    let said =
        guest.good(&format!("verbena regs ID --doc {device}; verbena poke SCRATCH 0x1234 {device}"), LONG);
    assert!(said.contains("0xf10a1bd4") && said.contains("is   0x0001c SCRATCH = 0x1234"), "{said}");
    guest.refused(&format!("verbena poke CONTROL 2 {device}"), "--force", SHORT);
    let said = guest.good(&format!("verbena record /tmp/rec selftest {device} --stress 0.2"), LONG);
    assert!(said.contains("config space     PASS") && said.contains("the card is well"), "{said}");
    // A served card finds no memory on demand.
    let said = guest.good("verbena replay --ignore FEATURES /tmp/rec", LONG);
    assert!(said.contains("no difference"), "{said}");
    let said = guest.good(&format!("verbena bench --seconds 0.02 --largest 4096 --qps 2 {device}"), LONG);
    assert!(said.contains("doorbell to CQE") && said.contains("message rate"), "{said}");
    let said = guest.good(&format!("verbena top --count 1 {device}"), LONG);
    assert!(said.contains("port 1  up"), "{said}");
}
