//! Random faults, the same for the same seed and the same frames in the same order.

use crate::plain::{plain, Plain};
use std::sync::atomic::{AtomicU64, Ordering};

use super::options::Faults;

/// Frames that may pass one that is held back.
const MOST_PASSED: u64 = 8;
/// Bits flipped in a damaged frame at most. A CRC-32 finds up to three in any frame.
const MOST_FLIPPED: u64 = 3;
/// Damage begins after the Ethernet header, which is the MAC's to check.
const FIRST_BYTE: usize = 14;

/// The probabilities and the state of the random numbers. Zero: no faults.
#[repr(C)]
pub(super) struct FaultArea {
    /// Probability times 2^64 of loss, duplication, reordering, damage.
    thresholds: [AtomicU64; 4],
    state: AtomicU64,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    lost: bool,
    twice: bool,
    /// Later frames that arrive before this one.
    passed_by: u64,
    /// Damage.
    pub flipped: Flips,
}

/// Bits to flip, by their number in the frame; zero means none (that bit is in the Ethernet header).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flips([u16; MOST_FLIPPED as usize]);

impl Plain for Flips {}

impl Flips {
    /// Whether a frame is damaged at all.
    pub fn any(&self) -> bool {
        self.0[0] != 0
    }

    /// Flips the bits. One that is drawn twice is as it was.
    pub fn apply(&self, frame: &mut [u8]) {
        for bit in self.0.into_iter().filter(|&bit| bit != 0) {
            frame[usize::from(bit / 8)] ^= 1 << (bit % 8);
        }
    }
}

/// The output function of SplitMix64: spreads every bit of `x` over the whole word.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl FaultArea {
    pub fn init(&self, faults: &Faults) {
        let rates = [faults.loss, faults.dup, faults.reorder, faults.corrupt];
        for (to, rate) in self.thresholds.iter().zip(rates) {
            // The conversion saturates: 1.0 becomes "always but once in 2^64".
            to.store((rate * 2f64.powi(64)) as u64, Ordering::Relaxed);
        }
        self.state.store(mix(faults.seed.unwrap_or(0)), Ordering::Relaxed);
    }

    /// The next random number. Only with the segment's lock.
    fn next(&self) -> u64 {
        let state = self.state.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.state.store(state, Ordering::Relaxed);
        mix(state)
    }

    fn happens(&self, fault: usize) -> bool {
        let threshold = self.thresholds[fault].load(Ordering::Relaxed);
        threshold != 0 && self.next() < threshold
    }

    /// Draws the fate of a frame of `len` bytes.
    pub fn fate(&self, len: usize) -> Fate {
        let mut fate = Fate { lost: self.happens(0), twice: self.happens(1), ..Fate::default() };
        if self.happens(2) {
            fate.passed_by = 1 + self.next() % MOST_PASSED;
        }
        if self.happens(3) && len > FIRST_BYTE {
            let first = FIRST_BYTE * 8;
            for i in 0..=(self.next() % MOST_FLIPPED) as usize {
                // The largest frame has fewer than 2^16 bits.
                fate.flipped.0[i] = (first + (self.next() % (len * 8 - first) as u64) as usize) as u16;
            }
        }
        fate
    }
}

impl Fate {
    /// Each time that the frame arrives: the number of later frames that arrive before it.
    pub fn arrivals(self) -> impl Iterator<Item = u64> {
        // A copy takes the straight way.
        let copy = self.twice.then_some(0);
        copy.into_iter().chain((!self.lost).then_some(self.passed_by))
    }
}

plain! {
    FaultArea { thresholds, state }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(text: &str) -> FaultArea {
        let area = FaultArea { thresholds: Default::default(), state: AtomicU64::new(0) };
        area.init(&text.parse().unwrap());
        area
    }

    #[test]
    fn rates_are_met() {
        let area = area("loss=0.1,dup=0.02,reorder=0.05,corrupt=0.01,seed=3");
        let fates: Vec<Fate> = (0..100_000).map(|_| area.fate(100)).collect();
        let share = |what: fn(&Fate) -> bool| fates.iter().filter(|f| what(f)).count();
        assert!((9_500..10_500).contains(&share(|f| f.lost)));
        assert!((1_800..2_200).contains(&share(|f| f.twice)));
        assert!((4_700..5_300).contains(&share(|f| f.passed_by != 0)));
        assert!((850..1_150).contains(&share(|f| f.flipped.any())));
        assert!(fates.iter().all(|f| f.passed_by <= MOST_PASSED));
        assert!(fates.iter().flat_map(|f| f.flipped.0).all(|bit| bit == 0 || (112..800).contains(&bit)));
    }

    #[test]
    fn the_seed_decides() {
        let draw = |seed| {
            let area = area(&format!("loss=0.5,corrupt=0.5,seed={seed}"));
            (0..100).map(|_| area.fate(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn arrivals_of_a_frame() {
        let arrivals = |lost, twice| {
            let fate = Fate { lost, twice, passed_by: 3, ..Fate::default() };
            fate.arrivals().collect::<Vec<_>>()
        };
        assert_eq!(arrivals(false, false), [3]);
        assert_eq!(arrivals(false, true), [0, 3]);
        assert_eq!(arrivals(true, true), [0]);
        assert!(arrivals(true, false).is_empty());
    }

    #[test]
    fn always_and_never() {
        let always = area("loss=1,dup=1,reorder=1,corrupt=1");
        let never = area("seed=9");
        for _ in 0..100 {
            let fate = always.fate(60);
            assert!(fate.lost && fate.twice && fate.passed_by != 0 && fate.flipped.any());
            assert_eq!(never.fate(60), Fate::default());
        }
    }
}
