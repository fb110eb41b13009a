//! Spans of time, as text and exact.

use std::fmt;
use std::str::FromStr;

/// Picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Units and their picoseconds, the longest first.
const UNITS: [(&str, u64); 5] =
    [("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1), ("s", 1_000_000_000_000)];

impl Time {
    /// After everything.
    pub const NEVER: Time = Time(u64::MAX);
}

impl FromStr for Time {
    type Err = ();

    /// A number, of which a part may be behind a point, and a unit.
    fn from_str(text: &str) -> Result<Time, ()> {
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or(())?;
        let (whole, part) = {
            let number = &text[..text.len() - unit.0.len()];
            number.split_once('.').unwrap_or((number, "0"))
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) {
            return Err(());
        }
        let whole = whole.parse::<u64>().map_err(drop)?.checked_mul(unit.1).ok_or(())?;
        let mut worth = unit.1;
        let mut total = whole;
        for digit in part.bytes() {
            let digit = u64::from(digit - b'0');
            // Less than a picosecond is nothing that could be meant.
            if worth % 10 != 0 && digit != 0 {
                return Err(());
            }
            worth /= 10;
            total = total.checked_add(digit * worth).ok_or(())?;
        }
        Ok(Time(total))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: &&(&str, u64)| self.0 % unit.1 == 0;
        // Seconds are last in the table, since other units end like them.
        let (unit, worth) = UNITS.iter().rev().take(1).chain(&UNITS).find(fits).unwrap_or(&("ps", 1));
        write!(f, "{}{unit}", self.0 / worth)
    }
}
