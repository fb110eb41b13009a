//! The register map.

use fpga_regs::regs::{self, gid, page, port};
use fpga_regs::*;
use insta::assert_snapshot;

#[test]
fn offsets_are_those_of_revision_1() {
    assert_eq!((regs::ID, regs::VERSION, regs::FEATURES), (0, 4, 8));
    assert_eq!((regs::CONTROL, regs::STATUS), (0x20, 0x24));
    assert_eq!((regs::ASQ_BASE, regs::ACQ_CONSUMER), (0x40, 0x58));
    assert_eq!(regs::eq_consumer(31), 0x17c);
    assert_eq!(port::base(1) + port::LINK, 0x2000);
    assert_eq!(port::gid_entry(1, 15) + gid::GID_ATTR, 0x29f0);
    assert_eq!(doorbell_page(63) + page::CQ_ARM, 0x4f018);
}

#[test]
fn every_register_is_found_by_its_offset() {
    let mut end = 0;
    let mut all: Vec<_> = regs::registers().collect();
    all.sort_by_key(|(_, offset, _)| *offset);
    for (name, offset, register) in all {
        assert!(offset >= end, "{name} overlaps");
        end = offset + register.bytes * register.count;
        let first = regs::locate(offset).unwrap();
        let last = regs::locate(end - 1).unwrap();
        assert_eq!(first.register, register);
        assert_eq!(last.register, register);
        if register.count == 1 {
            assert_eq!(first.name, name);
        } else {
            assert_eq!(first.name, format!("{name}[0]"));
            assert_eq!(last.name, format!("{name}[{}]", register.count - 1));
        }
    }
    assert_eq!(regs::locate(0x38), None);
    assert_eq!(regs::locate(u32::MAX), None);
}

#[test]
fn values_are_described() {
    let link =
        regs::Link(0).with_up(true).with_state(regs::LinkState::ACTIVE).with_phys(regs::PhysState::LINK_UP);
    let features = regs::FeatureSet::RC | regs::FeatureSet::SRQ;
    let cause = regs::Cause(0).with_code(regs::ErrorCause::EQ_OVERRUN);
    let sq = SqDoorbell::new(0x12, 0x345);
    let lines = [
        regs::describe(regs::ID, regs::ID_VALUE.into()),
        regs::describe(regs::VERSION, regs::VERSION_VALUE.into()),
        regs::describe(regs::FEATURES, features.bits()),
        regs::describe(regs::CONTROL, 3),
        regs::describe(regs::CONTROL, 0x81),
        regs::describe(regs::HEALTH, 0x0042_2d08),
        regs::describe(regs::ERROR_CAUSE, cause.0.into()),
        regs::describe(regs::ASQ_DOORBELL, 17),
        regs::describe(regs::eq_consumer(3), 17),
        regs::describe(port::base(1) + port::LINK, link.0.into()),
        regs::describe(port::base(0) + port::RNR_NAK, 2),
        regs::describe(port::gid_entry(1, 2) + gid::GID_ATTR, 0x201),
        regs::describe(doorbell_page(3) + page::SQ, sq.0),
        regs::describe(doorbell_page(3) + page::CQ_ARM, CqArm::new(4, true, 9).0),
        regs::describe(doorbell_page(0) + PUSH_WINDOW + PUSH_BYTES as u32, 0),
        regs::describe(0x38, 1),
    ];
    assert_snapshot!("values", lines.join("\n"));
}

#[test]
fn counters_are_all_64_bits() {
    let names: Vec<&str> = port::counters().map(|counter| counter.name).collect();
    assert_eq!(names.first(), Some(&"TX_PACKETS"));
    assert!(names.contains(&"RX_ICRC_ERRORS"));
    assert!(port::counters().all(|counter| counter.bytes == 8));
}

#[test]
fn doorbells_keep_their_fields() {
    let sq = SqDoorbell::new(0xff_ffff, u32::MAX);
    assert_eq!(sq.0, 0xffff_ffff_00ff_ffff);
    assert!(!sq.pushed());
    let pushed = SqDoorbell::new(1, 2).with_pushed(true).with_slot(3).with_blocks(7);
    assert_eq!((pushed.qpn(), pushed.index()), (1, 2));
    assert_eq!((pushed.slot(), pushed.blocks()), (3, 7));
    let arm = CqArm::new(5, true, 6);
    assert_eq!((arm.cqn(), arm.solicited_only(), arm.index()), (5, true, 6));
    assert_eq!(SrqDoorbell::new(7, 8).srqn(), 7);
    assert_eq!(RqDoorbell::new(7, 8).index(), 8);
}
