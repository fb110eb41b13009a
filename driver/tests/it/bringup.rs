//! Bring-up, access by access.

use driver::{CardError, Device, Error};
use fpga_regs::regs::{self, Cause, ErrorCause, Status};
use fpga_regs::{AdminOpcode, AdminStatus, EqContext, Reply, Syndrome};

use crate::script::*;
use crate::scripted::{Scripted, Step};

#[test]
fn the_whole_sequence() {
    let (card, device) = opened(features());
    assert_eq!(device.limits().max_qp_wr(), 8192);
    assert_eq!(device.node_guid(), 0x0056_42ff_fe00_0000);
    // The event queue's context names the ring that follows the mailboxes.
    let mailbox = card.memory(|memory| memory.read(COMMANDS + 2 * 64, 64));
    let command = fpga_regs::Command::from_slice(&mailbox).unwrap();
    let context = card.memory(|memory| memory.read(command.in_iova(), EqContext::BYTES));
    let context = EqContext::from_slice(&context).unwrap();
    assert_eq!((context.ring_iova(), context.log_size(), context.vector()), (EVENTS, 13, 0));
    card.expect(stop());
    drop(device);
    card.finish();
    assert_eq!(card.memory(|memory| memory.live()), 0, "all memory was given back");
}

fn open_with(steps: Vec<Step>) -> Error {
    let card = Scripted::new();
    card.expect(steps);
    let error = Device::open(card.clone()).err().expect("must fail");
    card.finish();
    error
}

#[test]
fn a_foreign_card_is_named() {
    let error = open_with(vec![Step::Read32(regs::ID, 0x1017_15b3)]);
    insta::assert_snapshot!(error, @"this is not a Verbena card: vendor 0x15b3 device 0x1017 was read, 0x1bd4 0xf10a is needed; check which PCI slot was given");
    assert_eq!(error.errno(), libc::ENODEV);
}

#[test]
fn all_ones_is_a_card_that_is_gone() {
    let error = open_with(vec![Step::Read32(regs::ID, u32::MAX)]);
    assert!(matches!(error, Error::Card(CardError::Gone)));
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_is_not() {
    let error =
        open_with(vec![Step::Read32(regs::ID, regs::ID_VALUE), Step::Read32(regs::VERSION, 0x0002_0001)]);
    insta::assert_snapshot!(error, @"the card has register definition 2.1, this driver knows 1.x: install a driver that is as new as the card's firmware");

    let card = Scripted::new();
    let mut steps = start(features());
    steps[1] = Step::Read32(regs::VERSION, 0x0001_0007);
    card.expect(steps);
    card.expect(first_commands());
    assert!(Device::open(card.clone()).is_ok_and(|device| {
        card.finish();
        card.expect(stop());
        drop(device);
        true
    }));
}

#[test]
fn a_failed_enable_tells_the_cause() {
    let mut steps = start(features());
    steps.truncate(12);
    steps.push(Step::Read32(regs::STATUS, Status(0).with_error(true).0));
    steps.push(Step::Read32(regs::ERROR_CAUSE, Cause(0).with_code(ErrorCause::ADMIN_RING).0));
    let error = open_with(steps);
    assert!(matches!(error, Error::BringUp { what: "enabling the card", cause: 0x10, .. }), "{error}");
}

#[test]
fn a_refused_first_command_resets_the_card_again() {
    let mut steps = start(features());
    let refused = Reply::new().with_status(AdminStatus::INTERNAL).with_syndrome(Syndrome::TABLE_FULL);
    steps.extend(command(0, AdminOpcode::QUERY_CARD, refused, vec![]));
    steps.extend(stop());
    let error = open_with(steps);
    insta::assert_snapshot!(error, @"the card refused QUERY_CARD: INTERNAL (syndrome TABLE_FULL); reset the card");
}
