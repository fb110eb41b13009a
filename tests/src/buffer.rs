//! Page-aligned memory that is a mapping of its own.

use std::ops::{Deref, DerefMut};

/// Anonymous memory, zero at first.
pub struct Buffer {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: plain memory, owned.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` bytes.
    pub fn new(len: usize) -> Buffer {
        // SAFETY: a new anonymous mapping.
        let ptr = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(ptr, libc::MAP_FAILED, "mmap of {len} bytes failed");
        Buffer { ptr: ptr.cast(), len }
    }

    /// Address of byte `at`.
    pub fn addr(&self, at: usize) -> u64 {
        self.ptr as u64 + at as u64
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
        // SAFETY: the mapping has `len` bytes; cards write to it only while the test waits for them.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: our own mapping, not used any more.
        unsafe { libc::munmap(self.ptr.cast(), self.len) };
    }
}
