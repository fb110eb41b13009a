//! ACK extended transport header: in acknowledgements and READ responses.

use super::bytes::{get24, put24};
use super::Syndrome;

/// ACK extended transport header (9.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Aeth {
    /// Acknowledged, refused or not ready.
    pub syndrome: Syndrome,
    /// Message sequence number: how many messages the responder has completed, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// Size of the header.
    pub const BYTES: usize = 4;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { syndrome: Syndrome(b[0]), msn: get24(b, 1) }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        out[0] = self.syndrome.0;
        put24(out, 1, self.msn);
    }
}
