//! RDMA extended transport header: where a WRITE or READ goes.

use super::bytes::{get32, get64, put32, put64};

/// RDMA extended transport header (9.3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reth {
    /// Address at the responder.
    pub virtual_address: u64,
    /// R_Key of the responder's memory.
    pub rkey: u32,
    /// Length of the whole message.
    pub dma_length: u32,
}

impl Reth {
    /// Size of the header.
    pub const BYTES: usize = 16;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { virtual_address: get64(b, 0), rkey: get32(b, 8), dma_length: get32(b, 12) }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        put64(out, 0, self.virtual_address);
        put32(out, 8, self.rkey);
        put32(out, 12, self.dma_length);
    }
}
