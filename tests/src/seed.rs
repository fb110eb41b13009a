//! Random numbers that can be had again.

use std::time::{SystemTime, UNIX_EPOCH};

/// `VERBENA_SEED`, if it is a number.
fn given() -> Option<u64> {
    std::env::var("VERBENA_SEED").ok().and_then(|text| text.parse().ok())
}

/// `VERBENA_SEED`, or a different number each time; printed, to repeat a failure.
pub fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let seed = given().unwrap_or_else(now);
    println!("VERBENA_SEED={seed}");
    seed
}

/// Random numbers from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// From `VERBENA_SEED`, or a different sequence each time.
    pub fn seeded() -> Random {
        Random(seed())
    }

    /// From `VERBENA_SEED`, or the same sequence each time.
    pub fn repeated(usual: u64) -> Random {
        let seed = given().unwrap_or(usual);
        println!("VERBENA_SEED={seed}");
        Random(seed)
    }

    /// The next word.
    #[allow(clippy::should_implement_trait)] // It does not end.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `limit`, exclusive; 0 if that is 0.
    pub fn below<T: TryInto<u64> + TryFrom<u64>>(&mut self, limit: T) -> T {
        let Ok(limit) = limit.try_into() else { panic!("a limit below 0") };
        let Ok(number) = T::try_from(self.next() % limit.max(1)) else { unreachable!("below the limit") };
        number
    }

    /// True in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.next() as u8);
    }
}
