//! How a result was made: said in the CSV file and on the plot.

use std::time::SystemTime;

use crate::args::Clock;
use crate::launch::part_id::announcement;

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub test: String,
    pub options: Vec<String>,
    pub cards: u32,
    pub card: String,
    /// The time that both sides see.
    pub clock: Clock,
    /// Both sides on one device.
    pub loopback: bool,
    /// A foreign part id that was presented.
    pub part_id: Option<u32>,
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

    pub fn devices(&self) -> String {
        let way =
            if self.loopback { "verbena0 (loopback)" } else { "verbena1 (client) to verbena0 (server)" };
        let mode = match self.clock {
            Clock::Wall => "the machine's clock",
            Clock::Virtual => "simulated time (--clock virtual)",
        };
        format!("{} x {}, {way}, {mode}", self.cards, self.card)
    }

    /// The note that every result carries when a foreign id was presented.
    pub fn marker(&self) -> Option<String> {
        self.part_id.map(|id| format!("NOTE: {}", announcement(id)))
    }

    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("made by: verbena {}", env!("CARGO_PKG_VERSION")),
            format!("command: {}", self.command()),
            format!("cards: {}", self.devices()),
            format!("started: {} UTC", date(self.started).replace('T', " ").trim_end_matches('Z')),
        ];
        lines.extend(self.marker());
        lines
    }

    /// Name of the directory for the result.
    pub fn directory(&self) -> String {
        let date = date(self.started).replace(['-', ':', 'Z'], "").replace('T', "-");
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
            started: std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_709_210_096),
        }
    }
}

/// `YYYY-MM-DDThh:mm:ssZ`.
fn date(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_for_people_and_for_file_names() {
        let settings = Settings::example();
        assert!(settings.lines()[3].ends_with("2024-02-29 12:34:56 UTC"));
        assert!(settings.directory().starts_with("ib_write_bw-20240229-123456-"));
    }
}
