//! The admin queue: time-outs that name the command, late replies, many threads.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use driver::Error;
use fpga_regs::{regs, AdminOpcode, AdminStatus, Reply};

use crate::fake;
use crate::script::*;
use crate::scripted::Step;

#[test]
fn a_time_out_names_the_command() {
    let (card, device) = opened(features());
    device.set_command_timeout(Duration::from_millis(20));
    card.expect([Step::Write32(regs::ASQ_DOORBELL, 4), Step::Read32(regs::ID, regs::ID_VALUE)]);
    let error = device.alloc_pd().err().unwrap();
    insta::assert_snapshot!(error, @"the card did not answer ALLOC_PD within 20ms: reset the card or restart what serves it");
    assert_eq!(error.errno(), libc::ETIMEDOUT);
    assert!(card.relaxed() > 0, "the card is given a chance while the driver polls");
    card.finish();
    card.expect(stop());
}

#[test]
fn a_card_that_vanished_is_told_from_a_slow_one() {
    let (card, device) = opened(features());
    device.set_command_timeout(Duration::from_millis(5));
    card.expect([Step::Write32(regs::ASQ_DOORBELL, 4), Step::Read32(regs::ID, u32::MAX)]);
    let error = device.alloc_pd().err().unwrap();
    assert!(matches!(error, Error::Card(driver::CardError::Gone)), "{error}");
    card.expect(stop());
}

#[test]
fn a_late_reply_is_not_taken_for_another_command() {
    let (card, device) = opened(features());
    device.set_command_timeout(Duration::from_millis(5));
    card.expect([Step::Write32(regs::ASQ_DOORBELL, 4), Step::Read32(regs::ID, regs::ID_VALUE)]);
    device.alloc_pd().err().unwrap();
    card.finish();
    // The reply to command 3 comes just before that to command 4, which has another tag.
    card.expect([
        Step::Write32(regs::ASQ_DOORBELL, 5),
        answer(3, AdminOpcode::ALLOC_PD, Reply::new().with_object(0xbad), vec![]),
        answer(4, AdminOpcode::ALLOC_PD, Reply::new().with_object(7), vec![]),
        Step::Write32(regs::ACQ_CONSUMER, 5),
    ]);
    let pd = device.alloc_pd().unwrap();
    assert_eq!(pd.pdn(), 7);
    card.expect(command(5, AdminOpcode::FREE_PD, Reply::new(), vec![]));
    pd.destroy().unwrap();
    card.expect(stop());
}

#[test]
fn a_panic_in_the_middle_of_a_command_harms_no_other() {
    let (card, device) = opened(features());
    // More than there are slots.
    for n in 3..40 {
        card.expect([
            Step::Write32(regs::ASQ_DOORBELL, n + 1),
            answer(n, AdminOpcode::ALLOC_PD, Reply::new(), vec![]),
            Step::Write32(regs::ACQ_CONSUMER, u32::MAX),
        ]);
        let panicked = catch_unwind(AssertUnwindSafe(|| device.alloc_pd())).is_err();
        assert!(panicked, "the script wants another index");
    }
    card.expect(command(40, AdminOpcode::ALLOC_PD, Reply::new().with_status(AdminStatus::LIMIT), vec![]));
    assert_eq!(device.alloc_pd().err().unwrap().errno(), libc::EINVAL);
    card.expect(stop());
}

#[test]
fn a_second_destroy_is_refused_without_a_command() {
    let (card, device) = opened(features());
    card.expect(command(3, AdminOpcode::ALLOC_PD, Reply::new().with_object(7), vec![]));
    let pd = device.alloc_pd().unwrap();
    card.expect(command(4, AdminOpcode::FREE_PD, Reply::new().with_status(AdminStatus::IN_USE), vec![]));
    assert_eq!(pd.destroy().unwrap_err().errno(), libc::EBUSY);
    card.expect(command(5, AdminOpcode::FREE_PD, Reply::new(), vec![]));
    pd.destroy().unwrap();
    assert!(matches!(pd.destroy(), Err(Error::Destroyed(_))));
    card.expect(stop());
}

#[test]
fn replies_go_round_their_ring() {
    let (card, device) = opened(features());
    for n in 3..200 {
        let reply = Reply::new().with_status(AdminStatus::NO_RESOURCE);
        card.expect(command(n, AdminOpcode::ALLOC_PD, reply, vec![]));
        assert_eq!(device.alloc_pd().err().unwrap().errno(), libc::ENOMEM);
    }
    card.finish();
    card.expect(stop());
}

#[test]
fn every_status_has_an_errno() {
    for (status, errno) in [
        (AdminStatus::BAD_OPCODE, libc::EOPNOTSUPP),
        (AdminStatus::BAD_PARAM, libc::EINVAL),
        (AdminStatus::NO_RESOURCE, libc::ENOMEM),
        (AdminStatus::BAD_STATE, libc::EINVAL),
        (AdminStatus::IN_USE, libc::EBUSY),
        (AdminStatus::NOT_FOUND, libc::ENOENT),
        (AdminStatus::LIMIT, libc::EINVAL),
        (AdminStatus::NOT_SUPPORTED, libc::EOPNOTSUPP),
        (AdminStatus::INTERNAL, libc::EIO),
        (AdminStatus::DMA_ERROR, libc::EIO),
        (AdminStatus(200), libc::EINVAL),
    ] {
        let error = Error::Refused { command: AdminOpcode::NOP, status, syndrome: Default::default() };
        assert_eq!(error.errno(), errno, "{status}");
    }
}

#[test]
fn many_threads_have_commands_in_flight() {
    let device = fake::open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let pd = device.alloc_pd().unwrap();
                    pd.destroy().unwrap();
                }
            });
        }
    });
    assert_eq!(device.card().objects(AdminOpcode::ALLOC_PD), 0);
}
