//! A set of actors: those that should check again.

use super::actor::ACTORS;
use crate::bits::bits;

/// Some of the actors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActorSet([u64; ACTORS / 64]);

impl ActorSet {
    /// One more.
    pub fn add(&mut self, actor: u16) {
        self.0[actor as usize / 64] |= 1 << (actor % 64);
    }

    /// These and others.
    #[inline]
    pub fn and(self, others: ActorSet) -> ActorSet {
        ActorSet(std::array::from_fn(|i| self.0[i] | others.0[i]))
    }

    /// Each of them.
    #[inline]
    pub fn each(self) -> impl Iterator<Item = u16> {
        self.0
            .into_iter()
            .enumerate()
            .flat_map(|(at, word)| bits(word).map(move |bit| (at * 64 + bit) as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_in_their_order() {
        let mut some = ActorSet::default();
        assert_eq!(some.each().next(), None);
        [200, 3, 63, 3].into_iter().for_each(|actor| some.add(actor));
        let mut more = ActorSet::default();
        [64, 255, 63].into_iter().for_each(|actor| more.add(actor));
        assert_eq!(some.and(more).each().collect::<Vec<_>>(), [3, 63, 64, 200, 255]);
    }
}
