//! How a result was made: said in the CSV file and on the plot.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::Clock;
use crate::launch::part_id::announcement;

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the perftest program.
    pub test: String,
    /// Its options.
    pub options: Vec<String>,
    /// Number of cards.
    pub cards: u32,
    /// Profile of the cards.
    pub card: String,
    /// The time that both sides see.
    pub clock: Clock,
    /// Both sides on one device.
    pub loopback: bool,
    /// A foreign part id that was presented.
    pub part_id: Option<u32>,
    /// When the run began.
    pub started: SystemTime,
}

impl Settings {
    /// The perftest command, as its user would type it.
    pub fn command(&self) -> String {
        let mut command = self.test.clone();
        for option in &self.options {
            command.push(' ');
            command.push_str(option);
        }
        command
    }

    /// Which devices took part.
    pub fn devices(&self) -> String {
        let way =
            if self.loopback { "verbena0 (loopback)" } else { "verbena1 (client) to verbena0 (server)" };
        let mode = match self.clock {
            Clock::Wall => "model in wall-clock mode",
            Clock::Virtual => "simulated time (--clock virtual)",
        };
        format!("{} x {}, {way}, {mode}", self.cards, self.card)
    }

    /// The note that every result carries when a foreign id was presented.
    pub fn marker(&self) -> Option<String> {
        self.part_id.map(|id| format!("NOTE: {}", announcement(id)))
    }

    /// Everything, line by line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("made by: verbena {}", env!("CARGO_PKG_VERSION")),
            format!("command: {}", self.command()),
            format!("cards: {}", self.devices()),
            format!("started: {} UTC", date(self.started, "-", " ", ":")),
        ];
        lines.extend(self.marker());
        lines
    }

    /// Name of the directory for the result.
    pub fn directory(&self) -> String {
        let date = date(self.started, "", "-", "");
        format!("{}-{date}-{}", self.test, std::process::id())
    }

    #[cfg(test)]
    pub fn example() -> Settings {
        Settings {
            test: "ib_write_bw".to_owned(),
            options: vec!["-a".to_owned()],
            cards: 2,
            card: "f10a".to_owned(),
            clock: Clock::Wall,
            loopback: false,
            part_id: Some(4119),
            started: UNIX_EPOCH + std::time::Duration::from_secs(1_709_210_096),
        }
    }
}

fn date(time: SystemTime, day: &str, between: &str, second: &str) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, date) = civil(seconds / 86_400);
    let rest = seconds % 86_400;
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{day}{month:02}{day}{date:02}{between}{h:02}{second}{m:02}{second}{s:02}")
}

/// Year, month and day of a day count since 1970, in the Gregorian calendar
/// (counted in years that begin in March, so that the leap day comes last).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_gregorian() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(19_782), (2024, 2, 29));
        let settings = Settings::example();
        assert!(settings.lines()[3].ends_with("2024-02-29 12:34:56 UTC"));
        assert!(settings.directory().starts_with("ib_write_bw-20240229-123456-"));
    }
}
