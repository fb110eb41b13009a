//! A receive WQE.

use super::lines::Decoded;
use crate::recv::RecvHead;
use crate::wqe::WqeSge;

/// A receive WQE, of a receive queue or a shared one.
pub fn recv_wqe(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let Some(head) = RecvHead::from_slice(bytes) else {
        decoded.title = "receive WQE, cut short".to_string();
        decoded.segment("RecvHead", &RecvHead::FORMAT, RecvHead::FIELDS, bytes, 0);
        return decoded;
    };
    decoded.title = format!("receive WQE, {} SGEs", head.num_sge());
    decoded.segment("RecvHead", &RecvHead::FORMAT, RecvHead::FIELDS, bytes, 0);
    let end = sges(&mut decoded, bytes, RecvHead::BYTES, usize::from(head.num_sge()));
    padding(&mut decoded, bytes, end);
    decoded
}

/// `count` SGEs from byte `at` on; the byte after the last one.
pub(super) fn sges(decoded: &mut Decoded, bytes: &[u8], at: usize, count: usize) -> usize {
    for index in 0..count {
        let name = format!("WqeSge {index}");
        let here = at + index * WqeSge::BYTES;
        if !decoded.segment(&name, &WqeSge::FORMAT, WqeSge::FIELDS, bytes, here) {
            return bytes.len();
        }
    }
    at + count * WqeSge::BYTES
}

/// What follows the entry, where it is not zero.
pub(super) fn padding(decoded: &mut Decoded, bytes: &[u8], end: usize) {
    let rest = bytes.get(end..).unwrap_or_default();
    if rest.iter().any(|byte| *byte != 0) {
        decoded.raw("padding", rest, end);
    }
}
