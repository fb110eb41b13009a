//! Rates whose times are integers.

use crate::plain::Plain;

/// A rate of a link, kept so that the time of some bytes is one multiplication.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
pub struct Rate {
    bits_per_second: u64,
    /// Picoseconds a byte, times 2^[`SHIFT`].
    ps_per_byte: u64,
}

/// Bits after the point: the error over a MiB is at most half a picosecond.
const SHIFT: u32 = 20;

impl Rate {
    /// Most bytes that [`time`](Rate::time) takes; at the slowest rate that profiles allow (0.1 Gb/s)
    /// their time still fits the arithmetic.
    pub const MAX_BYTES: u64 = 1 << 27;

    /// A rate; nothing is faster than zero bits a second, whose times are zero.
    pub fn new(bits_per_second: u64) -> Rate {
        let exact = (8_000_000_000_000u128 << SHIFT).checked_div(bits_per_second.into()).unwrap_or(0);
        Rate { bits_per_second, ps_per_byte: exact as u64 }
    }

    /// Bits a second.
    pub fn bits_per_second(self) -> u64 {
        self.bits_per_second
    }

    /// Picoseconds that `bytes` take (at most [`MAX_BYTES`](Rate::MAX_BYTES)), rounded.
    #[inline]
    pub fn time(self, bytes: u64) -> u64 {
        debug_assert!(bytes <= Rate::MAX_BYTES);
        (bytes * self.ps_per_byte + (1 << (SHIFT - 1))) >> SHIFT
    }

    /// Bytes that pass in a time (ps).
    pub fn bytes_in(self, time: u64) -> u64 {
        (u128::from(time) * u128::from(self.bits_per_second) / 8_000_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_bytes() {
        assert_eq!(Rate::new(10_000_000_000).time(1538), 1538 * 800);
        assert_eq!(Rate::new(32_000_000_000).time(1 << 20), (1 << 20) * 250);
        let pcie = Rate::new(57_880_000_000);
        assert_eq!(pcie.time(88), 12_163); // 88 * 8 / 57.88 = 12.1631 ns
        let exact = (1u128 << 20) * 8_000_000_000_000 / 57_880_000_000;
        assert!(u128::from(pcie.time(1 << 20)).abs_diff(exact) <= 1);
        assert_eq!(Rate::new(100_000_000).time(Rate::MAX_BYTES), Rate::MAX_BYTES * 80_000);
        assert_eq!(Rate::new(10_000_000_000).bytes_in(1538 * 800), 1538);
    }
}
