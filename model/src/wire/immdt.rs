//! Immediate data.

/// Immediate data (9.3.7), opaque to the transport: kept in the order of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImmDt {
    /// The four bytes as they are on the wire.
    pub bytes: [u8; 4],
}

impl ImmDt {
    /// Size of the header.
    pub const BYTES: usize = 4;

    /// From the `__be32` that verbs users hand over, which is the wire's order in memory.
    #[inline]
    pub const fn from_be_bits(value: u32) -> Self {
        Self { bytes: value.to_ne_bytes() }
    }

    /// The `__be32` of verbs.
    #[inline]
    pub const fn be_bits(&self) -> u32 {
        u32::from_ne_bytes(self.bytes)
    }

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { bytes: *b }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        *out = self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_htonl_is_the_wires_order() {
        let imm = ImmDt::from_be_bits(0x1122_3344u32.to_be());
        assert_eq!(imm.bytes, [0x11, 0x22, 0x33, 0x44]);
        assert_eq!(imm.be_bits(), 0x1122_3344u32.to_be());
    }
}
