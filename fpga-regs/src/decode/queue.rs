//! Entries and contexts without inner structure.

use super::lines::Decoded;
use crate::cqe::Cqe;
use crate::eqe::Eqe;
use crate::field::Format;

/// A completion queue entry.
pub fn cqe(bytes: &[u8]) -> Decoded {
    let title = match Cqe::from_slice(bytes) {
        Some(cqe) => format!("CQE: {} {}, QP {}", cqe.opcode(), cqe.status(), cqe.qpn()),
        None => "CQE, cut short".to_string(),
    };
    whole(title, &Cqe::FORMAT, bytes)
}

/// An event queue entry.
pub fn eqe(bytes: &[u8]) -> Decoded {
    let title = match Eqe::from_slice(bytes) {
        Some(eqe) => format!("EQE: {}", eqe.kind()),
        None => "EQE, cut short".to_string(),
    };
    whole(title, &Eqe::FORMAT, bytes)
}

/// Bytes of any format.
pub fn format(kind: &Format, bytes: &[u8]) -> Decoded {
    whole(format!("{}, {} bytes", kind.name, kind.bytes), kind, bytes)
}

/// One format from byte 0; what follows is too much.
pub(super) fn whole(title: String, kind: &Format, bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded { title, ..Decoded::default() };
    decoded.segment(kind.name, kind, kind.fields, bytes, 0);
    decoded.beyond(bytes, kind.bytes);
    decoded
}
