//! A foreign part id, for programs that grant features only to ids they know.

use std::env;

use clap::Args;

use crate::args::number;

/// The provider reads the id to present from this variable.
pub const VARIABLE: &str = "VERBENA_PART_ID";

/// Options that choose the presented part id. Off unless asked for.
#[derive(Args, Clone, Debug, Default)]
pub struct PartArgs {
    /// Present this vendor_part_id instead of the card's own
    #[arg(long, value_name = "ID", value_parser = parse_id, conflicts_with = "present_as")]
    pub part_id: Option<u32>,
    /// Present the part id of this card: perftest allows inline data on those that it knows
    #[arg(long = "as", value_name = "NIC", value_enum)]
    pub present_as: Option<Known>,
}

/// Cards whose ids perftest 4.5 knows.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq)]
pub enum Known {
    /// ConnectX-4
    Cx4,
    /// ConnectX-4 Lx
    Cx4lx,
    /// ConnectX-5
    Cx5,
    /// ConnectX-6
    Cx6,
}

/// Their names and ids.
const KNOWN: [(Known, &str, u32); 4] = [
    (Known::Cx4, "ConnectX-4", 4115),
    (Known::Cx4lx, "ConnectX-4 Lx", 4117),
    (Known::Cx5, "ConnectX-5", 4119),
    (Known::Cx6, "ConnectX-6", 4123),
];

impl PartArgs {
    /// The presented id, if any: an option, or the variable set by the caller.
    pub fn presented(&self) -> Option<u32> {
        let known = KNOWN.iter().find(|(known, ..)| Some(*known) == self.present_as).map(|(.., id)| *id);
        self.part_id.or(known).or_else(|| parse_id(&env::var(VARIABLE).ok()?).ok())
    }
}

/// How the presented id is announced, on the terminal and in results.
pub fn announcement(id: u32) -> String {
    let known = KNOWN.iter().find(|(.., known)| *known == id);
    let name = known.map_or("an unknown card", |(_, name, _)| name);
    format!("the card presents itself as {name} (part id {id}): for perftest's inline feature")
}

fn parse_id(text: &str) -> Result<u32, String> {
    let id = number(text).ok().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| format!("`{text}` is no part id: a number such as 4119 or 0x1017"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_decimal_or_hex() {
        assert_eq!(parse_id("4119"), Ok(4119));
        assert_eq!(parse_id("0x1017"), Ok(4119));
        assert!(parse_id("cx5").is_err());
    }

    #[test]
    fn an_option_wins() {
        let args = PartArgs { part_id: None, present_as: Some(Known::Cx5) };
        assert_eq!(args.presented(), Some(4119));
        assert!(announcement(4119).contains("ConnectX-5 (part id 4119)"));
    }
}
