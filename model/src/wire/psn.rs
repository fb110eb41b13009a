//! Packet sequence numbers: serial arithmetic modulo 2^24.

/// All bits of a PSN.
pub const MASK: u32 = 0x00ff_ffff;

/// `psn + n`.
#[inline]
pub const fn add(psn: u32, n: u32) -> u32 {
    psn.wrapping_add(n) & MASK
}

/// `psn - n`.
#[inline]
pub const fn sub(psn: u32, n: u32) -> u32 {
    psn.wrapping_sub(n) & MASK
}

/// How far `a` is ahead of `b`: -2^23 ..= 2^23 - 1, negative when `a` is the older one.
#[inline]
pub const fn diff(a: u32, b: u32) -> i32 {
    // The shift puts bit 23 into the sign and drops what is above it.
    (a.wrapping_sub(b) << 8) as i32 >> 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_at_24_bits() {
        assert_eq!(add(0x00ff_fff0, 0x20), 0x10);
        assert_eq!(sub(3, 5), 0x00ff_fffe);
        assert_eq!(diff(2, 0x00ff_fffe), 4);
        assert_eq!(diff(0x00ff_fffe, 2), -4);
    }

    #[test]
    fn half_the_space_is_old() {
        assert_eq!(diff(0x007f_ffff, 0), 0x007f_ffff);
        assert_eq!(diff(0x0080_0000, 0), -0x0080_0000);
    }

    proptest! {
        #[test]
        fn difference_undoes_addition(psn in 0..=MASK, n in 0..0x0080_0000u32) {
            prop_assert_eq!(diff(add(psn, n), psn), n as i32);
            prop_assert_eq!(diff(psn, add(psn, n)), -(n as i32));
            prop_assert_eq!(sub(add(psn, n), n), psn);
        }

        #[test]
        fn bits_above_24_do_not_matter(a: u32, b: u32) {
            prop_assert_eq!(diff(a, b), diff(a & MASK, b & MASK));
        }
    }
}
