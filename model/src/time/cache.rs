//! A cache of the card as far as time is concerned: which entries it holds, not what they say.

/// Entries that an entry competes with for its place.
pub const WAYS: usize = 8;
/// Most QP contexts that a profile may keep.
pub const MAX_QPC: usize = 4096;
/// Most translations.
pub const MAX_MTT: usize = 16384;
/// Most memory keys.
pub const MAX_KEYS: usize = 4096;

/// Up to `N` entries in sets of [`WAYS`]; of a set the least recently used is replaced. Zero bytes are an
/// empty cache.
///
/// Capacities that are no multiple of [`WAYS`] are rounded down to one, those below it make one small set.
#[repr(C)]
pub struct Cache<const N: usize> {
    /// Sets one after the other, each from the most to the least recently used: key + 1, or 0.
    entries: [u64; N],
}

impl<const N: usize> Default for Cache<N> {
    fn default() -> Self {
        Cache { entries: [0; N] }
    }
}

impl<const N: usize> Cache<N> {
    /// Uses an entry, in a cache of `capacity` (1 to `N`; the same in every call): whether it was there.
    /// Now it is.
    #[inline]
    pub fn touch(&mut self, key: u32, capacity: u32) -> bool {
        let set = self.set(key, capacity);
        let wanted = u64::from(key) + 1;
        let found = set.iter().position(|&entry| entry == wanted);
        let end = found.unwrap_or(set.len() - 1);
        set.copy_within(..end, 1);
        set[0] = wanted;
        found.is_some()
    }

    /// Drops an entry: what it stood for is gone (QP destroyed, memory deregistered).
    pub fn forget(&mut self, key: u32, capacity: u32) {
        let set = self.set(key, capacity);
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
    fn set(&mut self, key: u32, capacity: u32) -> &mut [u64] {
        let capacity = (capacity as usize).clamp(1, N);
        let ways = capacity.min(WAYS);
        let sets = capacity / ways;
        // Neighbours (the pages of a buffer, QPs made one after the other) fall into different sets.
        let set = key as usize % sets;
        &mut self.entries[set * ways..][..ways]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays() {
        let mut cache = Cache::<64>::default();
        for key in 100..164 {
            assert!(!cache.touch(key, 64));
        }
        for key in 100..164 {
            assert!(cache.touch(key, 64), "{key}");
        }
    }

    #[test]
    fn a_round_of_one_more_than_fits_never_hits() {
        let mut cache = Cache::<16>::default();
        for round in 0..3 {
            for key in 0..5 {
                assert!(!cache.touch(key, 4), "round {round}, {key}");
            }
        }
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut cache = Cache::<16>::default();
        for key in [1, 2, 3, 1, 4] {
            cache.touch(key, 3);
        }
        assert!(cache.touch(1, 3) && cache.touch(3, 3) && cache.touch(4, 3));
        assert!(!cache.touch(2, 3));
    }

    #[test]
    fn half_of_twice_the_capacity_hits_at_random() {
        let mut cache = Cache::<1024>::default();
        let mut random = 1u32;
        let mut hits = 0;
        for round in 0..40_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hit = cache.touch((random >> 8) % 2048, 1024);
            hits += u32::from(hit && round >= 20_000);
        }
        assert!((9_500..10_500).contains(&hits), "{hits}");
    }

    #[test]
    fn forgotten_and_cleared() {
        let mut cache = Cache::<16>::default();
        for key in [0, u32::MAX, 7] {
            cache.touch(key, 4);
        }
        cache.forget(u32::MAX, 4);
        cache.forget(1234, 4);
        assert!(cache.touch(7, 4) && cache.touch(0, 4));
        assert!(!cache.touch(u32::MAX, 4));
        cache.clear();
        assert!(!cache.touch(7, 4));
    }
}
