//! Faults as text: the grammar of `--fault`.

use std::fmt;
use std::str::FromStr;

use super::grammar::{actions, class_names, list, suggestion, ACTIONS, SEED, VALUED};
use super::rule::{Action, Place, Rule};
use super::seen::Classes;
use super::time::Time;
use crate::packet::PortId;
use crate::port_name;

/// Most rules of a net.
pub const MOST_RULES: usize = 32;
/// PSNs and QP numbers have 24 bits.
const BITS_24: u32 = 0xff_ffff;

/// What happens to frames on the exact wire: probabilities of faults of any frame, and rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The frame is lost.
    pub loss: f64,
    /// It arrives twice.
    pub dup: f64,
    /// It arrives after up to eight later frames.
    pub reorder: f64,
    /// One to three of its bits, from the IP header on, are flipped.
    pub corrupt: f64,
    /// Rules, at most [`MOST_RULES`]. Each sees every frame, whatever the others do.
    pub rules: Vec<Rule>,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// None.
impl Default for Faults {
    fn default() -> Faults {
        Faults { loss: 0.0, dup: 0.0, reorder: 0.0, corrupt: 0.0, rules: Vec::new(), seed: SEED }
    }
}

/// Why a text does not describe faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultsError {
    /// No such part.
    #[error(
        "`{0}`: a part is loss=P, dup=P, reorder=P or corrupt=P, down=TIME..TIME, seed=N, or a rule that begins with \
         {actions}",
        actions = actions()
    )]
    Unknown(String),
    /// A rule has a word that means nothing.
    #[error(
        "unknown word `{word}` in `{rule}`;{} Words: {}, by=..., and the classes of packets {}",
        suggestion(word),
        list(&VALUED),
        list(&class_names())
    )]
    Word {
        /// It.
        word: String,
        /// The whole rule.
        rule: String,
    },
    /// Not a probability.
    #[error("`{0}` is not a probability from 0 to 1")]
    Probability(String),
    /// Not a seed.
    #[error("`{0}` is not a seed: a whole number below 2^64")]
    Seed(String),
    /// A value that is none.
    #[error("`{word}` in `{rule}`: {expected}")]
    Value {
        /// The word with the value.
        word: String,
        /// The whole rule.
        rule: String,
        /// What is.
        expected: &'static str,
    },
    /// No packet is of all the classes of a rule.
    #[error("`{0}`: a rule is for packets of all of its classes, and none is: write a rule for each")]
    NoPacket(String),
    /// A card that the net does not have.
    #[error("`{rule}`: the net has the cards verbena0 to verbena{last}")]
    NoCard {
        /// The whole rule.
        rule: String,
        /// Number of its last card.
        last: u32,
    },
    /// Given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// Too many.
    #[error("a net has at most {MOST_RULES} rules")]
    TooMany,
}

const COUNT: &str = "write a whole number from 1, or N..N for those from one to the other";
const EVERY: &str = "write a whole number from 1: every=5 means each fifth";
const QP: &str = "write the number of the destination QP, below 2^24: 17 or 0x11";
const PSN: &str = "write a PSN below 2^24, as 100 or 0x64, or N..N for those from one to the other";
const PLACE: &str = "write a card, as verbena1, or one of its ports, as verbena1/2";
const WINDOW: &str = "write when it begins and ends, from the net's start, as 2ms..5ms, or 2ms.. for no end";
const BY: &str =
    "reorder takes the number of frames that pass, as by=3; delay takes a time, as by=20us; no other \
                  rule has it";
const NEEDS_BY: &str = "delay needs by=TIME, as by=20us";

impl Faults {
    /// Whether anything can happen at all.
    pub fn any(&self) -> bool {
        !self.rules.is_empty() || [self.loss, self.dup, self.reorder, self.corrupt].iter().any(|&p| p > 0.0)
    }

    /// Whether a net of so many cards has those that the rules name.
    ///
    /// # Errors
    /// [`FaultsError::NoCard`]: the first rule that names another.
    pub fn check_cards(&self, cards: u32) -> Result<(), FaultsError> {
        let names = |place: Option<Place>| place.is_some_and(|place| u32::from(place.card) >= cards);
        match self.rules.iter().find(|rule| names(rule.from) || names(rule.to)) {
            Some(rule) => Err(FaultsError::NoCard { rule: rule.to_string(), last: cards.saturating_sub(1) }),
            None => Ok(()),
        }
    }

    fn parse_part(&mut self, part: &str, seen: &mut Vec<String>) -> Result<(), FaultsError> {
        let unknown = || FaultsError::Unknown(part.to_owned());
        let first = part.split_whitespace().next().unwrap_or("");
        if let Some(&(_, action)) = ACTIONS.iter().find(|(name, _)| *name == first) {
            self.rules.push(parse_rule(action, part)?);
            return Ok(());
        }
        let (name, value) = part.split_once('=').ok_or_else(unknown)?;
        if name == "down" {
            let at = window(value).ok_or_else(|| wrong(part, part, WINDOW))?;
            self.rules.push(Rule { at, ..Rule::all(Action::Drop) });
            return Ok(());
        }
        if seen.iter().any(|known| known == name) {
            return Err(FaultsError::Twice(name.to_owned()));
        }
        seen.push(name.to_owned());
        let to = match name {
            "loss" => &mut self.loss,
            "dup" => &mut self.dup,
            "reorder" => &mut self.reorder,
            "corrupt" => &mut self.corrupt,
            "seed" => {
                self.seed = value.parse().map_err(|_| FaultsError::Seed(value.to_owned()))?;
                return Ok(());
            }
            _ => return Err(unknown()),
        };
        *to = probability(value)?;
        Ok(())
    }
}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Faults, FaultsError> {
        let mut faults = Faults::default();
        let mut seen = Vec::new();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
        for part in
            lines.flat_map(|line| line.split([',', ';'])).map(str::trim).filter(|part| !part.is_empty())
        {
            faults.parse_part(part, &mut seen)?;
        }
        match faults.rules.len() > MOST_RULES {
            true => Err(FaultsError::TooMany),
            false => Ok(faults),
        }
    }
}

fn wrong(word: &str, rule: &str, expected: &'static str) -> FaultsError {
    FaultsError::Value { word: word.to_owned(), rule: rule.to_owned(), expected }
}

fn parse_rule(action: Action, text: &str) -> Result<Rule, FaultsError> {
    let mut rule = Rule::all(action);
    let mut seen: Vec<&str> = Vec::new();
    for word in text.split_whitespace().skip(1) {
        let bad = |expected| wrong(word, text, expected);
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if seen.contains(&name) {
            return Err(FaultsError::Twice(format!("{name}` in `{text}")));
        }
        seen.push(name);
        let Some((_, value)) = word.split_once('=') else {
            let class = Classes::ALL.iter().find(|(_, name, _)| *name == word);
            let unknown = || FaultsError::Word { word: word.to_owned(), rule: text.to_owned() };
            rule.classes = rule.classes.and(class.ok_or_else(unknown)?.0);
            continue;
        };
        match name {
            "p" => rule.probability = probability(value)?,
            "nth" => {
                rule.nth = range(value, |n| n.parse().ok().filter(|&n| n > 0)).ok_or_else(|| bad(COUNT))?
            }
            "every" => rule.every = value.parse().ok().filter(|&n| n > 0).ok_or_else(|| bad(EVERY))?,
            "qp" => rule.qp = Some(number(value).ok_or_else(|| bad(QP))?),
            "psn" => rule.psn = Some(range_any(value, number).ok_or_else(|| bad(PSN))?),
            "from" => rule.from = Some(place(value).ok_or_else(|| bad(PLACE))?),
            "to" => rule.to = Some(place(value).ok_or_else(|| bad(PLACE))?),
            "at" => rule.at = window(value).ok_or_else(|| bad(WINDOW))?,
            "by" => rule.action = by(action, value).ok_or_else(|| bad(BY))?,
            _ => return Err(FaultsError::Word { word: word.to_owned(), rule: text.to_owned() }),
        }
    }
    if !rule.classes.has_packets() {
        return Err(FaultsError::NoPacket(text.to_owned()));
    }
    match rule.action {
        Action::Delay(Time(0)) => Err(wrong("delay", text, NEEDS_BY)),
        _ => Ok(rule),
    }
}

fn probability(text: &str) -> Result<f64, FaultsError> {
    let value = text.parse().ok().filter(|p| (0.0..=1.0).contains(p));
    value.ok_or_else(|| FaultsError::Probability(text.to_owned()))
}

/// A number of 24 bits, decimal or after 0x in hexadecimal.
fn number(text: &str) -> Option<u32> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.ok().filter(|&number| number <= BITS_24)
}

/// One, or from one to the other.
fn range_any<T: Copy>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    Some((read(first)?, read(last)?))
}

fn range(text: &str, read: impl Fn(&str) -> Option<u64>) -> Option<(u64, u64)> {
    match text.strip_suffix("..") {
        Some(first) => Some((read(first)?, u64::MAX)),
        None => range_any(text, read).filter(|(first, last)| first <= last),
    }
}

fn window(text: &str) -> Option<(Time, Time)> {
    let (start, end) = text.split_once("..")?;
    let end = if end.is_empty() { Time::NEVER } else { end.parse().ok()? };
    let start = start.parse().ok()?;
    (start < end).then_some((start, end))
}

fn place(text: &str) -> Option<Place> {
    let card = port_name::of_net(text).ok()?.card as u8;
    let (_, port) = port_name::card_and_port(text)?;
    Some(Place { card, port })
}

fn by(action: Action, text: &str) -> Option<Action> {
    match action {
        Action::Reorder(_) => text.parse().ok().filter(|&n| n > 0).map(Action::Reorder),
        Action::Delay(_) => text.parse().ok().filter(|&time| time > Time(0)).map(Action::Delay),
        _ => None,
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates =
            [("loss", self.loss), ("dup", self.dup), ("reorder", self.reorder), ("corrupt", self.corrupt)];
        let rates = rates.into_iter().filter(|&(_, rate)| rate > 0.0);
        let mut parts: Vec<String> = rates.map(|(name, rate)| format!("{name}={rate}")).collect();
        parts.extend(self.rules.iter().map(Rule::to_string));
        if self.seed != SEED {
            parts.push(format!("seed={}", self.seed));
        }
        f.write_str(&parts.join(","))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Drop => f.write_str("drop")?,
            Action::Dup => f.write_str("dup")?,
            Action::Reorder(frames) => write!(f, "reorder by={frames}")?,
            Action::Corrupt => f.write_str("corrupt")?,
            Action::Delay(time) => write!(f, "delay by={time}")?,
            Action::Mark => f.write_str("mark")?,
        }
        if self.classes != Classes::NONE {
            write!(f, " {}", self.classes)?;
        }
        if let Some(qp) = self.qp {
            write!(f, " qp={qp:#x}")?;
        }
        match self.psn {
            Some((first, last)) if first == last => write!(f, " psn={first}")?,
            Some((first, last)) => write!(f, " psn={first}..{last}")?,
            None => {}
        }
        for (name, place) in [("from", self.from), ("to", self.to)] {
            match place {
                Some(Place { card, port: Some(port) }) => {
                    write!(f, " {name}={}", port_name::text(PortId { card: card.into(), port }))?;
                }
                Some(Place { card, port: None }) => write!(f, " {name}=verbena{card}")?,
                None => {}
            }
        }
        match self.at {
            (Time(0), Time::NEVER) => {}
            (start, Time::NEVER) => write!(f, " at={start}..")?,
            (start, end) => write!(f, " at={start}..{end}")?,
        }
        match self.nth {
            (1, u64::MAX) => {}
            (first, u64::MAX) => write!(f, " nth={first}..")?,
            (first, last) if first == last => write!(f, " nth={first}")?,
            (first, last) => write!(f, " nth={first}..{last}")?,
        }
        if self.every != 1 {
            write!(f, " every={}", self.every)?;
        }
        if self.probability < 1.0 {
            write!(f, " p={}", self.probability)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
