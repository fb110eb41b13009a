//! Fixed storage with free slots; zero bytes are an empty one.

use crate::plain::Plain;

/// `N` places for `T`.
#[repr(C)]
pub struct Slab<T, const N: usize> {
    /// No place from here on was ever used.
    top: u32,
    /// The place freed last, plus one; 0: none is free below `top`.
    free: u32,
    /// The one freed before it, plus one.
    next: [u32; N],
    items: [T; N],
}

impl<T: Copy, const N: usize> Slab<T, N> {
    /// Puts an item somewhere; `None` when all places are taken.
    #[inline(always)]
    pub fn put(&mut self, item: T) -> Option<u32> {
        let at = self.take()?;
        self.items[at as usize] = item;
        Some(at)
    }

    /// Takes a place, for an item that is made there: what was there before still is. `None` when all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<u32> {
        Some(if self.free != 0 {
            let at = self.free - 1;
            self.free = self.next[at as usize];
            at
        } else if (self.top as usize) < N {
            self.top += 1;
            self.top - 1
        } else {
            return None;
        })
    }

    /// Frees a place.
    #[inline]
    pub fn free(&mut self, at: u32) {
        self.next[at as usize] = self.free;
        self.free = at + 1;
    }

    /// An item.
    #[inline]
    pub fn get(&self, at: u32) -> &T {
        &self.items[at as usize]
    }

    /// An item.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.items[at as usize]
    }

    /// Every place that may be in use.
    pub fn each(&mut self) -> &mut [T] {
        &mut self.items[..self.top as usize]
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.top = 0;
        self.free = 0;
    }
}

impl<T: Plain, const N: usize> Plain for Slab<T, N> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused_and_end() {
        let mut slab = Slab { top: 0, free: 0, next: [0; 3], items: [0u8; 3] };
        let places: Vec<u32> = (10..13).filter_map(|n| slab.put(n)).collect();
        assert_eq!(places, [0, 1, 2]);
        assert_eq!(slab.put(9), None);
        slab.free(1);
        slab.free(0);
        assert_eq!((slab.put(20), slab.put(21), slab.put(22)), (Some(0), Some(1), None));
        assert_eq!((*slab.get(0), *slab.get(1), *slab.get(2)), (20, 21, 12));
    }
}
