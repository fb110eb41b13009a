//! Memory of the driver's own: rings, records and mailboxes.
#![allow(unsafe_code)]

use memmap2::{MmapMut, MmapOptions};

use crate::card::CardError;

/// Bytes of a huge page. Ranges of this size get I/O addresses aligned to them, so that the IOMMU
/// needs one entry instead of 512.
pub(super) const HUGE: usize = 2 << 20;
/// Log2 of it.
const HUGE_BITS: u8 = 21;

/// Zeroed memory of at least `bytes`, in whole pages of `page` bytes; in huge pages if that
/// wastes nothing and some are reserved.
pub(super) fn allocate(bytes: usize, page: usize) -> Result<MmapMut, CardError> {
    let no_memory = |_| CardError::NoMemory { bytes };
    let len = bytes.max(1).next_multiple_of(page);
    let huge = len % HUGE == 0;
    let mapped = match huge {
        // Fails where none are reserved (vm.nr_hugepages).
        true => MmapOptions::new().len(len).huge(Some(HUGE_BITS)).map_anon(),
        false => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
    };
    let memory = match mapped {
        Ok(memory) => memory,
        Err(_) => MmapMut::map_anon(len).map_err(no_memory)?,
    };
    // A forked child must not get copies of rings: pinned pages would move away from the parent.
    // SAFETY: the range is the mapping from above.
    unsafe { libc::madvise(memory.as_ptr().cast_mut().cast(), len, libc::MADV_DONTFORK) };
    if huge {
        // SAFETY: as above. For memory that got ordinary pages.
        unsafe { libc::madvise(memory.as_ptr().cast_mut().cast(), len, libc::MADV_HUGEPAGE) };
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_zeroed_pages_with_or_without_huge_ones() {
        for (bytes, len) in [(0, 4096), (1, 4096), (5000, 8192), (HUGE, HUGE), (HUGE + 1, HUGE + 4096)] {
            let memory = allocate(bytes, 4096).unwrap();
            assert_eq!(memory.len(), len);
            assert!(memory.iter().all(|byte| *byte == 0));
        }
    }
}
