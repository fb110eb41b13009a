//! Which slots of a table are free. The table itself knows: here is only where to look.

use core::ops::Range;

use crate::plain::Plain;

/// Allocation of the slots of a table of `N`.
#[derive(Clone, Copy, Default, Plain)]
#[repr(C)]
pub struct Slots<const N: usize> {
    /// Where the next search starts, so that numbers are not reused at once.
    hint: u32,
    /// No slot from here on was ever used, so no search goes further.
    pub(super) top: u32,
}

impl<const N: usize> Slots<N> {
    /// Slots tried before a number is used again, and those that a search looks at while there are others that were never
    /// used: it goes on there the next time.
    const WINDOW: usize = 64;

    /// A free index of `range`, noted as used.
    pub(crate) fn take(&mut self, range: Range<usize>, used: impl Fn(usize) -> bool) -> Option<usize> {
        let top = (self.top as usize).max(range.start + Self::WINDOW).min(range.end);
        let hint = (self.hint as usize).clamp(range.start, top);
        let unused = top < range.end;
        let looks = if unused { Self::WINDOW } else { top };
        let found = (hint..top).chain(range.start..hint).take(looks).find(|&i| !used(i));
        let (index, next) = match found {
            Some(index) => (index, index + 1),
            None if unused => {
                let next = hint + Self::WINDOW;
                (top, if next < top { next } else { next - top + range.start })
            }
            None => return None,
        };
        self.hint = next as u32;
        self.top = self.top.max(index as u32 + 1);
        Some(index)
    }

    /// The slots that may be in use; never past the table, whatever is in shared memory.
    #[inline]
    pub(crate) fn range(&self) -> Range<usize> {
        0..(self.top as usize).min(N)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const RANGE: Range<usize> = 16..4096;

    /// Takes a place, and returns it and at how many it looked.
    fn take(slots: &mut Slots<4096>, used: &mut [bool]) -> (Option<usize>, u32) {
        let looks = Cell::new(0);
        let place = slots.take(RANGE, |at| {
            looks.set(looks.get() + 1);
            used[at]
        });
        if let Some(at) = place {
            assert!(RANGE.contains(&at) && slots.range().contains(&at) && !used[at], "{at}");
            used[at] = true;
        }
        (place, looks.get())
    }

    #[test]
    fn a_search_looks_at_few_places_until_the_table_is_full() {
        let (mut slots, mut used) = (Slots::default(), vec![false; 4096]);
        for _ in RANGE {
            let (place, looks) = take(&mut slots, &mut used);
            assert!(place.is_some() && looks <= 64, "{place:?}, {looks}");
        }
        assert_eq!(take(&mut slots, &mut used).0, None);
        used[77] = false;
        assert_eq!(take(&mut slots, &mut used).0, Some(77));
        assert_eq!(take(&mut slots, &mut used).0, None);
    }

    #[test]
    fn what_was_given_back_is_taken_again_but_not_at_once() {
        let (mut slots, mut used) = (Slots::default(), vec![false; 4096]);
        let places: Vec<_> = (0..1000).map(|_| take(&mut slots, &mut used).0.expect("a place")).collect();
        for at in &places[..500] {
            used[*at] = false;
        }
        let again: Vec<_> = (0..500).map(|_| take(&mut slots, &mut used).0.expect("a place")).collect();
        assert_ne!(again[0], places[499]);
        let top = slots.range().end;
        assert!(top < 16 + 1000 + 32, "{top}: places are used again before new ones");
        let mut one = Slots::<4096>::default();
        let mut free = vec![false; 4096];
        for at in 0..200 {
            let (place, _) = take(&mut one, &mut free);
            free[place.expect("a place")] = false;
            assert_eq!(place, Some(16 + at % 64), "of a table that is empty, the first 64 in turn");
        }
    }
}
