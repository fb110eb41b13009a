//! A rule: what happens to which frames.

use super::seen::Classes;
use super::time::Time;
use crate::packet::PortId;

/// What a rule does to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is lost.
    Drop,
    /// It arrives twice.
    Dup,
    /// It arrives after this many later frames.
    Reorder(u32),
    /// One to three of its bits, from the IP header on, are flipped.
    Corrupt,
    /// It arrives this much later.
    Delay(Time),
    /// Its ECN field says that it met congestion.
    Mark,
}

/// A card, or one of its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the card.
    pub card: u8,
    /// Number of the port, from 0.
    pub port: Option<u8>,
}

impl Place {
    fn has(self, port: PortId) -> bool {
        port == PortId::ALL || port.card == u16::from(self.card) && self.port.is_none_or(|p| p == port.port)
    }
}

/// A rule. A frame of which all conditions are true is *counted*; what `nth`, `every` and `probability` select of the
/// counted ones is acted on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// What happens.
    pub action: Action,
    /// All that the frame has to be.
    pub classes: Classes,
    /// Destination QP in its BTH.
    pub qp: Option<u32>,
    /// PSNs from the first to the second, which may be the lower one: PSNs wrap.
    pub psn: Option<(u32, u32)>,
    /// Who sends it.
    pub from: Option<Place>,
    /// For whom it is.
    pub to: Option<Place>,
    /// It leaves at or after the first and before the second, from the net's start.
    pub at: (Time, Time),
    /// The first and the last that are acted on, from 1.
    pub nth: (u64, u64),
    /// One in this many is acted on.
    pub every: u64,
    /// With which probability.
    pub probability: f64,
}

/// A frame on its way, as rules look at it.
pub(in crate::link) struct Look<'a> {
    pub from: PortId,
    pub to: PortId,
    /// When it leaves.
    pub at: Time,
    pub frame: &'a [u8],
}

impl Rule {
    /// What is done to every frame.
    pub const fn all(action: Action) -> Rule {
        Rule {
            action,
            classes: Classes::NONE,
            qp: None,
            psn: None,
            from: None,
            to: None,
            at: (Time(0), Time::NEVER),
            nth: (1, u64::MAX),
            every: 1,
            probability: 1.0,
        }
    }

    /// Whether it needs more of a frame than its way.
    fn looks_inside(&self) -> bool {
        self.classes != Classes::NONE || self.qp.is_some() || self.psn.is_some()
    }

    /// Whether a frame is counted.
    pub(super) fn counts(&self, look: &Look<'_>) -> bool {
        let here = |place: Option<Place>, port| place.is_none_or(|place| place.has(port));
        if !here(self.from, look.from) || !here(self.to, look.to) {
            return false;
        }
        if look.at < self.at.0 || look.at >= self.at.1 {
            return false;
        }
        if !self.looks_inside() {
            return true;
        }
        let Some(seen) = super::seen::seen(look.frame) else { return false };
        seen.classes.has(self.classes)
            && self.qp.is_none_or(|qp| qp == seen.qp)
            && self.psn.is_none_or(|(first, last)| match first <= last {
                true => (first..=last).contains(&seen.psn),
                false => seen.psn >= first || seen.psn <= last,
            })
    }

    /// Whether the counted frame of this number, from 1, is acted on if chance allows.
    pub(super) fn selects(&self, number: u64) -> bool {
        (self.nth.0..=self.nth.1).contains(&number) && number % self.every.max(1) == 0
    }
}

/// Words that a rule takes in the segment.
pub(super) const WORDS: usize = 12;

impl Rule {
    /// For the segment.
    pub(super) fn to_words(self) -> [u64; WORDS] {
        let (tag, amount) = match self.action {
            Action::Drop => (0, 0),
            Action::Dup => (1, 0),
            Action::Reorder(frames) => (2, frames.into()),
            Action::Corrupt => (3, 0),
            Action::Delay(time) => (4, time.0),
            Action::Mark => (5, 0),
        };
        let place = |place: Option<Place>| match place {
            None => 0,
            Some(Place { card, port }) => {
                1 | u64::from(card) << 8 | port.map_or(0, |p| u64::from(p) + 1) << 16
            }
        };
        let (first, last) = self.psn.unwrap_or_default();
        [
            tag | u64::from(self.classes.0) << 32,
            amount,
            self.qp.map_or(0, |qp| u64::from(qp) + 1),
            u64::from(self.psn.is_some()) << 63 | u64::from(last) << 32 | u64::from(first),
            place(self.from),
            place(self.to),
            self.at.0 .0,
            self.at.1 .0,
            self.nth.0,
            self.nth.1,
            self.every,
            self.probability.to_bits(),
        ]
    }

    /// From the segment, whatever is there.
    pub(super) fn from_words(words: [u64; WORDS]) -> Rule {
        let [head, amount, qp, psn, from, to, start, end, first, last, every, probability] = words;
        let action = match head as u32 {
            1 => Action::Dup,
            2 => Action::Reorder(amount as u32),
            3 => Action::Corrupt,
            4 => Action::Delay(Time(amount)),
            5 => Action::Mark,
            _ => Action::Drop,
        };
        let place = |word: u64| {
            (word & 1 == 1)
                .then(|| Place { card: (word >> 8) as u8, port: ((word >> 16) as u8).checked_sub(1) })
        };
        Rule {
            action,
            classes: Classes((head >> 32) as u32),
            qp: qp.checked_sub(1).map(|qp| qp as u32),
            psn: (psn >> 63 == 1).then_some((psn as u32, (psn >> 32) as u32 & 0x7fff_ffff)),
            from: place(from),
            to: place(to),
            at: (Time(start), Time(end)),
            nth: (first, last),
            every,
            probability: f64::from_bits(probability),
        }
    }
}
