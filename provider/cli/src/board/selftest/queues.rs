//! A completion, and one message from a QP to itself, by hand: the driver is not needed yet.

use fpga_regs::regs::{self, port};
use fpga_regs::*;

use super::lab::{command_failed, failed, hex, skipped, with_queues, Check, Lab, Stop};
use crate::board::admin::{Queues, PATIENCE};
use crate::board::memory::Shared;
use crate::board::probe::gid_bytes;

/// Waits for CQE 0 or 1 and checks its phase.
fn cqe(lab: &Lab<'_>, queues: &Queues, index: usize, what: &str) -> Result<Cqe, Stop> {
    queues.wait_cqe(lab.card(), index).or_else(|bytes| {
        let at = queues.cqes.iova + (index * Cqe::BYTES) as u64;
        let expected = format!("{what} is in slot {index} of the CQ, at {at:#x}, with phase 1");
        if bytes.iter().all(|byte| *byte == 0) {
            let look = "CqContext.ring_iova (byte 0), the QP's send_cq and recv_cq, the doorbells";
            return failed(expected, format!("nothing within {} ms", PATIENCE.as_millis()), look);
        }
        failed(
            expected,
            format!("a CQE with the wrong phase: phase 0 on the first lap; the slot holds {}", hex(&bytes)),
            format!("Cqe.phase (byte 63, bit 0, at {:#x}): 1 on the first lap of a ring", at + 63),
        )
    })
}

/// Compares fields of a CQE.
fn compare(got: &Cqe, want: &Cqe, fields: &[&str]) -> Result<(), Stop> {
    for field in Cqe::FIELDS.iter().filter(|field| fields.contains(&field.name)) {
        let (got, want) = (field.text(got.as_bytes()), field.text(want.as_bytes()));
        if got != want {
            return failed(
                format!("Cqe.{} is {want}", field.name),
                got,
                format!("Cqe.{} (byte {}): {}", field.name, field.byte(), field.doc.trim()),
            );
        }
    }
    Ok(())
}

/// A receive that is flushed gives a good CQE.
pub fn completion(lab: &mut Lab<'_>) -> Check {
    with_queues(lab, 0, flushed)
}

fn flushed(lab: &mut Lab<'_>, queues: &Queues) -> Check {
    let card = lab.card().clone();
    let admin = lab.admin()?;
    queues.init(admin).map_err(|error| command_failed("the QP goes to INIT", error))?;
    queues.post_recv(&card, 0, 64, 0);
    let to_error = admin.modify(queues.qpn, QpState::ERR, QpAttrMask::STATE, QpContext::new());
    to_error.map_err(|error| command_failed("the QP goes to ERR", error))?;
    let got = cqe(lab, queues, 0, "the flushed receive")?;
    let want = Cqe::new()
        .with_qpn(queues.qpn)
        .with_recv(true)
        .with_status(CqeStatus::WR_FLUSH_ERR)
        .with_opcode(CqeOpcode::RECV);
    compare(&got, &want, &["wqe_index", "qpn", "recv", "status"])?;
    Ok("a flushed receive, phase 1".into())
}

/// What the message says.
const TEXT: [u8; 32] = *b"verbena selftest: loopback send.";

/// One inline SEND of a QP to itself.
pub fn loopback(lab: &mut Lab<'_>) -> Check {
    let buffer = Shared::new(lab.card(), 4096)?;
    let result = with_queues(lab, 0, |lab, queues| send_to_itself(lab, queues, &buffer));
    lab.kept_memory.push(buffer);
    result
}

fn send_to_itself(lab: &mut Lab<'_>, queues: &Queues, buffer: &Shared) -> Check {
    let card = lab.card().clone();
    let count = card.read32(port::base(0) + port::GID_COUNT).min(regs::gid::GID_ENTRIES);
    let Some(index) = (0..count).rev().find(|index| gid_bytes(&card, 0, *index) != [0; 16]) else {
        return skipped("port 1 has no GID: give it an address");
    };
    let admin = lab.admin()?;
    queues.init(admin).map_err(|error| command_failed("the QP goes to INIT", error))?;
    let gid = gid_bytes(&card, 0, index);
    let connected = queues.connect_to_itself(admin, index as u8, gid);
    connected.map_err(|error| command_failed("the QP goes to RTS, connected with itself", error))?;
    let context = MrContext::new()
        .with_pd(queues.pd)
        .with_access(Access::LOCAL_WRITE)
        .with_va(buffer.iova)
        .with_length(buffer.len as u64)
        .with_iova(buffer.iova);
    let lkey = admin.create(AdminOpcode::CREATE_MR, context.as_bytes());
    let lkey = lkey.map_err(|error| command_failed("memory is registered", error))?;
    let at = 256;
    queues.post_recv(&card, buffer.iova + at, TEXT.len() as u32, lkey);
    let wqe = WqeBuilder::new(WqeOpcode::SEND).ctrl(|ctrl| ctrl.with_signaled(true)).inline(&TEXT);
    let wqe = wqe.build().expect("it is well-formed");
    queues.post_send(&card, &wqe);
    // The receive is done before the send is acknowledged; an error has one CQE only.
    let first = cqe(lab, queues, 0, "the receive's or the send's CQE")?;
    if first.status() != CqeStatus::SUCCESS {
        return failed("the SEND completes with SUCCESS", error_of(&first), blame(&first, queues, &wqe));
    }
    let second = cqe(lab, queues, 1, "the second CQE")?;
    let (recv, send) = if first.recv() { (first, second) } else { (second, first) };
    let fields = ["wqe_index", "qpn", "recv", "status", "opcode", "byte_len"];
    let want = Cqe::new().with_qpn(queues.qpn).with_opcode(CqeOpcode::SEND);
    compare(&send, &want, &fields[..5])?;
    let want = want.with_recv(true).with_opcode(CqeOpcode::RECV).with_byte_len(TEXT.len() as u32);
    compare(&recv, &want, &fields)?;
    let got = buffer.read(0, buffer.len);
    let (start, end) = (at as usize, at as usize + TEXT.len());
    if got[start..end] != TEXT {
        let found = got.windows(TEXT.len()).position(|bytes| bytes == TEXT);
        let came = match found {
            Some(found) => {
                format!("DMA to a wrong address: it is {:+} bytes from there", found as i64 - start as i64)
            }
            None => format!("there is {}", hex(&got[start..end])),
        };
        let look = format!("the DMA write of the payload, at {:#x}", buffer.iova + at);
        return failed(format!("the message is at {:#x}", buffer.iova + at), came, look);
    }
    let destroy = Command::of(AdminOpcode::DESTROY_MR).with_object(lkey);
    let destroyed = lab.admin()?.run(destroy);
    destroyed.map_err(|error| command_failed("the memory region is destroyed", error))?;
    Ok(format!("{} bytes inline, GID {index}", TEXT.len()))
}

fn error_of(cqe: &Cqe) -> String {
    let side = if cqe.recv() { "receive" } else { "send" };
    let why = match cqe.syndrome() {
        Syndrome::BAD_OPCODE | Syndrome::BAD_WQE | Syndrome::BAD_WQE_INDEX | Syndrome::TOO_MANY_SGE
            if !cqe.recv() =>
        {
            "a corrupted WQE fetch: the card finds the WQE malformed, in memory it is well-formed; "
        }
        _ => "",
    };
    format!("{why}the {side} completed with {} (syndrome {})", cqe.status(), cqe.syndrome())
}

/// Where to look after a failed send.
fn blame(cqe: &Cqe, queues: &Queues, posted: &[u8]) -> String {
    let at = queues.rings.iova;
    let in_memory = queues.rings.read(0, posted.len());
    let same = if in_memory == posted { "as it was written" } else { "CHANGED since it was written" };
    format!(
        "the DMA read of {} bytes at {at:#x} (QpContext.sq_iova), whose first 16 are {} ({same}: verbena decode wqe); \
         Cqe.status (byte 22), Cqe.syndrome (byte 23) = {:#04x}",
        posted.len(),
        hex(&in_memory[..16]),
        cqe.syndrome().0
    )
}
