//! The registers of the model after a reset are those that the register map declares.

use driver::Registers;
use fpga_regs::regs::{self, registers, Control, Mode};
use model::attach::SegmentCard;
use tests::Net;

/// Every cell of every register: its name, offset, bytes, mode and declared reset value.
fn cells() -> impl Iterator<Item = (String, u32, u32, Mode, Option<u64>)> {
    registers().flat_map(|(name, offset, register)| {
        (0..register.count).map(move |cell| {
            let offset = offset + cell * register.bytes;
            (format!("{name} {cell}"), offset, register.bytes, register.mode, register.reset)
        })
    })
}

fn read(card: &SegmentCard, offset: u32, bytes: u32) -> u64 {
    match bytes {
        8 => card.read64(offset),
        _ => card.read32(offset).into(),
    }
}

#[track_caller]
fn check(card: &SegmentCard, when: &str) {
    let mut checked = 0;
    for (name, offset, bytes, _, reset) in cells() {
        if let Some(reset) = reset {
            assert_eq!(read(card, offset, bytes), reset, "{name} at {offset:#x}, {when}");
            checked += 1;
        }
    }
    assert!(checked > 80, "only {checked} registers declare a reset value");
}

#[test]
fn registers_have_their_declared_values_after_a_reset() {
    let net = Net::new(1);
    let card = SegmentCard::open(&net.socket(), 0).expect("the card opens");
    check(&card, "when opened");

    for (_, offset, bytes, mode, _) in cells() {
        // CONTROL would start the card, the doorbell the admin queue that is not there.
        if mode == Mode::RW && ![regs::CONTROL, regs::ASQ_DOORBELL].contains(&offset) {
            match bytes {
                8 => card.write64(offset, 0x5a5a_5000),
                _ => card.write32(offset, 5),
            }
        }
    }
    assert_eq!(read(&card, regs::SCRATCH, 4), 5);
    assert_eq!(read(&card, regs::eq_consumer(0), 4), 5);
    card.write32(regs::CONTROL, Control(0).with_reset(true).0);
    check(&card, "after CONTROL.reset");
}
