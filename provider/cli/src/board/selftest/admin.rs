//! The admin queue and interrupts.

use std::time::Duration;

use fpga_regs::regs::{self, Health};
use fpga_regs::*;

use super::lab::{command_failed, failed, failure, hex, with_queues, Check, Lab, Stop};
use crate::board::admin::{Admin, AdminError, Queues, LOG, PATIENCE};

/// Commands: the rings wrap twice, so that each phase is seen.
const COMMANDS: u32 = (2 << LOG) + 3;

/// Commands are fetched, executed and answered, around the rings' ends.
pub fn queue(lab: &mut Lab<'_>) -> Check {
    let card = lab.card().clone();
    let mut admin = Admin::new(&card)?;
    if let Err(status) = admin.enable() {
        let cause = regs::Cause(card.read32(regs::ERROR_CAUSE));
        // The card has the rings' addresses, so they stay until it is reset.
        lab.admin = Some(admin);
        lab.end_admin();
        return failed(
            "STATUS.ready is set after CONTROL.enable",
            format!("{status:?}, cause {}", cause.code()),
            "registers CONTROL (0x20), STATUS (0x24), ADMIN_SIZE (0x50)",
        );
    }
    let mut first = Ok(());
    for number in 0..COMMANDS {
        if let Err(error) = admin.run(Command::of(AdminOpcode::NOP)) {
            first = Err((number, error));
            break;
        }
    }
    let unknown = first.is_ok().then(|| admin.run(Command::of(AdminOpcode(0xfff))));
    lab.admin = Some(admin);
    if let Err((number, error)) = first {
        let failure = unanswered(&card, number, error);
        lab.end_admin();
        return Err(failure);
    }
    lab.answers = true;
    match unknown {
        Some(Err(AdminError::Refused(_, reply))) if reply.status() == AdminStatus::BAD_OPCODE => {
            Ok(format!("{COMMANDS} NOPs, both phases; an unknown opcode is refused"))
        }
        other => {
            failed("opcode 0xfff is refused with BAD_OPCODE", format!("{other:?}"), "Reply.status (byte 2)")
        }
    }
}

/// A NOP that had no good answer.
fn unanswered(card: &crate::board::device::AnyCard, number: u32, error: AdminError) -> Stop {
    let AdminError::Silence(bytes) = error else {
        return command_failed(&format!("NOP {number} is answered OK"), error);
    };
    let slot = number & ((1 << LOG) - 1);
    let health = Health(card.read32(regs::HEALTH));
    let stalled = if health.admin_stalled() { "HEALTH.admin_stalled is set" } else { "HEALTH says nothing" };
    let (came, look) = match bytes.iter().all(|byte| *byte == 0) {
        true => (
            format!("the admin queue is stuck: no reply within {} ms; {stalled}", PATIENCE.as_millis()),
            format!(
                "register ASQ_DOORBELL (0x54, reads {}) and the DMA read at ASQ_BASE (0x40, {:#x}), entry {slot}",
                card.read32(regs::ASQ_DOORBELL),
                card.read64(regs::ASQ_BASE)
            ),
        ),
        false => (
            format!("slot {slot} of the reply ring holds {}", hex(&bytes)),
            format!("Reply.phase (byte 31, bit 0), which was to be {}", (number >> LOG & 1) ^ 1),
        ),
    };
    failure(format!("NOP {number} is answered in slot {slot} of the reply ring"), came, look)
}

/// Every vector fires when its event queue gets an entry.
pub fn interrupts(lab: &mut Lab<'_>) -> Check {
    let card = lab.card().clone();
    let vectors = card.read32(regs::VECTORS);
    if vectors == 0 || vectors > regs::MAX_VECTORS {
        return failed(
            format!("VECTORS is 1 to {}", regs::MAX_VECTORS),
            vectors.to_string(),
            "register VECTORS (0x80)",
        );
    }
    for vector in 0..vectors {
        with_queues(lab, vector, |lab, queues| one_vector(lab, queues, vector))?;
    }
    Ok(format!("{vectors} vectors"))
}

fn one_vector(lab: &mut Lab<'_>, queues: &Queues, vector: u32) -> Result<(), Stop> {
    let card = lab.card().clone();
    let admin = lab.admin()?;
    queues.init(admin).map_err(|error| command_failed("the QP goes to INIT", error))?;
    // A receive that is flushed: the shortest way to a completion.
    card.doorbell(doorbell_page(queues.page) + DOORBELL_CQ_ARM, CqArm::new(queues.cqn, false, 0).0);
    queues.post_recv(&card, 0, 64, 0);
    let to_error = admin.modify(queues.qpn, QpState::ERR, QpAttrMask::STATE, QpContext::new());
    to_error.map_err(|error| command_failed("the QP goes to ERR", error))?;
    let fired = card.wait_interrupt(vector, Duration::from_millis(500));
    let bytes = queues.events.read(0, Eqe::BYTES);
    let eqe = Eqe::from_slice(&bytes).unwrap_or_default();
    let cqn = queues.cqn;
    match (fired, eqe.phase()) {
        (Err(error), _) => failed(
            format!("interrupt vector {vector} can be waited for"),
            error.to_string(),
            "the MSI-X capability: table size in its message control word",
        ),
        (Ok(true), true) if eqe.kind() == EventKind::COMPLETION && eqe.object() == cqn => Ok(()),
        (Ok(_), true) if eqe.kind() != EventKind::COMPLETION || eqe.object() != cqn => failed(
            format!("an event COMPLETION of CQ {cqn:#x} on vector {vector}"),
            format!("{eqe:?}"),
            "Eqe.kind (byte 0) and Eqe.object (byte 4)",
        ),
        (Ok(_), true) => failed(
            format!("vector {vector} fires after its event was written"),
            "a lost interrupt: the event is in the event queue, no interrupt came within 500 ms",
            format!(
                "MSI-X table entry {vector} (BAR {}), EqContext.vector (byte 9), VECTOR_MASK ({:#x}), \
                 VECTOR_PENDING ({:#x})",
                regs::MSIX_BAR,
                card.read32(regs::VECTOR_MASK),
                card.read32(regs::VECTOR_PENDING)
            ),
        ),
        (Ok(fired), false) => failed(
            format!("an event COMPLETION of CQ {cqn:#x} in slot 0 of its event queue"),
            format!(
                "the slot holds {}; vector {vector} {}",
                hex(&bytes),
                if fired { "fired" } else { "did not fire" }
            ),
            "the CQ-arm doorbell (page offset 0x18), CqContext.vector (byte 17), Eqe.phase (byte 31)",
        ),
    }
}
