//! perftest's output for people: settings, table, and what it is a test of.

use anyhow::{bail, ensure, Result};

use super::{program_of, Figure, Measurement, Row, Setting};
use crate::perftest::table::Table;

/// Gb/s (10^9 bits) in MiB/s.
pub const MIB_S_PER_GB_S: f64 = 1e9 / 8.0 / 1_048_576.0;

/// All runs in a text. One file may hold several, one after the other.
pub fn parse(text: &str) -> Result<Vec<Measurement>> {
    let mut runs = Vec::new();
    let mut current: Option<(Measurement, Table)> = None;
    for line in text.lines() {
        if let Some((test, both_ways)) = program_of(line.trim()) {
            runs.extend(current.take().map(finish));
            let mut run = Measurement { test, ..Measurement::default() };
            if both_ways {
                run.settings.insert(Setting::Bidirectional, "yes".to_owned());
            }
            current = Some((run, Table::default()));
        }
        if let Some((run, table)) = current.as_mut() {
            run.raw += line;
            run.raw.push('\n');
            if !table.feed(line) && table.columns.is_empty() {
                run.settings.extend(settings(line));
                run.qpns.extend(qpn(line));
            }
        }
    }
    runs.extend(current.map(finish));
    ensure!(!runs.is_empty(), "it is no perftest output: no line such as `RDMA_Write BW Test`");
    if let Some(run) = runs.iter().find(|run| run.rows.is_empty()) {
        bail!(
            "the output of {} has no table: perftest must be run without --output and --perform_warm_up \
             options that hide it, and to its end",
            run.test
        );
    }
    Ok(runs)
}

/// The settings of a line such as ` Number of qps   : 1<tab><tab>Transport type : IB`.
fn settings(line: &str) -> Vec<(Setting, String)> {
    let pairs = line.split('\t').filter_map(|part| part.split_once(':'));
    pairs.filter_map(|(name, value)| Some((Setting::from_perftest(name)?, plain(value)))).collect()
}

/// The queue pair of a line such as ` local address: LID 0000 QPN 0x10011 PSN 0xb893ee`, of either side.
fn qpn(line: &str) -> Option<u32> {
    let (side, rest) = line.trim_start().split_once(" address:")?;
    let number = rest.split_once("QPN 0x")?.1.split(' ').next()?;
    ["local", "remote"].contains(&side).then(|| u32::from_str_radix(number, 16).ok())?
}

/// `1024[B]` is 1024.
pub fn plain(value: &str) -> String {
    let value = value.trim();
    value.strip_suffix("[B]").unwrap_or(value).trim().to_owned()
}

fn finish((mut run, table): (Measurement, Table)) -> Measurement {
    let meanings: Vec<_> = table.columns.iter().map(|title| meaning(title)).collect();
    let size = table.column("#bytes");
    for cells in &table.rows {
        let numbers: Vec<f64> = cells.iter().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        let Some(bytes) = size.map(|at| numbers[at]) else {
            continue;
        };
        let figures = meanings.iter().zip(&numbers);
        let figures = figures.filter_map(|(meaning, number)| {
            let (figure, factor) = (*meaning)?;
            Some((figure, number * factor))
        });
        run.rows.push(Row { bytes: bytes as u64, figures: figures.collect() });
    }
    run.note_iterations();
    run
}

/// What a column holds, and the factor to our unit.
fn meaning(title: &str) -> Option<(Figure, f64)> {
    let (name, unit) = title.split_once('[').unwrap_or((title, ""));
    let factor = match unit.trim_end_matches(']') {
        "Gb/sec" => MIB_S_PER_GB_S,
        // Cycles are no time without the frequency.
        "cycles" => return None,
        _ => 1.0,
    };
    let figure = Figure::from_perftest(name)?;
    Some((figure, factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Measurement {
        let mut runs = parse(text).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    #[test]
    fn settings_and_rows_of_a_bandwidth_test() {
        let run = one(include_str!("../../../../tests/perftest/send_bw_all.txt"));
        assert_eq!(run.test, "ib_send_bw");
        let setting = |setting| run.settings.get(&setting).map(String::as_str);
        assert_eq!(setting(Setting::Mtu), Some("4096"));
        assert_eq!(setting(Setting::TxDepth), Some("128"));
        assert_eq!(setting(Setting::CqModeration), Some("100"));
        assert_eq!(setting(Setting::Inline), Some("0"));
        assert_eq!(setting(Setting::Qps), Some("1"));
        assert_eq!(setting(Setting::Connection), Some("RC"));
        assert_eq!(setting(Setting::Iterations), Some("200"));
        assert_eq!(run.qpns.len(), 1);
        assert_eq!(run.rows.len(), 23);
        assert_eq!(run.points(Figure::BwAverage).len(), 23);
    }

    #[test]
    fn gigabits_become_mebibytes() {
        let run = one(include_str!("../../../../tests/perftest/write_bw_gbits.txt"));
        let row = &run.rows[0];
        let from_rate = row.figures[&Figure::MsgRate] * row.bytes as f64 * 1e6 / 1_048_576.0;
        let error = (row.figures[&Figure::BwAverage] / from_rate - 1.0).abs();
        assert!(error < 1e-3, "{row:?} against {from_rate}");
    }

    #[test]
    fn latencies_by_count_and_by_duration() {
        let run = one(include_str!("../../../../tests/perftest/write_lat.txt"));
        assert_eq!((run.test.as_str(), run.rows[0].bytes), ("ib_write_lat", 8));
        assert_eq!(run.rows[0].figures.len(), 8);
        let run = one(include_str!("../../../../tests/perftest/send_lat_duration.txt"));
        assert_eq!(run.points(Figure::LatAverage).len(), 1);
        assert!(run.points(Figure::LatTypical).is_empty());
    }

    #[test]
    fn several_runs_in_a_file() {
        let both = [
            include_str!("../../../../tests/perftest/write_lat.txt"),
            include_str!("../../../../tests/perftest/read_lat.txt"),
        ]
        .concat();
        let names: Vec<_> = parse(&both).unwrap().into_iter().map(|run| run.test).collect();
        assert_eq!(names, ["ib_write_lat", "ib_read_lat"]);
    }

    #[test]
    fn other_texts_are_refused() {
        assert!(parse("hello").unwrap_err().to_string().contains("no perftest output"));
        let cut = "                    RDMA_Write BW Test\n Mtu             : 1024[B]\n";
        assert!(parse(cut).unwrap_err().to_string().contains("has no table"));
    }
}
