//! DMA both ways by the admin queue's mailboxes: no work queue is needed.

use fpga_regs::*;

use super::lab::{command_failed, failed, hex, with_queues, Check, Lab};
use crate::board::memory::Shared;

/// What memory holds before the card writes.
const CANARY: u8 = 0xa5;
/// Bytes of the memory, in which mailboxes start from [`MIDDLE`] on.
const BYTES: usize = 4 * 4096;
const MIDDLE: usize = 4096;
/// Offsets of mailboxes: aligned and not, at the end of a page, over it.
const OFFSETS: [usize; 6] = [0, 8, 64, 200, 4096 - 128, 4096 - 40];

/// QUERY_CARD's answer lands where it shall and nowhere else.
pub fn write(lab: &mut Lab<'_>) -> Check {
    let memory = Shared::new(lab.card(), BYTES)?;
    let result = write_into(lab, &memory);
    lab.kept_memory.push(memory);
    result
}

fn write_into(lab: &mut Lab<'_>, memory: &Shared) -> Check {
    let mut first: Option<Vec<u8>> = None;
    for offset in OFFSETS {
        let at = MIDDLE + offset;
        memory.fill(CANARY);
        let command = Command::of(AdminOpcode::QUERY_CARD)
            .with_out_iova(memory.iova + at as u64)
            .with_out_len(CardLimits::BYTES as u32);
        lab.admin()?.run(command).map_err(|error| command_failed("QUERY_CARD is answered", error))?;
        let all = memory.read(0, BYTES);
        let answer = all[at..at + CardLimits::BYTES].to_vec();
        let outside = |index: &usize| all[*index] != CANARY && !(at..at + CardLimits::BYTES).contains(index);
        if let Some(stray) = (0..BYTES).find(outside) {
            let changed: Vec<usize> = (0..BYTES).filter(|index| all[*index] != CANARY).collect();
            let (low, high) = (changed[0], changed[changed.len() - 1]);
            return failed(
                format!("{} bytes are written at {:#x}", CardLimits::BYTES, memory.iova + at as u64),
                format!(
                    "DMA to a wrong address: bytes {:#x} to {:#x} were written, {:+} bytes from where they belong",
                    memory.iova + low as u64,
                    memory.iova + high as u64,
                    low as i64 - at as i64
                ),
                format!(
                    "byte {:#x}; the address of the DMA write that Command.out_iova (byte 24) gives",
                    memory.iova + stray as u64
                ),
            );
        }
        let limits = CardLimits::from_slice(&answer).unwrap_or_default();
        if limits.ports() == 0 || limits.max_qp() == 0 || limits.ports() > regs::PORTS {
            return failed(
                format!("the limits name 1 to {} ports and some QPs", regs::PORTS),
                format!("the mailbox holds {}", hex(&answer)),
                "CardLimits.max_qp (byte 0) and CardLimits.ports (byte 80)",
            );
        }
        match &first {
            None => first = Some(answer),
            Some(first) if *first != answer => {
                let byte = first.iter().zip(&answer).position(|(one, other)| one != other).unwrap_or(0);
                return failed(
                    "the same answer at every address",
                    format!(
                        "at offset {offset} of a page: byte {byte} is {:#04x}, it was {:#04x}",
                        answer[byte], first[byte]
                    ),
                    format!("byte {byte} of the mailbox; byte enables and the cut at 4 KiB of the DMA write"),
                );
            }
            Some(_) => {}
        }
    }
    Ok(format!("{} bytes at {} alignments, nothing beside them", CardLimits::BYTES, OFFSETS.len()))
}

/// What CREATE_QP reads from a mailbox, QUERY_QP gives back.
pub fn read(lab: &mut Lab<'_>) -> Check {
    let memory = Shared::new(lab.card(), BYTES)?;
    let result = with_queues(lab, 0, |lab, queues| read_from(lab, &memory, queues.context));
    lab.kept_memory.push(memory);
    result
}

fn read_from(lab: &mut Lab<'_>, memory: &Shared, context: QpContext) -> Check {
    for (number, offset) in OFFSETS.into_iter().enumerate() {
        let at = MIDDLE + offset;
        // Something else each time, so that an old answer is seen.
        let context = context.with_max_inline(number as u32 + 1).with_sq_sig_all(number % 2 == 0);
        memory.fill(CANARY);
        memory.write(at, context.as_bytes());
        let create = Command::of(AdminOpcode::CREATE_QP)
            .with_in_iova(memory.iova + at as u64)
            .with_in_len(QpContext::BYTES as u32);
        let admin = lab.admin()?;
        let expected = "CREATE_QP takes the context that it reads";
        let qpn = admin.run(create).map_err(|error| command_failed(expected, error))?.object();
        let out = 3 * 4096;
        let query = Command::of(AdminOpcode::QUERY_QP)
            .with_object(qpn)
            .with_out_iova(memory.iova + out as u64)
            .with_out_len(QpContext::BYTES as u32);
        admin.run(query).map_err(|error| command_failed("QUERY_QP is answered", error))?;
        let destroy = Command::of(AdminOpcode::DESTROY_QP).with_object(qpn);
        admin.run(destroy).map_err(|error| command_failed("DESTROY_QP is answered", error))?;
        let got = memory.read(out, QpContext::BYTES);
        let set = QpContext::FIELDS
            .iter()
            .filter(|field| field.value(context.as_bytes()).is_some_and(|value| value != 0));
        for field in set {
            if field.text(&got) != field.text(context.as_bytes()) {
                return failed(
                    format!("QpContext.{} is {}", field.name, field.text(context.as_bytes())),
                    format!("{}, read from {:#x}", field.text(&got), memory.iova + at as u64),
                    format!("byte {} of the mailbox: the DMA read that Command.in_iova gives", field.byte()),
                );
            }
        }
    }
    Ok(format!("{} bytes at {} alignments", QpContext::BYTES, OFFSETS.len()))
}
