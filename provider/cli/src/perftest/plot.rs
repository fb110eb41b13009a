//! The result as an SVG plot: bandwidth or latency against message size.

use anyhow::Result;

use super::settings::Settings;
use super::table::Table;
use crate::plot::{picture, Axes, Chart, Line};

/// The columns that are drawn. Of typical and average latency the typical one is enough.
const COLUMNS: [&str; 6] = ["BW peak", "BW average", "t_min", "t_typical", "t_avg", "99%"];

/// The SVG text, or nothing when the table has nothing to plot.
pub fn svg(settings: &Settings, table: &Table) -> Result<Option<String>> {
    let (mut lines, mut y_title) = (Vec::<Line>::new(), "");
    for column in COLUMNS.iter().filter_map(|start| table.column(start)) {
        let (name, unit) = table.columns[column].split_once('[').unwrap_or((&table.columns[column], ""));
        let points = table.points(column);
        if points.is_empty() || name == "t_avg" && lines.iter().any(|line| line.name == "t_typical") {
            continue;
        }
        y_title = match unit.trim_end_matches(']') {
            // perftest writes MB/sec and means 2^20 bytes.
            "MB/sec" => "bandwidth [MiB/s]",
            "Gb/sec" => "bandwidth [Gbit/s]",
            "usec" => "latency [us]",
            other => other,
        };
        lines.push(Line { name: name.to_owned(), color: lines.len(), dashed: false, points });
    }
    let head = [vec![settings.command(), settings.devices()], settings.notes()].concat();
    let title = &head[0];
    picture(
        &head,
        &[Chart { title, x_title: "message size", y_title, axes: Axes::Bytes, level: None, lines }],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plotted(text: &str) -> Option<String> {
        let mut table = Table::default();
        for line in text.lines() {
            table.feed(line);
        }
        svg(&Settings::example(), &table).unwrap()
    }

    #[test]
    fn bandwidth_has_title_units_and_marker() {
        let svg = plotted(include_str!("../../tests/data/ib_write_bw.txt")).unwrap();
        for part in
            ["ib_write_bw -a", "bandwidth [MiB/s]", "message size", "BW average", "part id 4119", "64 KiB"]
        {
            assert!(svg.contains(part), "{part} is missing");
        }
    }

    #[test]
    fn latency_of_one_size_can_be_drawn() {
        let table = " #bytes        #iterations       t_avg[usec]    tps average\n 2 100 1.69 592033.12\n";
        assert!(plotted(table).unwrap().contains("latency [us]"));
        assert!(plotted("").is_none());
    }
}
