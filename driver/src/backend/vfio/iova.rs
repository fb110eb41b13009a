//! Which I/O virtual addresses are free: first fit, neighbours merged.

use std::collections::BTreeMap;

/// Addresses that every common IOMMU takes: above the PCI hole and the interrupt range below 4 GiB,
/// within 39 bits.
pub(super) const FIRST: u64 = 1 << 32;
/// One past the last.
pub(super) const END: u64 = 1 << 39;

/// Free ranges by their start.
#[derive(Debug)]
pub(in crate::backend) struct Iovas {
    free: BTreeMap<u64, u64>,
}

impl Iovas {
    /// One free range.
    pub fn new(first: u64, end: u64) -> Self {
        Iovas { free: BTreeMap::from([(first, end - first)]) }
    }

    /// A range of `len` bytes that begins `offset` after a multiple of `align`, a power of two.
    pub fn take(&mut self, len: u64, align: u64, offset: u64) -> Option<u64> {
        let (start, size, at) = self.free.iter().find_map(|(&start, &size)| {
            let at = start.checked_add(offset.wrapping_sub(start) & (align - 1))?;
            (at - start <= size && size - (at - start) >= len).then_some((start, size, at))
        })?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let rest = start + size - (at + len);
        if rest > 0 {
            self.free.insert(at + len, rest);
        }
        Some(at)
    }

    /// Frees a range.
    pub fn give(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some(after) = self.free.remove(&(start + len)) {
            len += after;
        }
        if let Some((&before, &size)) = self.free.range(..start).next_back() {
            if before + size == start {
                start = before;
                len += size;
            }
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn first_fit_and_merge() {
        let mut iovas = Iovas::new(0x1000, 0x6000);
        assert_eq!(iovas.take(0x1000, 0x1000, 0), Some(0x1000));
        assert_eq!(iovas.take(0x2000, 0x1000, 0), Some(0x2000));
        assert_eq!(iovas.take(0x1000, 0x1000, 0), Some(0x4000));
        assert_eq!(iovas.take(0x2000, 0x1000, 0), None);
        iovas.give(0x1000, 0x1000);
        iovas.give(0x4000, 0x1000);
        iovas.give(0x2000, 0x2000);
        assert_eq!(iovas.free, BTreeMap::from([(0x1000, 0x5000)]));
    }

    #[test]
    fn alignment_leaves_the_gap_free() {
        let mut iovas = Iovas::new(0x1000, 0x100_0000);
        assert_eq!(iovas.take(0x1000, 0x20_0000, 0), Some(0x20_0000));
        assert_eq!(iovas.take(0x1000, 0x1000, 0), Some(0x1000));
        assert_eq!(iovas.take(0x1000, 0x20_0000, 0x1_3000), Some(0x1_3000));
        assert_eq!(iovas.take(0x1000, 0x20_0000, 0x1_3000), Some(0x21_3000));
        assert_eq!(iovas.take(0x1000, 0x20_0000, 0x1_3000), Some(0x41_3000));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ranges_never_overlap_and_all_come_back(steps in prop::collection::vec((1u64..40, 0u32..4, any::<bool>()), 1..80)) {
            let mut iovas = Iovas::new(FIRST, FIRST + 0x100_0000);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (pages, shift, give) in steps {
                if give && !taken.is_empty() {
                    let (start, len) = taken.swap_remove(pages as usize % taken.len());
                    iovas.give(start, len);
                } else if let Some(start) = iovas.take(pages << 12, 1 << (12 + shift), 0) {
                    let len = pages << 12;
                    prop_assert_eq!(start % (1 << (12 + shift)), 0);
                    prop_assert!(taken.iter().all(|&(other, size)| start + len <= other || other + size <= start));
                    taken.push((start, len));
                }
            }
            for (start, len) in taken {
                iovas.give(start, len);
            }
            prop_assert_eq!(iovas.free, BTreeMap::from([(FIRST, 0x100_0000)]));
        }
    }
}
