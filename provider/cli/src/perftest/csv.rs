//! The result as a CSV file, with how it was made in comment lines.

use std::fmt::Write;

use super::settings::Settings;
use super::table::Table;

pub fn text(settings: &Settings, table: &Table) -> String {
    let mut text = String::new();
    for line in settings.lines() {
        let _ = writeln!(text, "# {line}");
    }
    let titles: Vec<&str> = table.columns.iter().map(|title| title.trim_start_matches('#')).collect();
    let _ = writeln!(text, "{}", titles.join(","));
    for row in &table.rows {
        let _ = writeln!(text, "{}", row.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_it_was_made() {
        let mut table = Table::default();
        table.feed(" #bytes #iterations    t_avg[usec]");
        table.feed(" 2 1000 1.5");
        let settings = Settings::example();
        let csv = text(&settings, &table);
        assert!(csv.contains("# command: ib_write_bw -a\n"), "{csv}");
        assert!(csv.contains("# NOTE: the card presents itself as ConnectX-5 (part id 4119)"));
        assert!(csv.ends_with("bytes,iterations,t_avg[usec]\n2,1000,1.5\n"));
    }
}
