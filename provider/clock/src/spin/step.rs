//! The proof that a thread can only repeat itself.
#![allow(unsafe_code)]

use contract::clock as abi;

use super::decode::{effect, Effect, Place};

/// Instructions after which every proof is given up: longer loops over memory are not found.
pub const MAX_STEPS: u32 = 512;

/// Steps after which the state to compare with is renewed first.
const FIRST_RENEWAL: u32 = 16;

/// Different places that a loop may write (call frames, variables that keep their value), or read.
const MAX_PLACES: usize = 32;

/// The registers that count: 16 general ones, the instruction pointer, the flags.
const REGISTERS: usize = libc::REG_EFL as usize + 1;

/// Flags that are not the program's: trap and resume.
const NOT_FLAGS: i64 = 0x100 | 0x1_0000;

/// What is known after an instruction.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Look at the next one, too.
    GoOn,
    /// It does something else than spin, or nothing that can be proven.
    No,
    /// It spins.
    Spins,
}

type State = [i64; REGISTERS];

/// A running proof.
///
/// The state is compared with a remembered one, which is renewed after 16, 64, 256 steps (Brent's way
/// to find a cycle, with larger factors since the loops are short). If it comes back and nothing was written since, the thread spins. If something
/// was written, the same way is gone once more: the thread spins if the second round writes the same
/// places and leaves the same in them, since then all that the loop could read and does not share
/// with others is as it was.
pub struct Proof {
    remembered: State,
    steps: u32,
    /// When it is given up.
    limit: u32,
    remembered_at: u32,
    renew_at: u32,
    writes: Places,
    reads: Places,
    /// What the first round has left.
    first: Option<(u32, Places, [u64; MAX_PLACES])>,
}

impl Proof {
    /// Nothing is known yet, and after `limit` instructions it is given up.
    pub const fn new(limit: u32) -> Proof {
        Proof {
            remembered: [0; REGISTERS],
            steps: 0,
            limit,
            remembered_at: 0,
            renew_at: 0,
            writes: Places::NONE,
            reads: Places::NONE,
            first: None,
        }
    }

    /// The thread is about to execute the instruction at its instruction pointer.
    pub fn step(&mut self, registers: &[i64; 23]) -> Verdict {
        let mut state: State = [0; REGISTERS];
        state.copy_from_slice(&registers[..REGISTERS]);
        state[libc::REG_EFL as usize] &= !NOT_FLAGS;
        if self.steps > self.remembered_at && state == self.remembered {
            if let Some(verdict) = self.round() {
                return verdict;
            }
        } else if self.first.as_ref().is_some_and(|first| self.steps - self.remembered_at > first.0) {
            return Verdict::No; // the second round went another way
        }
        if self.steps == self.renew_at && self.first.is_none() {
            self.remembered = state;
            self.remembered_at = self.steps;
            self.renew_at = (self.steps * 4).max(FIRST_RENEWAL);
            self.writes = Places::NONE;
            self.reads = Places::NONE;
        }
        self.steps += 1;
        if self.steps > self.limit {
            return Verdict::No;
        }
        // SAFETY: the thread is about to execute the instruction there.
        match unsafe { effect(registers) } {
            Effect::Nothing => Verdict::GoOn,
            Effect::Reads(place) if self.reads.add(place) => Verdict::GoOn,
            Effect::Writes(place) if self.writes.add(place) => Verdict::GoOn,
            _ => Verdict::No,
        }
    }

    /// After the verdict that the thread spins: around all that its loop reads or writes. Only a change
    /// there ends it.
    pub fn places(&self) -> abi::Places {
        let first = self.first.iter().flat_map(|(_, writes, _)| writes.all());
        let mut ranges = [abi::Range::default(); 3 * MAX_PLACES];
        let mut count = 0;
        for place in self.reads.all().iter().chain(self.writes.all()).chain(first) {
            ranges[count] = abi::Range { first: place.at as u64, end: (place.at + place.bytes) as u64 };
            count += 1;
        }
        ranges[..count].sort_unstable();
        let mut gap = 64;
        loop {
            count = join(&mut ranges[..count], gap);
            if count <= abi::MAX_PLACES {
                let mut places = abi::Places { count: count as u64, ..Default::default() };
                places.ranges[..count].copy_from_slice(&ranges[..count]);
                return places;
            }
            gap *= 64;
        }
    }

    /// The thread is where it was.
    fn round(&mut self) -> Option<Verdict> {
        if self.writes.count == 0 {
            return Some(Verdict::Spins);
        }
        let length = self.steps - self.remembered_at;
        let left = self.writes.contents();
        if let Some((_, writes, was)) = &self.first {
            let same = self.writes == *writes && left == *was;
            return Some(if same { Verdict::Spins } else { Verdict::No });
        }
        self.first = Some((length, self.writes, left));
        self.remembered_at = self.steps;
        self.writes = Places::NONE;
        None
    }
}

/// Joins sorted ranges with less than `gap` between them; returns how many are left.
fn join(ranges: &mut [abi::Range], gap: u64) -> usize {
    let mut last = 0;
    for i in 1..ranges.len() {
        let range = ranges[i];
        if range.first.saturating_sub(ranges[last].end) < gap {
            ranges[last].end = ranges[last].end.max(range.end);
        } else {
            last += 1;
            ranges[last] = range;
        }
    }
    ranges.len().min(last + 1)
}

/// Places in the order of their first use.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Places {
    count: usize,
    places: [Place; MAX_PLACES],
}

impl Places {
    const NONE: Places = Places { count: 0, places: [Place { at: 0, bytes: 0 }; MAX_PLACES] };

    fn all(&self) -> &[Place] {
        &self.places[..self.count]
    }

    fn add(&mut self, place: Place) -> bool {
        if self.all().contains(&place) {
            return true;
        }
        let room = self.count < MAX_PLACES;
        if room {
            self.places[self.count] = place;
            self.count += 1;
        }
        room
    }

    /// What is in these places now.
    fn contents(&self) -> [u64; MAX_PLACES] {
        let mut contents = [0; MAX_PLACES];
        for (place, content) in self.all().iter().zip(&mut contents) {
            // SAFETY: the thread has just written this number of bytes there itself.
            unsafe {
                std::ptr::copy_nonoverlapping(place.at as *const u8, (&raw mut *content).cast(), place.bytes)
            };
        }
        contents
    }
}

#[cfg(test)]
mod tests {
    use super::{join, Place, Places, Proof};
    use contract::clock::Range;

    fn range(first: u64, end: u64) -> Range {
        Range { first, end }
    }

    #[test]
    fn near_ranges_become_one() {
        let mut ranges = [range(0, 8), range(4, 6), range(70, 71), range(200, 201), range(5000, 5001)];
        assert_eq!(join(&mut ranges, 64), 3);
        assert_eq!(ranges[..3], [range(0, 71), range(200, 201), range(5000, 5001)]);
        assert_eq!(join(&mut ranges[..3], 4096), 2);
        assert_eq!(join(&mut [], 64), 0);
    }

    #[test]
    fn every_place_is_in_a_range() {
        let mut proof = Proof { reads: Places::NONE, ..Proof::new(0) };
        let all: Vec<_> = (0..30).map(|i| Place { at: 1 << (i + 10), bytes: 4 }).collect();
        assert!(all.iter().all(|&place| proof.reads.add(place)));
        let places = proof.places();
        for place in all {
            let (first, end) = (place.at as u64, place.at as u64 + 4);
            let holds = |range: &Range| range.first <= first && end <= range.end;
            assert!(places.ranges[..places.count as usize].iter().any(holds), "{place:?} in {places:?}");
        }
    }
}
