//! Options that several commands share.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use model::packet::{PortId, MAX_CARDS};
use model::port_name;

use crate::card;
use crate::net::wire;

/// Which cards, on which net: the options that several commands share.
#[derive(Args, Clone, Debug, Default)]
pub struct CardArgs {
    /// Number of cards (default for a new net: 2)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cards: Option<u32>,
    /// Card profile: a name of `verbena card list`, or a file, whose name has a `/` or ends in .toml (default for a new net:
    /// f10a)
    #[arg(long, value_name = "PROFILE", value_parser = card::profile_name)]
    pub card: Option<String>,
    /// Time that programs see (default for a new net: wall)
    #[arg(long, value_name = "CLOCK")]
    pub clock: Option<Clock>,
    /// Record in a new file what each message waits for, for `verbena trace --read FILE`; needs --clock virtual
    #[arg(long, value_name = "FILE")]
    pub trace: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub wire: wire::WireArgs,
}

/// Which time programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The machine's: the cards are as fast as the computer allows.
    #[default]
    Wall,
    /// Simulated: the cards take the time of their profile.
    Virtual,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&word(self))
    }
}

/// A card of a net by its name, as verbena0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardName(pub u32);

impl FromStr for CardName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let card = match port_name::card_and_port(text) {
            Some((card, None)) if usize::from(card) < MAX_CARDS => Some(CardName(card.into())),
            _ => None,
        };
        card.ok_or_else(|| format!("the cards of a net are verbena0 to {}", CardName(MAX_CARDS as u32 - 1)))
    }
}

impl fmt::Display for CardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verbena{}", self.0)
    }
}

/// A port of a net by its name, as verbena0/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortName(pub PortId);

impl FromStr for PortName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match port_name::card_and_port(text) {
            Some((card, Some(port))) => Ok(PortName(PortId { card, port })),
            _ => Err("a port is verbena0/1, verbena0/2, verbena1/1, ...".into()),
        }
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&port_name::text(self.0))
    }
}

/// A number, as 17 or 0x11.
pub fn number(text: &str) -> Result<u64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
}

/// A time in seconds, as 0.5.
pub fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or("a number of seconds, as 0.5")
}

/// The word of the command line that a value has.
pub fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_and_ports_have_names() {
        let name: PortName = "verbena3/2".parse().unwrap();
        assert_eq!((name.0, name.to_string()), (PortId { card: 3, port: 1 }, "verbena3/2".to_owned()));
        for wrong in ["verbena0/0", "mlx5_0/1", "verbena/1", "verbena0/x", "verbena0", "down"] {
            assert!(wrong.parse::<PortName>().unwrap_err().contains("verbena0/1"), "{wrong}");
        }
        let name: CardName = "verbena3".parse().unwrap();
        assert_eq!((name, name.to_string()), (CardName(3), "verbena3".to_owned()));
        for wrong in ["verbena", "verbena0/1", "verbena-1", "verbena16", "mlx5_0", ""] {
            assert!(wrong.parse::<CardName>().unwrap_err().contains("verbena0"), "{wrong}");
        }
    }
}
