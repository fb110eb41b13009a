//! Traffic patterns: who sends how much to whom, and when.

use std::fmt;

use clap::ValueEnum;

use crate::args::word;

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pattern {
    /// All cards but the first send a message to the first
    Incast,
    /// Each card sends a message to one other, and receives one
    Permutation,
    /// Each card sends a message to each other
    Alltoall,
    /// The cards sum up a vector in a ring: reduce-scatter and allgather
    Allreduce,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word(self))
    }
}

/// A pattern with its size.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub pattern: Pattern,
    pub cards: u16,
    /// Bytes of each message; with allreduce, of the vector.
    pub bytes: u64,
    pub seed: u64,
}

/// A message to a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub to: u16,
    pub bytes: u64,
    /// Which one of those to this card, from 0.
    pub step: u32,
}

/// splitmix64: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(end)) >> 64) as u64
    }
}

/// A permutation of which no card is its own partner, by Sattolo's algorithm: one cycle.
pub fn derangement(cards: u16, seed: u64) -> Vec<u16> {
    let mut random = Random(seed);
    let mut to: Vec<u16> = (0..cards).collect();
    for i in (1..to.len()).rev() {
        to.swap(i, random.below(i as u64) as usize);
    }
    to
}

impl Traffic {
    fn next(&self, card: u16) -> u16 {
        (card + 1) % self.cards
    }

    /// Bytes of a step of allreduce: a part of the vector.
    fn part(&self) -> u64 {
        self.bytes.div_ceil(self.cards.into())
    }

    pub fn steps(&self) -> u32 {
        2 * (u32::from(self.cards) - 1)
    }

    /// Queue pairs of the card that has most.
    pub fn most_links(&self) -> usize {
        match self.pattern {
            Pattern::Incast | Pattern::Alltoall => usize::from(self.cards) - 1,
            Pattern::Permutation | Pattern::Allreduce => 2,
        }
    }

    pub fn queue_pairs(&self) -> u64 {
        let ends = self.ends() as u64;
        match self.pattern {
            // One that a card sends by is the one by which its peer's message comes.
            Pattern::Alltoall => ends,
            Pattern::Incast | Pattern::Permutation | Pattern::Allreduce => 2 * ends,
        }
    }

    /// Other cards that a card sends to.
    pub fn most_sends(&self) -> usize {
        match self.pattern {
            Pattern::Alltoall => self.most_links(),
            Pattern::Incast | Pattern::Permutation | Pattern::Allreduce => 1,
        }
    }

    /// Bytes of a message between two cards.
    pub fn message_bytes(&self) -> u64 {
        match self.pattern {
            Pattern::Allreduce => self.part(),
            _ => self.bytes,
        }
    }

    /// What each card sends at the start.
    pub fn starts(&self) -> Vec<Vec<Message>> {
        let message = |to| Message { to, bytes: self.message_bytes(), step: 0 };
        let cards = 0..self.cards;
        match self.pattern {
            Pattern::Incast => {
                cards.map(|card| (card != 0).then(|| message(0)).into_iter().collect()).collect()
            }
            Pattern::Permutation => {
                derangement(self.cards, self.seed).into_iter().map(|to| vec![message(to)]).collect()
            }
            // The next card first: no card is the first of all others.
            Pattern::Alltoall => {
                let others = |card: u16| {
                    (1..self.cards).map(move |i| (u32::from(card) + u32::from(i)) % u32::from(self.cards))
                };
                cards.map(|card| others(card).map(|to| message(to as u16)).collect()).collect()
            }
            Pattern::Allreduce => cards.map(|card| vec![message(self.next(card))]).collect(),
        }
    }

    /// What a card sends because a message has arrived; `None`: nothing, it was the last of its chain.
    pub fn follows(&self, card: u16, step: u32) -> Option<Message> {
        let more = self.pattern == Pattern::Allreduce && step + 1 < self.steps();
        more.then(|| Message { to: self.next(card), bytes: self.part(), step: step + 1 })
    }

    /// Messages that end a chain.
    pub fn ends(&self) -> usize {
        let cards = usize::from(self.cards);
        match self.pattern {
            Pattern::Incast => cards - 1,
            Pattern::Permutation | Pattern::Allreduce => cards,
            Pattern::Alltoall => cards * (cards - 1),
        }
    }

    pub fn all_bytes(&self) -> u64 {
        match self.pattern {
            Pattern::Allreduce => self.part() * u64::from(self.steps()) * u64::from(self.cards),
            _ => self.bytes * self.ends() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_its_own_partner_and_seeds_differ() {
        for (cards, seed) in [(2, 1), (3, 2), (64, 1), (64, 2), (1024, 9)] {
            let to = derangement(cards, seed);
            let mut all = to.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..cards));
            assert!((0..cards).zip(&to).all(|(card, &to)| card != to), "{to:?}");
        }
        assert_ne!(derangement(64, 1), derangement(64, 2));
        assert_eq!(derangement(64, 1), derangement(64, 1));
    }

    #[test]
    fn a_ring_passes_each_part_twice_around() {
        let traffic = Traffic { pattern: Pattern::Allreduce, cards: 4, bytes: 1001, seed: 1 };
        assert_eq!(traffic.starts()[3], [Message { to: 0, bytes: 251, step: 0 }]);
        assert_eq!(traffic.follows(0, 4), Some(Message { to: 1, bytes: 251, step: 5 }));
        assert_eq!(traffic.follows(0, 5), None);
        assert_eq!(traffic.all_bytes(), 251 * 6 * 4);
    }

    #[test]
    fn all_send_to_all_the_next_one_first() {
        let traffic = Traffic { pattern: Pattern::Alltoall, cards: 4, bytes: 10, seed: 1 };
        let to = |card: usize| traffic.starts()[card].iter().map(|message| message.to).collect::<Vec<_>>();
        assert_eq!((to(0), to(2)), (vec![1, 2, 3], vec![3, 0, 1]));
        assert_eq!((traffic.ends(), traffic.all_bytes()), (12, 120));
    }
}
