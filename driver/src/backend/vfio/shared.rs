//! User memory that is mapped for the card: another region over the same pages gets the same I/O
//! addresses, and the mapping ends with its last holder.
//!
//! A mapping is shared only with a range inside one that is held now. A region that was destroyed
//! says nothing about its pages: the program may have mapped other memory at these addresses since.

use std::collections::BTreeMap;

/// A range of whole pages: address here and bytes.
type Range = (usize, usize);

/// One mapping of the IOMMU.
#[derive(Debug)]
struct Mapping {
    pages: Range,
    /// The range of each holder.
    holders: Vec<Range>,
}

/// The mappings by I/O address.
#[derive(Debug, Default)]
pub(super) struct Mappings(BTreeMap<u64, Mapping>);

fn inside((start, len): Range, (outer, size): Range) -> bool {
    start >= outer && start - outer <= size && len <= size - (start - outer)
}

impl Mappings {
    /// The I/O address of pages that are mapped and held; adds a holder.
    pub fn hold(&mut self, pages: Range) -> Option<u64> {
        let found =
            |(_, mapping): &(&u64, &mut Mapping)| mapping.holders.iter().any(|held| inside(pages, *held));
        let (iova, mapping) = self.0.iter_mut().find(found)?;
        mapping.holders.push(pages);
        Some(iova + (pages.0 - mapping.pages.0) as u64)
    }

    /// A new mapping with its first holder.
    pub fn add(&mut self, iova: u64, pages: Range) {
        self.0.insert(iova, Mapping { pages, holders: vec![pages] });
    }

    /// Removes a holder of pages at this I/O address. With the last holder the mapping ends:
    /// returns its I/O address and bytes, to be unmapped.
    pub fn release(&mut self, iova: u64, pages: Range) -> Option<(u64, usize)> {
        let (&start, mapping) = self.0.range_mut(..=iova).next_back()?;
        let at = mapping.holders.iter().position(|held| *held == pages)?;
        mapping.holders.swap_remove(at);
        if !mapping.holders.is_empty() {
            return None;
        }
        let len = mapping.pages.1;
        self.0.remove(&start);
        Some((start, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn the_same_pages_twice() {
        let mut mappings = Mappings::default();
        let pages = (0x7000 * PAGE, 3 * PAGE);
        assert_eq!(mappings.hold(pages), None);
        mappings.add(0x10_0000, pages);
        assert_eq!(mappings.hold(pages), Some(0x10_0000));
        assert_eq!(mappings.release(0x10_0000, pages), None);
        assert_eq!(mappings.release(0x10_0000, pages), Some((0x10_0000, 3 * PAGE)));
        assert_eq!(mappings.release(0x10_0000, pages), None, "it is gone");
    }

    #[test]
    fn a_range_inside_another_outlives_it() {
        let mut mappings = Mappings::default();
        let (outer, inner) = ((16 * PAGE, 8 * PAGE), (18 * PAGE, 2 * PAGE));
        mappings.add(0x10_0000, outer);
        assert_eq!(mappings.hold(inner), Some(0x10_2000));
        assert_eq!(mappings.release(0x10_0000, outer), None);
        // The outer pages have no holder: they may be other memory by now.
        assert_eq!(mappings.hold(outer), None);
        assert_eq!(mappings.hold((17 * PAGE, PAGE)), None);
        assert_eq!(mappings.hold((19 * PAGE, PAGE)), Some(0x10_3000));
        assert_eq!(mappings.release(0x10_3000, (19 * PAGE, PAGE)), None);
        assert_eq!(mappings.release(0x10_2000, inner), Some((0x10_0000, 8 * PAGE)));
    }

    #[test]
    fn a_range_that_only_overlaps_is_not_shared() {
        let mut mappings = Mappings::default();
        mappings.add(0x10_0000, (16 * PAGE, 4 * PAGE));
        assert_eq!(mappings.hold((18 * PAGE, 4 * PAGE)), None);
        assert_eq!(mappings.hold((15 * PAGE, 2 * PAGE)), None);
        mappings.add(0x20_0000, (18 * PAGE, 4 * PAGE));
        // Held twice: either address is right.
        assert!(mappings.hold((18 * PAGE, 2 * PAGE)).is_some());
    }
}
