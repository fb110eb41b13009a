//! Options that several commands share.

use std::num::ParseIntError;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::card;
use crate::net::wire;

/// Which cards, on which net: the options that several commands share.
#[derive(Args, Clone, Debug, Default)]
pub struct CardArgs {
    /// Number of cards (default for a new net: 2)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub cards: Option<u32>,
    /// Card profile: a name of `verbena card list`, or a file: a path with a `/`, or a name that ends in .toml (default for
    /// a new net: f10a)
    #[arg(long, value_name = "PROFILE", value_parser = card::profile_name)]
    pub card: Option<String>,
    /// Time that programs see: the machine's, or simulated with the card's timing (default for a new
    /// net: wall)
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
    /// The machine's: as fast as it can.
    #[default]
    Wall,
    /// Simulated: what the card of the profile would take.
    Virtual,
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&word(self))
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
