//! The Internet checksum (RFC 1071).
#![allow(unsafe_code)]

/// The Internet checksum of `bytes`: 0 over a header that carries its right checksum.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum(bytes))
}

/// The sum of big-endian words of 16 bits. Several add up, to be [folded](fold).
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    // A call, and a look at what the processor can, are for long ones.
    match bytes.len() > 128 && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        true => unsafe { sum_by_avx2(bytes) },
        false => sum_of(bytes),
    }
}

/// [`sum_of`], eight words at a time.
#[target_feature(enable = "avx2")]
unsafe fn sum_by_avx2(bytes: &[u8]) -> u64 {
    sum_of(bytes)
}

/// [`sum`], without a look at the processor.
#[inline(always)]
pub(super) fn sum_of(bytes: &[u8]) -> u64 {
    let quads = bytes.chunks_exact(4);
    let rest = quads.remainder();
    // 2^16 counts as 1: words of 32 bits have the same sum.
    let sum: u64 = quads.map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))).sum();
    let last = match *rest {
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        _ => [0; 4],
    };
    // The sum of words with their bytes swapped is the sum with its bytes swapped (RFC 1071, 2 (B)).
    fold(sum + u64::from(u32::from_le_bytes(last))).swap_bytes().into()
}

/// The one's complement sum.
#[inline]
pub(super) fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_words_of_16_bits() {
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(checksum(&[0x12]), !0x1200);
        assert_eq!(checksum(&[0x12, 0x34, 0x56]), !(0x1234 + 0x5600));
        assert_eq!(checksum(&[0xff, 0xff, 0, 1]), !1);
        // The example of RFC 1071, section 3.
        assert_eq!(fold(sum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
    }
}
