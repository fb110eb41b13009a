//! The whole state table, and what calls outside of it are told.

use driver::qp_state::{can_receive, can_send, check, step_of};
use driver::AttrMask;
use fpga_regs::{QpState, QpType};
use std::fmt::Write;

const TYPES: [QpType; 6] =
    [QpType::RC, QpType::UC, QpType::UD, QpType::RAW_PACKET, QpType::XRC_SEND, QpType::XRC_RECV];
const STATES: [QpState; 7] =
    [QpState::RESET, QpState::INIT, QpState::RTR, QpState::RTS, QpState::SQD, QpState::SQE, QpState::ERR];

#[test]
fn every_step() {
    let mut text = String::new();
    for qp_type in TYPES {
        for from in STATES {
            for to in STATES {
                let Some(step) = step_of(qp_type, from, to) else { continue };
                // Always there, and without attributes: see below.
                if to != QpState::RESET && to != QpState::ERR {
                    let (required, optional) = (step.required, step.optional);
                    writeln!(text, "{qp_type} {from} -> {to}: {required}; optional: {optional}").unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn reset_and_error_are_reached_from_everywhere_with_the_state_alone() {
    for qp_type in TYPES {
        for from in STATES {
            for to in [QpState::RESET, QpState::ERR] {
                if (from, to) == (QpState::RESET, QpState::ERR) {
                    assert!(check(qp_type, from, to, AttrMask::STATE).is_err(), "only INIT follows RESET");
                    continue;
                }
                check(qp_type, from, to, AttrMask::STATE).unwrap();
                assert!(check(qp_type, from, to, AttrMask::STATE | AttrMask::PORT).is_err());
            }
        }
    }
}

#[test]
fn required_and_optional_together_are_accepted_and_each_missing_one_is_not() {
    for qp_type in TYPES {
        for from in STATES {
            for to in STATES {
                let Some(step) = step_of(qp_type, from, to) else {
                    assert!(check(qp_type, from, to, AttrMask::STATE).is_err());
                    continue;
                };
                check(qp_type, from, to, step.required | step.optional | AttrMask::STATE).unwrap();
                check(qp_type, from, to, step.required | AttrMask::STATE).unwrap();
                for bit in (0..32).map(|bit| AttrMask(1 << bit)) {
                    if step.required.contains(bit) {
                        let error = check(qp_type, from, to, step.required.without(bit)).unwrap_err();
                        assert!(
                            error.to_string().ends_with(&format!("needs the attribute {bit}")),
                            "{error}"
                        );
                    } else if !step.optional.contains(bit) && bit != AttrMask::STATE {
                        assert!(
                            check(qp_type, from, to, step.required | bit).is_err(),
                            "{from} -> {to} {bit}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_masks_of_perftest() {
    check(QpType::RC, QpState::RESET, QpState::INIT, AttrMask(0x39)).unwrap();
    check(QpType::RC, QpState::INIT, QpState::RTR, AttrMask(0x129181)).unwrap();
    check(QpType::RC, QpState::RTR, QpState::RTS, AttrMask(0x12e01)).unwrap();
}

#[test]
fn an_rc_qp_has_no_send_queue_error() {
    assert_eq!(step_of(QpType::RC, QpState::SQE, QpState::RTS), None);
    assert!(step_of(QpType::UD, QpState::SQE, QpState::RTS).is_some());
    assert_eq!(step_of(QpType(77), QpState::RESET, QpState::INIT), None);
}

#[test]
fn posting_by_state() {
    let allowed =
        |may: fn(QpState) -> bool| STATES.into_iter().filter(|state| may(*state)).collect::<Vec<_>>();
    assert_eq!(allowed(can_send), STATES[3..]);
    assert_eq!(allowed(can_receive), STATES[1..]);
    assert!(!can_send(QpState(7)) && !can_receive(QpState(7)));
}
