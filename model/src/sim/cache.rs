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

/// What was used last of a cache. It is the first of its set, and using it again changes nothing there: what a card uses
/// again and again is read from this one line, and not from those of the sets.
#[derive(Plain)]
#[repr(C, align(64))]
pub struct Recent {
    /// By the number of a set, modulo theirs: key + 1, or 0.
    keys: [u64; 8],
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
    pub fn touch(&mut self, recent: &mut Recent, key: u32, size: Size) -> bool {
        let entries = size.entries.clamp(1, N as u32);
        let ways = size.ways.clamp(1, entries);
        // Neighbours (the pages of a buffer, QPs made one after the other) fall into different sets.
        let set = key % (entries / ways);
        let wanted = u64::from(key) + 1;
        if std::mem::replace(&mut recent.keys[set as usize % 8], wanted) == wanted {
            return true;
        }
        let set = &mut self.entries[(set * ways) as usize..][..ways as usize];
        let found = set.iter().position(|&entry| entry == wanted);
        let end = found.unwrap_or(set.len() - 1);
        set.copy_within(..end, 1);
        set[0] = wanted;
        found.is_some()
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
        let mut recent = zeroed();
        let mut cache = zeroed::<Cache<64>>();
        for key in 100..164 {
            assert!(!cache.touch(&mut recent, key, of(64)));
        }
        for key in 100..164 {
            assert!(cache.touch(&mut recent, key, of(64)), "{key}");
        }
    }

    #[test]
    fn a_round_of_one_more_than_fits_never_hits() {
        let mut recent = zeroed();
        let mut cache = zeroed::<Cache<16>>();
        for round in 0..3 {
            for key in 0..5 {
                assert!(!cache.touch(&mut recent, key, of(4)), "round {round}, {key}");
            }
        }
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut recent = zeroed();
        let mut cache = zeroed::<Cache<16>>();
        for key in [1, 2, 3, 1, 4] {
            cache.touch(&mut recent, key, of(3));
        }
        assert!(
            cache.touch(&mut recent, 1, of(3))
                && cache.touch(&mut recent, 3, of(3))
                && cache.touch(&mut recent, 4, of(3))
        );
        assert!(!cache.touch(&mut recent, 2, of(3)));
    }

    #[test]
    fn half_of_twice_the_capacity_hits_at_random() {
        let mut recent = zeroed();
        let mut cache = zeroed::<Cache<1024>>();
        let mut random = 1u32;
        let mut hits = 0;
        for round in 0..40_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hit = cache.touch(&mut recent, (random >> 8) % 2048, of(1024));
            hits += u32::from(hit && round >= 20_000);
        }
        assert!((9_500..10_500).contains(&hits), "{hits}");
    }

    #[test]
    fn what_was_used_last_changes_no_answer() {
        let (mut recent, mut random) = (zeroed(), 1u32);
        let [mut with, mut without] = [(); 2].map(|()| zeroed::<Cache<128>>());
        for _ in 0..40_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = (random >> 8) % 4 * ((random >> 16) % 64);
            let answer = without.touch(&mut zeroed(), key, of(128));
            assert_eq!(with.touch(&mut recent, key, of(128)), answer, "{key}");
        }
        assert_eq!(with.entries, without.entries);
    }
}
