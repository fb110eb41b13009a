//! What happens to frames: random faults and rules, the same for the same seed and the same frames in the same order.
//!
//! | file | idea |
//! |---|---|
//! | `text` | [`Faults`], read and written as text |
//! | `grammar` | its words, and its help |
//! | `rule` | one rule: what it does, and to which frames |
//! | `seen` | what a rule sees of a frame |
//! | `time` | spans of time, as text and exact |
//! | this one | the fate of a frame, in the segment |

mod grammar;
mod rule;
mod seen;
mod text;
mod time;

pub use grammar::grammar;
pub use rule::{Action, Place, Rule};
pub use seen::Classes;
pub use text::{Faults, FaultsError, MOST_RULES};
pub use time::Time;

pub(super) use rule::Look;

use super::frames;
use crate::plain::Plain;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use crate::wire::{sum, Ethernet, Ipv4};
use rule::WORDS;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The longest delay: a day, many of which fit in the time that there is.
pub const LATEST: Time = Time(86_400 * 1_000_000_000_000);
/// Frames that may pass one that is held back.
const MOST_PASSED: u64 = 8;
/// Bits flipped in a damaged frame at most. A CRC-32 finds up to three in any frame.
const MOST_FLIPPED: u64 = 3;
/// Draws of bits until a receiver finds them: a few do it, of any frame.
const MOST_DRAWS: u32 = 64;
/// Damage begins after the Ethernet header, which is the MAC's to check.
const FIRST_BYTE: usize = 14;
/// The ECN field of a packet that met congestion.
const CONGESTION: u8 = 3;

/// The probabilities, the rules, and the state of the random numbers. Zero: no faults.
#[derive(Plain)]
#[repr(C)]
pub(super) struct FaultArea {
    /// Probability times 2^64 of loss, duplication, reordering, damage.
    thresholds: [AtomicU64; 4],
    random: Random,
    count: AtomicU32,
    rules: [RuleArea; MOST_RULES],
}

/// A rule, what it has counted, and its random numbers: another rule does not change what this one does.
#[derive(Plain)]
#[repr(C)]
struct RuleArea {
    words: [AtomicU64; WORDS],
    counted: AtomicU64,
    hit: AtomicU64,
    random: Random,
}

/// What a rule has done so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RuleUse {
    /// It.
    pub rule: Rule,
    /// Frames for which its conditions held.
    pub counted: u64,
    /// Those of them that `nth`, `every` and chance have chosen.
    pub hit: u64,
}

/// Random numbers that all processes draw from. Only with the segment's lock.
#[derive(Plain)]
#[repr(C)]
struct Random(AtomicU64);

/// What happens to a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    lost: bool,
    twice: bool,
    /// Later frames that arrive before this one.
    passed_by: u64,
    /// How much later it arrives.
    pub late: Time,
    /// What is changed in it.
    pub changes: Changes,
}

/// Changes of a frame on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Changes {
    /// Bits to flip, by their number in the frame; zero means none (that bit is in the Ethernet header).
    flipped: [u32; MOST_FLIPPED as usize],
    /// Not 0: the ECN field says that the packet met congestion.
    marked: u32,
}

impl Changes {
    /// Whether anything is changed at all.
    pub fn any(&self) -> bool {
        *self != Changes::default()
    }

    /// Makes them.
    pub fn apply(&self, frame: &mut [u8]) {
        self.mark(frame);
        self.flip(frame);
    }

    /// Marks the frame, if that is one of them.
    pub fn mark(&self, frame: &mut [u8]) {
        if self.marked != 0 {
            mark(frame);
        }
    }

    /// Flips the bits that are to be flipped.
    pub fn flip(&self, frame: &mut [u8]) {
        // A bit that is drawn twice is as it was.
        for bit in self.flipped.into_iter().filter(|&bit| bit != 0) {
            frame[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }

    /// Whether they flip bits.
    pub fn damage_it(&self) -> bool {
        self.flipped.iter().any(|&bit| bit != 0)
    }

    /// Bits of a frame are flipped, until its receiver finds that: some are those of the traffic class, which no checksum covers,
    /// and a bit that is drawn twice is as it was.
    fn damage(&mut self, frame: &[u8], random: &Random) {
        if frame.len() <= FIRST_BYTE {
            return;
        }
        let first = FIRST_BYTE * 8;
        let mut damaged = Vec::new();
        for _ in 0..MOST_DRAWS {
            self.flipped = Default::default();
            for i in 0..=(random.next() % MOST_FLIPPED) as usize {
                self.flipped[i] =
                    (first + (random.next() % (frame.len() * 8 - first) as u64) as usize) as u32;
            }
            damaged.clear();
            damaged.extend_from_slice(frame);
            self.flip(&mut damaged);
            if damaged != frame && frames::decode(&damaged).is_err() {
                return;
            }
        }
    }
}

/// Notes in an IP packet that it met congestion. The ICRC does not cover that field.
pub(crate) fn mark(frame: &mut [u8]) {
    let Some((ethernet, packet)) = Ethernet::decode(frame) else { return };
    let at = frame.len() - packet.len();
    let packet = &mut frame[at..];
    match ethernet.ethertype {
        ETHERTYPE_IPV4 if packet.len() >= Ipv4::BYTES => {
            // Options follow it in a program's own packets.
            let header = (usize::from(packet[0] & 15) * 4).clamp(Ipv4::BYTES, packet.len());
            packet[1] |= CONGESTION;
            packet[10..12].fill(0);
            let sum = sum::checksum(&packet[..header]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        // The last two bits of the traffic class, which follows four bits of version.
        ETHERTYPE_IPV6 if packet.len() > 1 => packet[1] |= CONGESTION << 4,
        _ => {}
    }
}

/// The ECN code point of an IP packet (RFC 3168); 0 of anything else.
pub(crate) fn ecn_of(frame: &[u8]) -> u8 {
    let Some((ethernet, packet)) = Ethernet::decode(frame) else { return 0 };
    match ethernet.ethertype {
        ETHERTYPE_IPV4 if packet.len() >= Ipv4::BYTES => packet[1] & CONGESTION,
        ETHERTYPE_IPV6 if packet.len() > 1 => packet[1] >> 4 & CONGESTION,
        _ => 0,
    }
}

/// The output function of SplitMix64: spreads every bit of `x` over the whole word.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A probability times 2^64. The conversion saturates: 1.0 becomes "always but once in 2^64".
fn threshold(probability: f64) -> u64 {
    (probability * 2f64.powi(64)) as u64
}

impl Random {
    fn next(&self) -> u64 {
        let state = self.0.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.store(state, Ordering::Relaxed);
        mix(state)
    }

    fn is_below(&self, threshold: u64) -> bool {
        threshold != 0 && self.next() < threshold
    }
}

impl RuleArea {
    fn load(&self) -> Rule {
        Rule::from_words(std::array::from_fn(|i| self.words[i].load(Ordering::Relaxed)))
    }

    /// The rule sees a frame, and does its part.
    fn see(&self, look: &Look<'_>, fate: &mut Fate) {
        let rule = self.load();
        if !rule.counts(look) {
            return;
        }
        let number = self.counted.load(Ordering::Relaxed).wrapping_add(1);
        self.counted.store(number, Ordering::Relaxed);
        let chance = || rule.probability >= 1.0 || self.random.is_below(threshold(rule.probability));
        if !rule.selects(number) || !chance() {
            return;
        }
        self.hit.store(self.hit.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        match rule.action {
            Action::Drop => fate.lost = true,
            Action::Dup => fate.twice = true,
            Action::Reorder(frames) => fate.passed_by = fate.passed_by.max(frames.into()),
            Action::Corrupt => fate.changes.damage(look.frame, &self.random),
            Action::Delay(time) => fate.late = fate.late.max(time.min(LATEST)),
            Action::Mark => fate.changes.marked = 1,
        }
    }
}

impl FaultArea {
    pub fn init(&self, faults: &Faults) {
        let rates = [faults.loss, faults.dup, faults.reorder, faults.corrupt];
        for (to, rate) in self.thresholds.iter().zip(rates) {
            to.store(threshold(rate), Ordering::Relaxed);
        }
        let seed = mix(faults.seed);
        self.random.0.store(seed, Ordering::Relaxed);
        self.count.store(faults.rules.len().min(MOST_RULES) as u32, Ordering::Relaxed);
        for (number, (to, rule)) in (1..).zip(self.rules.iter().zip(&faults.rules)) {
            for (to, word) in to.words.iter().zip(rule.to_words()) {
                to.store(word, Ordering::Relaxed);
            }
            to.random.0.store(mix(seed.wrapping_add(number)), Ordering::Relaxed);
        }
    }

    fn happens(&self, fault: usize) -> bool {
        self.random.is_below(self.thresholds[fault].load(Ordering::Relaxed))
    }

    /// Draws the fate of a frame. Only with the segment's lock.
    pub fn fate(&self, look: &Look<'_>) -> Fate {
        let mut fate = Fate { lost: self.happens(0), twice: self.happens(1), ..Fate::default() };
        if self.happens(2) {
            fate.passed_by = 1 + self.random.next() % MOST_PASSED;
        }
        if self.happens(3) {
            fate.changes.damage(look.frame, &self.random);
        }
        self.rules().iter().for_each(|rule| rule.see(look, &mut fate));
        fate
    }

    fn rules(&self) -> &[RuleArea] {
        &self.rules[..(self.count.load(Ordering::Relaxed) as usize).min(MOST_RULES)]
    }

    /// What the rules have done so far.
    pub fn uses(&self) -> Vec<RuleUse> {
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let used =
            |it: &RuleArea| RuleUse { rule: it.load(), counted: number(&it.counted), hit: number(&it.hit) };
        self.rules().iter().map(used).collect()
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

#[cfg(test)]
mod tests;
