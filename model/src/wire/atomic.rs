//! Headers of atomic operations: the request's operands, the response's old value.

use super::bytes::{get32, get64, put32, put64};

/// Atomic extended transport header (9.3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtomicEth {
    /// Address at the responder, a multiple of eight.
    pub virtual_address: u64,
    /// R_Key of the responder's memory.
    pub rkey: u32,
    /// The value to swap in, or to add.
    pub swap_add: u64,
    /// The value to compare with (compare and swap only).
    pub compare: u64,
}

impl AtomicEth {
    /// Size of the header.
    pub const BYTES: usize = 28;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self {
            virtual_address: get64(b, 0),
            rkey: get32(b, 8),
            swap_add: get64(b, 12),
            compare: get64(b, 20),
        }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        put64(out, 0, self.virtual_address);
        put32(out, 8, self.rkey);
        put64(out, 12, self.swap_add);
        put64(out, 20, self.compare);
    }
}

/// Atomic ACK extended transport header (9.5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AtomicAckEth {
    /// What the memory held before the operation.
    pub original: u64,
}

impl AtomicAckEth {
    /// Size of the header.
    pub const BYTES: usize = 8;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { original: get64(b, 0) }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        put64(out, 0, self.original);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_in_order() {
        let header = AtomicEth {
            virtual_address: 0x0102_0304_0506_0708,
            rkey: 0x090a_0b0c,
            swap_add: 0x0d0e_0f10_1112_1314,
            compare: 0x1516_1718_191a_1b1c,
        };
        let mut out = [0; AtomicEth::BYTES];
        header.encode(&mut out);
        let expected: [u8; AtomicEth::BYTES] = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(out, expected);
        assert_eq!(AtomicEth::decode(&out), header);
    }
}
