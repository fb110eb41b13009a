//! XRC extended transport header.

/// XRC extended transport header (annex A14.3.2): in every request packet, after the BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Xrceth {
    /// The responder's shared receive queue (24 bits).
    pub srq: u32,
}

impl Xrceth {
    /// Size of the header.
    pub const BYTES: usize = 4;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { srq: u32::from_be_bytes(*b) & 0xff_ffff }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        *out = (self.srq & 0xff_ffff).to_be_bytes();
    }
}
