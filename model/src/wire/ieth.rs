//! Invalidate extended transport header.

/// Invalidate extended transport header (9.3.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ieth {
    /// The R_Key that the responder shall invalidate.
    pub rkey: u32,
}

impl Ieth {
    /// Size of the header.
    pub const BYTES: usize = 4;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { rkey: u32::from_be_bytes(*b) }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        *out = self.rkey.to_be_bytes();
    }
}
