//! A cache of the card as far as time is concerned: which entries it holds, not what they say.

use crate::plain::Plain;

/// Most QP contexts that a profile may keep.
pub const MAX_QPC: usize = 4096;
/// Most translations.
pub const MAX_MTT: usize = 16384;
/// Most memory keys.
pub const MAX_KEYS: usize = 4096;

/// How large a cache is; the same in every call. A capacity that is no multiple of the ways is rounded down to one,
/// one below makes one small set.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Entries, 1 to `N`.
    pub entries: u32,
    /// Entries that compete for the same places.
    pub ways: u32,
}

/// Up to `N` entries in sets; of a set the least recently used is replaced. Zero bytes are an empty cache.
#[derive(Plain)]
#[repr(C)]
pub struct Cache<const N: usize> {
    /// Sets one after the other, each from the most to the least recently used: key + 1, or 0.
    entries: [u64; N],
}

impl<const N: usize> Cache<N> {
    /// Uses an entry: whether it was there. Now it is.
    #[inline]
    pub fn touch(&mut self, key: u32, size: Size) -> bool {
        let set = self.set(key, size);
        let wanted = u64::from(key) + 1;
        let found = set.iter().position(|&entry| entry == wanted);
        let end = found.unwrap_or(set.len() - 1);
        set.copy_within(..end, 1);
        set[0] = wanted;
        found.is_some()
    }

    /// Drops an entry: what it stood for is gone (QP destroyed, memory deregistered).
    pub fn forget(&mut self, key: u32, size: Size) {
        let set = self.set(key, size);
        if let Some(at) = set.iter().position(|&entry| entry == u64::from(key) + 1) {
            set.copy_within(at + 1.., at);
            set[set.len() - 1] = 0;
        }
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.entries = [0; N];
    }

    #[inline]
    fn set(&mut self, key: u32, size: Size) -> &mut [u64] {
        let entries = size.entries.clamp(1, N as u32);
        let ways = size.ways.clamp(1, entries);
        // Neighbours (the pages of a buffer, QPs made one after the other) fall into different sets.
        let set = key % (entries / ways);
        &mut self.entries[(set * ways) as usize..][..ways as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::zeroed;

    fn of(entries: u32) -> Size {
        Size { entries, ways: 8 }
    }

    #[test]
    fn what_fits_stays() {
        let mut cache = zeroed::<Cache<64>>();
        for key in 100..164 {
            assert!(!cache.touch(key, of(64)));
        }
        for key in 100..164 {
            assert!(cache.touch(key, of(64)), "{key}");
        }
    }

    #[test]
    fn a_round_of_one_more_than_fits_never_hits() {
        let mut cache = zeroed::<Cache<16>>();
        for round in 0..3 {
            for key in 0..5 {
                assert!(!cache.touch(key, of(4)), "round {round}, {key}");
            }
        }
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut cache = zeroed::<Cache<16>>();
        for key in [1, 2, 3, 1, 4] {
            cache.touch(key, of(3));
        }
        assert!(cache.touch(1, of(3)) && cache.touch(3, of(3)) && cache.touch(4, of(3)));
        assert!(!cache.touch(2, of(3)));
    }

    #[test]
    fn half_of_twice_the_capacity_hits_at_random() {
        let mut cache = zeroed::<Cache<1024>>();
        let mut random = 1u32;
        let mut hits = 0;
        for round in 0..40_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hit = cache.touch((random >> 8) % 2048, of(1024));
            hits += u32::from(hit && round >= 20_000);
        }
        assert!((9_500..10_500).contains(&hits), "{hits}");
    }

    #[test]
    fn forgotten_and_cleared() {
        let mut cache = zeroed::<Cache<16>>();
        for key in [0, u32::MAX, 7] {
            cache.touch(key, of(4));
        }
        cache.forget(u32::MAX, of(4));
        cache.forget(1234, of(4));
        assert!(cache.touch(7, of(4)) && cache.touch(0, of(4)));
        assert!(!cache.touch(u32::MAX, of(4)));
        cache.clear();
        assert!(!cache.touch(7, of(4)));
    }
}
