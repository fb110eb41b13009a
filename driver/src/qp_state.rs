//! The QP state machine: which step needs which attributes (InfiniBand 10.3.1, `ibv_modify_qp(3)`).
//!
//! Alternative paths, path migration and resizing are not supported by the card: they are refused by
//! name and are not in the table.

use fpga_regs::{QpState, QpType};

use crate::error::{Error, Result};
use crate::qp_attr::AttrMask;

/// The attributes that a step needs and takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Must be given, in addition to STATE.
    pub required: AttrMask,
    /// May be given.
    pub optional: AttrMask,
}

const NONE: AttrMask = AttrMask::empty();

const fn step(required: AttrMask, optional: AttrMask) -> Option<Step> {
    Some(Step { required, optional })
}

/// The union of masks, usable in constants.
macro_rules! attrs {
    ($($name:ident)|+) => { AttrMask($(AttrMask::$name.0)|+) };
}

/// The step from one state to another for a QP of `qp_type`; `None` where there is no such step.
pub fn step_of(qp_type: QpType, from: QpState, to: QpState) -> Option<Step> {
    // Those of a work queue may say from where they go.
    let optional = if qp_type == QpType::WQ { AttrMask::CUR_STATE } else { NONE };
    match to {
        QpState::RESET => return step(NONE, optional),
        // From RESET there is only the way to work.
        QpState::ERR if from == QpState::RESET => return None,
        QpState::ERR => return step(NONE, optional),
        _ => {}
    }
    match qp_type {
        QpType::RC => connected(from, to, true, true),
        QpType::UC => connected(from, to, false, false),
        QpType::XRC_SEND => connected(from, to, true, false),
        QpType::XRC_RECV => connected(from, to, false, true),
        QpType::UD => datagram(from, to),
        QpType::RAW_PACKET => frames(from, to),
        QpType::WQ if (from, to) == (QpState::RESET, QpState::RTR) => step(NONE, optional),
        _ => None,
    }
}

/// A connection's end that asks, and waits for answers, or that answers; RC does both, UC neither.
fn connected(from: QpState, to: QpState, asks: bool, answers: bool) -> Option<Step> {
    let rnr = if answers { AttrMask::MIN_RNR_TIMER } else { NONE };
    let reliable = asks || answers;
    match (from, to) {
        (QpState::RESET, QpState::INIT) => step(attrs!(PKEY_INDEX | PORT | ACCESS_FLAGS), NONE),
        (QpState::INIT, QpState::INIT) => step(NONE, attrs!(PKEY_INDEX | PORT | ACCESS_FLAGS)),
        (QpState::INIT, QpState::RTR) => {
            let mut required = attrs!(AV | PATH_MTU | DEST_QPN | RQ_PSN);
            if answers {
                required |= attrs!(MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER);
            }
            step(required, attrs!(PKEY_INDEX | ACCESS_FLAGS))
        }
        (QpState::RTR, QpState::RTS) => {
            let mut required = AttrMask::SQ_PSN;
            if reliable {
                required |= AttrMask::TIMEOUT;
            }
            if asks {
                required |= attrs!(RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC);
            }
            step(required, attrs!(CUR_STATE | ACCESS_FLAGS).union(rnr))
        }
        (QpState::RTS, QpState::RTS) | (QpState::SQD, QpState::RTS) => {
            step(NONE, attrs!(CUR_STATE | ACCESS_FLAGS).union(rnr))
        }
        (QpState::RTS, QpState::SQD) => step(NONE, AttrMask::EN_SQD_ASYNC_NOTIFY),
        (QpState::SQD, QpState::SQD) => {
            let mut optional = attrs!(AV | ACCESS_FLAGS | PKEY_INDEX);
            if reliable {
                optional |= attrs!(PORT | TIMEOUT);
            }
            if asks {
                optional |= attrs!(RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC);
            }
            if answers {
                optional |= attrs!(MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER);
            }
            step(NONE, optional)
        }
        // An RC or XRC QP goes from a send error straight to ERR: it has no SQE.
        (QpState::SQE, QpState::RTS) if !reliable => step(NONE, attrs!(CUR_STATE | ACCESS_FLAGS)),
        _ => None,
    }
}

fn datagram(from: QpState, to: QpState) -> Option<Step> {
    match (from, to) {
        (QpState::RESET, QpState::INIT) => step(attrs!(PKEY_INDEX | PORT | QKEY), NONE),
        (QpState::INIT, QpState::INIT) => step(NONE, attrs!(PKEY_INDEX | PORT | QKEY)),
        (QpState::INIT, QpState::RTR) => step(NONE, attrs!(PKEY_INDEX | QKEY)),
        (QpState::RTR, QpState::RTS) => step(AttrMask::SQ_PSN, attrs!(CUR_STATE | QKEY)),
        (QpState::RTS, QpState::RTS) | (QpState::SQD, QpState::RTS) | (QpState::SQE, QpState::RTS) => {
            step(NONE, attrs!(CUR_STATE | QKEY))
        }
        (QpState::RTS, QpState::SQD) => step(NONE, AttrMask::EN_SQD_ASYNC_NOTIFY),
        (QpState::SQD, QpState::SQD) => step(NONE, attrs!(PKEY_INDEX | QKEY)),
        _ => None,
    }
}

/// A raw packet QP has a port, and nothing else.
fn frames(from: QpState, to: QpState) -> Option<Step> {
    match (from, to) {
        (QpState::RESET, QpState::INIT) => step(AttrMask::PORT, NONE),
        (QpState::INIT, QpState::INIT) => step(NONE, AttrMask::PORT),
        (QpState::INIT, QpState::RTR) => step(NONE, NONE),
        // As Linux' `qp_state_table`.
        (QpState::RTR | QpState::RTS, QpState::RTS) => step(NONE, attrs!(CUR_STATE | RATE_LIMIT)),
        (QpState::SQD | QpState::SQE, QpState::RTS) => step(NONE, AttrMask::CUR_STATE),
        (QpState::RTS, QpState::SQD) => step(NONE, AttrMask::EN_SQD_ASYNC_NOTIFY),
        (QpState::SQD, QpState::SQD) => step(NONE, NONE),
        _ => None,
    }
}

/// Checks a modify call's mask against the table; the error names the attributes that are missing or too many.
pub fn check(qp_type: QpType, from: QpState, to: QpState, mask: AttrMask) -> Result<()> {
    for (attr, what) in [
        (AttrMask::ALT_PATH, "an alternative path (ALT_PATH)"),
        (AttrMask::PATH_MIG_STATE, "path migration (PATH_MIG_STATE)"),
        (AttrMask::CAP, "resizing a QP (CAP)"),
    ] {
        if mask.contains(attr) {
            return Err(Error::Unsupported(what));
        }
    }
    let step_name = format!("{qp_type} QP {from} -> {to}");
    let Some(step) = step_of(qp_type, from, to) else {
        return Err(Error::Invalid(format!(
            "{step_name}: there is no such step; query the QP's state first"
        )));
    };
    let missing = step.required.without(mask);
    if missing != NONE {
        return Err(Error::Invalid(format!("{step_name}: needs the attribute {missing}")));
    }
    let forbidden = mask.without(step.required | step.optional | AttrMask::STATE);
    if forbidden != NONE {
        return Err(Error::Invalid(format!("{step_name}: does not take the attribute {forbidden}")));
    }
    Ok(())
}

/// Whether sends may be posted in this state (in SQE and ERR they complete with a flush).
pub const fn can_send(state: QpState) -> bool {
    state.0 >= QpState::RTS.0 && state.0 <= QpState::ERR.0
}

/// Whether receives may be posted in this state.
pub const fn can_receive(state: QpState) -> bool {
    state.0 >= QpState::INIT.0 && state.0 <= QpState::ERR.0
}
