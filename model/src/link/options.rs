//! What can be asked of a net's wire.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// How packets travel between the cards of a net.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As values, payload by reference.
    #[default]
    Fast,
    /// As RoCEv2 frames, byte for byte.
    Exact,
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Wire, String> {
        match text {
            "fast" => Ok(Wire::Fast),
            "exact" => Ok(Wire::Exact),
            _ => Err(format!("`{text}` is neither `fast` nor `exact`")),
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Fast => "fast",
            Wire::Exact => "exact",
        })
    }
}

/// What happens to frames on the exact wire: the probability of each fault, from 0 to 1.
///
/// As text: `loss=0.01,dup=0.001,reorder=0.01,corrupt=0.001,seed=7`, each part optional.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The frame is lost.
    pub loss: f64,
    /// It arrives twice.
    pub dup: f64,
    /// It arrives after up to eight later frames.
    pub reorder: f64,
    /// One to three of its bits, from the IP header on, are flipped.
    pub corrupt: f64,
    /// Seed of the random numbers; each net chooses one when none is given.
    pub seed: Option<u64>,
}

/// Why a text does not describe faults.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultsError {
    /// No such fault.
    #[error("`{0}`: a fault is one of loss=P, dup=P, reorder=P, corrupt=P, or seed=N")]
    Unknown(String),
    /// Not a probability.
    #[error("`{0}` is not a probability from 0 to 1")]
    Probability(String),
    /// Not a seed.
    #[error("`{0}` is not a seed: a whole number below 2^64")]
    Seed(String),
    /// Given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
}

impl Faults {
    /// Whether anything can happen at all.
    pub fn any(&self) -> bool {
        [self.loss, self.dup, self.reorder, self.corrupt].iter().any(|&p| p > 0.0)
    }

    /// These faults with a seed: the one that was given, or a new one.
    #[must_use]
    pub fn seeded(self) -> Faults {
        let new = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
            // Short enough to be typed again.
            super::faults::mix(now ^ (u64::from(std::process::id()) << 32)) % 1_000_000
        };
        Faults { seed: Some(self.seed.unwrap_or_else(new)), ..self }
    }

    /// Whether a net with these faults is what `wanted` asks for: a seed that it leaves open may be any.
    pub fn satisfy(&self, wanted: &Faults) -> bool {
        *self == Faults { seed: wanted.seed.or(self.seed), ..*wanted }
    }
}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Faults, FaultsError> {
        let mut faults = Faults::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let unknown = || FaultsError::Unknown(part.to_owned());
            let (name, value) = part.split_once('=').ok_or_else(unknown)?;
            if seen.contains(&name) {
                return Err(FaultsError::Twice(name.to_owned()));
            }
            seen.push(name);
            let to = match name {
                "loss" => &mut faults.loss,
                "dup" => &mut faults.dup,
                "reorder" => &mut faults.reorder,
                "corrupt" => &mut faults.corrupt,
                "seed" => {
                    faults.seed = Some(value.parse().map_err(|_| FaultsError::Seed(value.to_owned()))?);
                    continue;
                }
                _ => return Err(unknown()),
            };
            let bad = || FaultsError::Probability(value.to_owned());
            *to = value.parse().map_err(|_| bad())?;
            if !(0.0..=1.0).contains(to) {
                return Err(bad());
            }
        }
        Ok(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rates =
            [("loss", self.loss), ("dup", self.dup), ("reorder", self.reorder), ("corrupt", self.corrupt)];
        let mut comma = "";
        for (name, rate) in rates.into_iter().filter(|&(_, rate)| rate > 0.0) {
            write!(f, "{comma}{name}={rate}")?;
            comma = ",";
        }
        match self.seed {
            Some(seed) => write!(f, "{comma}seed={seed}"),
            None => Ok(()),
        }
    }
}

/// A record of all frames, as tcpdump and Wireshark read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The file, which a new net overwrites.
    pub path: PathBuf,
    /// Bytes of each frame that are kept.
    pub snaplen: u32,
    /// The card whose view it is: what it sends and receives, when it does. `None`: all frames of the net, as
    /// they are sent.
    pub card: Option<u8>,
}

impl Capture {
    /// Longer than any frame.
    pub const WHOLE: u32 = 65_535;
}

/// All options of a wire. The default is the fast wire, not recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkOptions {
    /// How packets travel.
    pub wire: Wire,
    /// What happens to frames (exact wire).
    pub faults: Faults,
    /// Whether and where frames are recorded.
    pub capture: Option<Capture>,
    /// Path MTU that the ports are set to; `None`: as the cards' profile says.
    pub mtu: Option<u32>,
    /// Response time-out of the connection manager, 4.096 us * 2^n; `None`: 20, as Linux has it.
    pub cm_timeout: Option<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_as_text() {
        let all: Faults = "loss=0.01, dup=0.001,reorder=0.25,corrupt=1,seed=7".parse().unwrap();
        let expected = Faults { loss: 0.01, dup: 0.001, reorder: 0.25, corrupt: 1.0, seed: Some(7) };
        assert_eq!(all, expected);
        assert_eq!(all.to_string(), "loss=0.01,dup=0.001,reorder=0.25,corrupt=1,seed=7");
        assert_eq!(all.to_string().parse(), Ok(all));
        assert_eq!("".parse(), Ok(Faults::default()));
        assert!(!Faults::default().any() && all.any());
    }

    #[test]
    fn what_is_not_a_fault() {
        let parse = |text: &str| text.parse::<Faults>().unwrap_err();
        assert_eq!(parse("los=0.1"), FaultsError::Unknown("los=0.1".into()));
        assert_eq!(parse("loss"), FaultsError::Unknown("loss".into()));
        for bad in ["1.5", "-0.1", "NaN", "x", ""] {
            assert_eq!(parse(&format!("loss={bad}")), FaultsError::Probability(bad.into()));
        }
        assert_eq!(parse("seed=-1"), FaultsError::Seed("-1".into()));
        assert_eq!(parse("dup=0,dup=1"), FaultsError::Twice("dup".into()));
    }

    #[test]
    fn an_open_seed_is_chosen_and_any_satisfies_it() {
        let wanted = Faults { loss: 0.5, ..Faults::default() };
        let running = wanted.seeded();
        assert!(running.seed.is_some() && running.satisfy(&wanted));
        assert_eq!(running.seeded(), running);
        assert!(!running.satisfy(&Faults { loss: 0.4, ..wanted }));
        assert!(!Faults { seed: Some(1), ..wanted }.satisfy(&Faults { seed: Some(2), ..wanted }));
    }
}
