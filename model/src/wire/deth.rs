//! Datagram extended transport header: in every UD packet.

use super::bytes::{get24, get32, put24, put32};

/// Datagram extended transport header (9.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deth {
    /// Queue key that the destination QP must hold.
    pub qkey: u32,
    /// Source QP, 24 bits.
    pub src_qp: u32,
}

impl Deth {
    /// Size of the header.
    pub const BYTES: usize = 8;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { qkey: get32(b, 0), src_qp: get24(b, 5) }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        put32(out, 0, self.qkey);
        out[4] = 0;
        put24(out, 5, self.src_qp);
    }
}
