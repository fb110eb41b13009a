//! How a result was made: said in the CSV file and on the plot.

use std::time::SystemTime;

use crate::args::Clock;
use crate::launch::part_id::announcement;

/// Of a result that has rows, but not all.
pub const CUT_SHORT: &str = "the test did not come to its end: these are the rows until then";

/// The circumstances of one run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub test: String,
    pub options: Vec<String>,
    pub cards: u32,
    pub card: String,
    /// What is unusual of their wire, as [`in_words`](crate::net::wire::in_words) says it; empty if nothing is.
    pub wire: String,
    /// The time that both sides see.
    pub clock: Clock,
    /// Both sides on one device.
    pub loopback: bool,
    /// A foreign part id that was presented.
    pub part_id: Option<u32>,
    /// The test was ended, or failed, before its last row.
    pub cut_short: bool,
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

    /// What every result carries, since its figures are others without it.
    pub fn notes(&self) -> Vec<String> {
        let wire = self.wire.strip_prefix(", ").map(|wire| format!("wire: {wire}"));
        let part = self.part_id.map(|id| format!("NOTE: {}", announcement(id)));
        let cut = self.cut_short.then(|| format!("NOTE: {CUT_SHORT}"));
        [wire, part, cut].into_iter().flatten().collect()
    }

    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("made by: verbena {}", env!("CARGO_PKG_VERSION")),
            format!("command: {}", self.command()),
            format!("cards: {}", self.devices()),
            format!("started: {} UTC", date(self.started).replace('T', " ").trim_end_matches('Z')),
        ];
        lines.extend(self.notes());
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
            wire: String::new(),
            clock: Clock::Wall,
            loopback: false,
            part_id: Some(4119),
            cut_short: false,
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

    #[test]
    fn what_changes_the_figures_is_noted() {
        let plain = Settings { part_id: None, ..Settings::example() };
        assert!(plain.notes().is_empty());
        let lossy = Settings { wire: ", exact wire, faults loss=0.01".to_owned(), ..plain };
        assert_eq!(lossy.notes(), ["wire: exact wire, faults loss=0.01"]);
        let cut = Settings { wire: String::new(), cut_short: true, ..lossy };
        assert!(cut.lines()[4].starts_with("NOTE: the test did not"), "{:?}", cut.lines());
    }
}
