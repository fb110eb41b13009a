//! A send WQE.

use super::lines::Decoded;
use super::recv::{padding, sges};
use crate::wqe::*;
use crate::wqe_segment::{head_bytes, Service};

/// Consecutive send WQEs, as in a ring.
pub fn wqes(bytes: &[u8]) -> Vec<Decoded> {
    let mut all = Vec::new();
    let mut rest = bytes;
    loop {
        let blocks = WqeCtrl::from_slice(rest).map_or(1, |ctrl| ctrl.blocks() as usize);
        let size = rest.len().min(blocks * WQE_BLOCK);
        all.push(wqe(&rest[..size]));
        rest = &rest[size..];
        if rest.is_empty() {
            return all;
        }
    }
}

/// One send WQE with all its segments.
pub fn wqe(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let Some(ctrl) = WqeCtrl::from_slice(bytes) else {
        decoded.title = "send WQE, cut short".to_string();
        decoded.segment("WqeCtrl", &WqeCtrl::FORMAT, WqeCtrl::FIELDS, bytes, 0);
        return decoded;
    };
    let opcode = ctrl.opcode();
    let stated = usize::from(ctrl.ds()) * WQE_UNIT;
    decoded.title = format!("send WQE: {opcode}, {stated} bytes");
    decoded.segment("WqeCtrl", &WqeCtrl::FORMAT, WqeCtrl::FIELDS, bytes, 0);
    if opcode.name().is_none() {
        let problem = format!("opcode {opcode} is not known");
        decoded.problems.push(problem);
        if bytes.len() > WqeCtrl::BYTES {
            decoded.raw("bytes", &bytes[WqeCtrl::BYTES..], WqeCtrl::BYTES);
        }
        return decoded;
    }
    let service = ctrl.service();
    let mut at = WqeCtrl::BYTES;
    for segment in opcode.segments(service) {
        let format = segment.format();
        if !decoded.segment(format.name, format, format.fields, bytes, at) {
            return decoded;
        }
        at += format.bytes;
    }
    let end = data(&mut decoded, &ctrl, bytes, at);
    check(&mut decoded, &ctrl, service);
    padding(&mut decoded, bytes, end);
    decoded
}

/// The data, inline or by SGEs; the byte after it.
fn data(decoded: &mut Decoded, ctrl: &WqeCtrl, bytes: &[u8], at: usize) -> usize {
    if !ctrl.inline() {
        return sges(decoded, bytes, at, usize::from(ctrl.num_sge()));
    }
    let length = ctrl.length() as usize;
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.len() < length {
        decoded.missing("inline data", length, rest.len());
    }
    let inline = &rest[..rest.len().min(length)];
    decoded.raw("inline", inline, at);
    at + inline.len()
}

/// Checks that the fields of the control segment agree.
fn check(decoded: &mut Decoded, ctrl: &WqeCtrl, service: Service) {
    let opcode = ctrl.opcode();
    let stated = usize::from(ctrl.ds()) * WQE_UNIT;
    let computed = head_bytes(opcode, service) + ctrl.data_bytes();
    let mut say = |problem: String| decoded.problems.push(problem);
    if stated != computed {
        say(format!("ds says {stated} bytes, opcode and lengths say {computed}"));
    }
    if ctrl.inline() && !opcode.allows_inline() {
        say(format!("{opcode} takes no inline data"));
    }
    if ctrl.inline() && ctrl.length() as usize > MAX_INLINE {
        say(format!("more than {MAX_INLINE} bytes of inline data"));
    }
    if usize::from(ctrl.num_sge()) > MAX_SGE {
        say(format!("more than {MAX_SGE} SGEs"));
    }
}
