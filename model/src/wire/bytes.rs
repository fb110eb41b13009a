//! Big-endian fields of fixed arrays. Offsets are constants of the callers, so that the
//! bounds checks vanish.

#[inline(always)]
pub(super) fn get16<const N: usize>(b: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

#[inline(always)]
pub(super) fn get24<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([0, b[at], b[at + 1], b[at + 2]])
}

#[inline(always)]
pub(super) fn get32<const N: usize>(b: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes(array(b, at))
}

#[inline(always)]
pub(super) fn get64<const N: usize>(b: &[u8; N], at: usize) -> u64 {
    u64::from_be_bytes(array(b, at))
}

#[inline(always)]
pub(super) fn array<const N: usize, const M: usize>(b: &[u8; N], at: usize) -> [u8; M] {
    let mut out = [0; M];
    out.copy_from_slice(&b[at..at + M]);
    out
}

#[inline(always)]
pub(super) fn put<const N: usize>(b: &mut [u8; N], at: usize, value: &[u8]) {
    b[at..at + value.len()].copy_from_slice(value);
}

#[inline(always)]
pub(super) fn put16<const N: usize>(b: &mut [u8; N], at: usize, value: u16) {
    put(b, at, &value.to_be_bytes());
}

/// The low 24 bits of `value`.
#[inline(always)]
pub(super) fn put24<const N: usize>(b: &mut [u8; N], at: usize, value: u32) {
    put(b, at, &value.to_be_bytes()[1..]);
}

#[inline(always)]
pub(super) fn put32<const N: usize>(b: &mut [u8; N], at: usize, value: u32) {
    put(b, at, &value.to_be_bytes());
}

#[inline(always)]
pub(super) fn put64<const N: usize>(b: &mut [u8; N], at: usize, value: u64) {
    put(b, at, &value.to_be_bytes());
}
