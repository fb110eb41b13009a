//! Memory that cards reach, at its address in this process.
#![allow(unsafe_code)]

/// The address, in this process, of memory that is mapped for DMA.
///
/// It comes from the DMA maps and is valid only until they change; hence the contracts below.
#[derive(Clone, Copy, Debug)]
pub struct Here(*mut u8);

impl Here {
    /// The memory at `ptr`.
    #[inline(always)]
    pub const fn new(ptr: *mut u8) -> Here {
        Here(ptr)
    }

    /// The address `n` bytes further.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // Of bytes, like a pointer's.
    pub fn add(self, n: u64) -> Here {
        Here(self.0.wrapping_add(n as usize))
    }

    /// Reads 64-bit words (little endian); no alignment is assumed.
    ///
    /// # Safety
    /// `N` words from here on are mapped.
    #[inline(always)]
    pub unsafe fn words<const N: usize>(self) -> [u64; N] {
        // Word by word: a wider load of words that a driver has just stored would wait for the stores.
        let mut words = [0; N];
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: as the caller promises.
            *word = u64::from_le(unsafe { self.0.cast::<u64>().add(i).read_unaligned() });
        }
        words
    }

    /// Copies `len` bytes from `from` to here. The two may overlap (a buffer sent to itself), and programs may write
    /// to them meanwhile, as with any card.
    ///
    /// # Safety
    /// `len` bytes are mapped on both sides.
    #[inline(always)]
    pub unsafe fn copy(self, from: Here, len: usize) {
        let (to, from) = (self.0, from.0);
        // SAFETY: as the caller promises; of the shortest messages both words are read before one is written, and
        // without a call.
        unsafe {
            if (8..=16).contains(&len) {
                let first = from.cast::<u64>().read_unaligned();
                let last = from.add(len - 8).cast::<u64>().read_unaligned();
                to.cast::<u64>().write_unaligned(first);
                to.add(len - 8).cast::<u64>().write_unaligned(last);
            } else {
                std::ptr::copy(from, to, len);
            }
        }
    }

    /// Reads a frame whose headers are looked at next.
    ///
    /// # Safety
    /// So many bytes are mapped, and not those of `to`.
    #[inline(always)]
    pub unsafe fn read_frame(self, to: &mut [u8]) {
        // SAFETY: as the caller promises.
        unsafe { copy_frame(to.as_mut_ptr(), self.0, to.len()) };
    }

    /// Writes a frame here that has just been read.
    ///
    /// # Safety
    /// So many bytes are mapped, and not those of `from`.
    #[inline(always)]
    pub unsafe fn write_frame(self, from: &[u8]) {
        // SAFETY: as the caller promises.
        unsafe { copy_frame(self.0, from.as_ptr(), from.len()) };
    }

    /// Writes bytes here.
    ///
    /// # Safety
    /// So many bytes are mapped, and not those of `from`.
    #[inline(always)]
    pub unsafe fn write(self, from: &[u8]) {
        // SAFETY: as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.0, from.len()) };
    }

    /// A hint that this memory will be written soon. As an instruction: on the x86-64 baseline `_mm_prefetch` becomes a
    /// prefetch for reading, and a line in another core's cache would travel twice.
    #[inline(always)]
    pub fn prefetch_for_write(self) {
        // SAFETY: a prefetch has no effects, whatever the address.
        unsafe { core::arch::asm!("prefetchw [{}]", in(reg) self.0, options(nostack, preserves_flags)) };
    }

    /// A hint that this memory will be read soon.
    #[inline(always)]
    pub fn prefetch(self) {
        // SAFETY: a prefetch has no effects, whatever the address.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(self.0.cast()) };
    }
}

/// Copies a frame by words that each field of the usual headers is in one of: what begins behind the addresses begins with a
/// word. A load that spans two recent stores is not forwarded: it stalls until both, and all before them, are done.
///
/// # Safety
/// So many bytes are mapped at both places, which do not overlap.
#[inline(always)]
unsafe fn copy_frame(to: *mut u8, from: *const u8, len: usize) {
    const WORD: usize = 8;
    const HEADERS: usize = 62;
    const SHORTEST: usize = HEADERS - WORD;
    let word = |at: usize| {
        // SAFETY: as the caller promises; `at` is such that the word is within the frame.
        unsafe { to.add(at).cast::<u64>().write_unaligned(from.add(at).cast::<u64>().read_unaligned()) };
    };
    if len < WORD {
        // SAFETY: as above.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
    let words = |end: usize| {
        let mut at = WORD - 2;
        while at + WORD <= end {
            word(at);
            at += WORD;
        }
        at
    };
    // No frame on the wire is shorter: the end is a constant, and there is no loop.
    let mut at = if len < SHORTEST { words(len) } else { words(SHORTEST) };
    if at + WORD <= len.min(HEADERS) {
        word(at);
        at += WORD;
    }
    match len - at {
        0 => {}
        1..WORD => word(len - WORD),
        // SAFETY: as above.
        rest => unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), rest) },
    }
    // The last, as it shares bytes with the second.
    word(0);
}
