//! Page-aligned memory that is a mapping of its own.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// Anonymous memory, zero at first. Cards write to it only while the test waits for them.
pub struct Buffer(MmapMut);

impl Buffer {
    /// `len` bytes.
    pub fn new(len: usize) -> Buffer {
        Buffer(MmapMut::map_anon(len).unwrap_or_else(|error| panic!("{len} bytes: {error}")))
    }

    /// Address of byte `at`.
    pub fn addr(&self, at: usize) -> u64 {
        self.0.as_ptr() as u64 + at as u64
    }

    /// Fills with a pattern that depends on the position and `seed`.
    pub fn pattern(&mut self, seed: u8) {
        for (i, byte) in self.iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8).wrapping_add(seed);
        }
    }

    /// A number that almost any change of a byte changes (FNV-1a).
    pub fn checksum(&self) -> u64 {
        self.iter()
            .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
