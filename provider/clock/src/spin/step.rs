//! The proof that a thread can only go on doing the same.
#![allow(unsafe_code)]

use super::decode::{effect, Effect, Write};

/// Instructions after which a proof is given up: longer loops over memory are not found.
const MAX_STEPS: u32 = 512;

/// Steps after which the state to compare with is renewed first.
const FIRST_RENEWAL: u32 = 16;

/// Different places that a loop may write (call frames, variables that keep their value).
const MAX_WRITES: usize = 32;

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

/// A proof under way.
///
/// The state is compared with a remembered one, which is renewed after 16, 64, 256 steps (Brent's way
/// to find a cycle, with larger factors since the loops are short). If it comes back and nothing was written since, the thread spins. If something
/// was written, the same way is gone once more: the thread spins if the second round writes the same
/// places and leaves the same in them, since then all that the loop could read and does not share
/// with others is as it was.
pub struct Proof {
    remembered: State,
    steps: u32,
    remembered_at: u32,
    renew_at: u32,
    writes: Writes,
    /// What the first round has left.
    first: Option<(u32, Writes, [u64; MAX_WRITES])>,
}

impl Proof {
    /// Nothing is known yet.
    pub const NEW: Proof = Proof {
        remembered: [0; REGISTERS],
        steps: 0,
        remembered_at: 0,
        renew_at: 0,
        writes: Writes::NONE,
        first: None,
    };

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
            self.writes = Writes::NONE;
        }
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Verdict::No;
        }
        // SAFETY: the thread is about to execute the instruction there.
        match unsafe { effect(registers) } {
            Effect::Nothing => Verdict::GoOn,
            Effect::Writes(write) if self.writes.add(write) => Verdict::GoOn,
            _ => Verdict::No,
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
        self.writes = Writes::NONE;
        None
    }
}

/// Places that were written, in the order of the first write.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Writes {
    count: usize,
    places: [Write; MAX_WRITES],
}

impl Writes {
    const NONE: Writes = Writes { count: 0, places: [Write { at: 0, bytes: 0 }; MAX_WRITES] };

    fn add(&mut self, write: Write) -> bool {
        if self.places[..self.count].contains(&write) {
            return true;
        }
        let room = self.count < MAX_WRITES;
        if room {
            self.places[self.count] = write;
            self.count += 1;
        }
        room
    }

    /// What is in these places now.
    fn contents(&self) -> [u64; MAX_WRITES] {
        let mut contents = [0; MAX_WRITES];
        for (place, content) in self.places[..self.count].iter().zip(&mut contents) {
            // SAFETY: the thread has just written so many bytes there itself.
            unsafe {
                std::ptr::copy_nonoverlapping(place.at as *const u8, (&raw mut *content).cast(), place.bytes)
            };
        }
        contents
    }
}
