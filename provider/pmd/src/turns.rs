//! Whose turn it is with each place of a receive queue: the card's, which writes a frame there, or ours.

/// The places of a queue: each is posted, or free.
pub struct Turns {
    free: Vec<u32>,
    posted: Vec<bool>,
}

impl Turns {
    /// So many places, all free.
    pub fn new(count: u32) -> Self {
        Turns { free: (0..count).collect(), posted: vec![false; count as usize] }
    }

    /// How many there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.posted.len()
    }

    /// Whether the card has all of them.
    #[inline]
    pub fn none_free(&self) -> bool {
        self.free.is_empty()
    }

    /// Has `post` give free places to the card, until it cannot.
    #[inline]
    pub fn post(&mut self, mut post: impl FnMut(u32) -> bool) {
        while let Some(&place) = self.free.last() {
            if !post(place) {
                break;
            }
            self.posted[place as usize] = true;
            self.free.pop();
        }
    }

    /// The card has ended a receive: the place with this number is free again. `None` if the card did not have it: no
    /// completion, however wrong, makes a place free twice, so that two frames would be written there.
    #[inline]
    pub fn done(&mut self, number: u64) -> Option<u32> {
        let posted = usize::try_from(number).ok().and_then(|place| self.posted.get_mut(place))?;
        if !std::mem::replace(posted, false) {
            return None;
        }
        self.free.push(number as u32);
        Some(number as u32)
    }

    /// The card has none any more.
    pub fn take_back(&mut self) {
        *self = Turns::new(self.posted.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Post(usize),
        Done(u64),
        TakeBack,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..12_usize).prop_map(Step::Post),
            8 => prop_oneof![0..10_u64, any::<u64>()].prop_map(Step::Done),
            1 => Just(Step::TakeBack),
        ]
    }

    proptest! {
        #[test]
        fn a_place_has_one_turn(steps in proptest::collection::vec(step(), 0..60)) {
            play(steps)?;
        }
    }

    /// Whatever completions name, a place is posted or free, and never twice.
    fn play(steps: Vec<Step>) -> Result<(), TestCaseError> {
        const COUNT: u32 = 8;
        let mut turns = Turns::new(COUNT);
        let mut posted = BTreeSet::new();
        for step in steps {
            match step {
                Step::Post(most) => {
                    let mut left = most;
                    turns.post(|place| {
                        let room = left != 0;
                        left = left.saturating_sub(1);
                        assert!(!room || posted.insert(place), "place {place} is posted twice");
                        room
                    });
                }
                Step::Done(number) => {
                    let ours = u32::try_from(number).is_ok_and(|place| posted.remove(&place));
                    prop_assert_eq!(turns.done(number), ours.then_some(number as u32));
                }
                Step::TakeBack => {
                    turns.take_back();
                    posted.clear();
                }
            }
            let free: BTreeSet<_> = turns.free.iter().copied().collect();
            prop_assert_eq!(free.len(), turns.free.len());
            prop_assert!(free.is_disjoint(&posted));
            prop_assert_eq!(free.len() + posted.len(), COUNT as usize);
            prop_assert_eq!(turns.none_free(), posted.len() == COUNT as usize);
        }
        Ok(())
    }

    #[test]
    fn no_completion_frees_a_place_twice() {
        let all = [Step::Post(12), Step::Done(3), Step::Done(3), Step::Post(1), Step::Done(8)];
        let others = [Step::Done(1 << 32), Step::Done(u64::MAX), Step::TakeBack, Step::Done(0)];
        play([&all[..], &others].concat()).expect("each has one turn");
    }
}
