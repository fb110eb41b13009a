//! Published measurements: CSV files with their settings in comments.
//!
//! Two forms. The table of one test: its columns are perftest's, and the comments name the program.
//! A list of single figures: `test,bytes,value,unit,msg_rate_mpps`.

use std::collections::BTreeMap;

use anyhow::{bail, ensure, Context, Result};

use crate::measured::{Figure, Measurement, Row, Setting};

/// A published set of measurements.
#[derive(Clone, Debug)]
pub struct Published {
    /// The card's name, the comments' first words.
    pub label: String,
    /// Profile of that card, where there is one.
    pub card: Option<&'static str>,
    /// By test.
    pub runs: Vec<Measurement>,
}

/// What is in the program: the profile that it measures, name and text of the file.
const BUILT_IN: [(&str, &str, &str); 2] = [
    (
        "cx4lx",
        "cx4lx-10g-ib_send_bw.csv",
        include_str!("../../../../tests/reference/cx4lx-10g-ib_send_bw.csv"),
    ),
    ("cx3", "cx3-ib40-perftest.csv", include_str!("../../../../tests/reference/cx3-ib40-perftest.csv")),
];

/// The measurements that come with the program.
pub fn built_in() -> Result<Vec<Published>> {
    let read = |(card, name, text): (&'static str, &str, &str)| {
        let published = parse(text).with_context(|| name.to_owned())?;
        Ok(Published { card: Some(card), ..published })
    };
    BUILT_IN.into_iter().map(read).collect()
}

/// Reads a file of either form.
pub fn parse(text: &str) -> Result<Published> {
    let (comments, lines): (Vec<&str>, Vec<&str>) =
        text.lines().filter(|line| !line.trim().is_empty()).partition(|line| line.starts_with('#'));
    let comments =
        comments.iter().map(|line| line.trim_start_matches('#').trim()).collect::<Vec<_>>().join(" ");
    let mut lines = lines.into_iter();
    let titles: Vec<&str> =
        lines.next().context("it has no line of column titles")?.split(',').map(str::trim).collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').map(str::trim).collect()).collect();
    if let Some(row) = rows.iter().find(|row| row.len() != titles.len()) {
        bail!("`{}` has {} fields; the titles are {}", row.join(","), row.len(), titles.len());
    }
    let mut runs = match titles.first() {
        Some(&"bytes") => vec![table(&comments, &titles, &rows)?],
        Some(&"test") => list(&titles, &rows)?,
        _ => bail!("its first column must be `bytes` (the table of one test) or `test` (a list of figures)"),
    };
    for run in &mut runs {
        run.settings = settings(&comments);
        run.raw = text.to_owned();
        run.rows.sort_by_key(|row| row.bytes);
    }
    let label = comments.split([',', '(']).next().unwrap_or("").trim();
    ensure!(!label.is_empty(), "its first line must be a comment (`# `) that begins with the card's name");
    Ok(Published { label: label.to_owned(), card: None, runs })
}

fn table(comments: &str, titles: &[&str], rows: &[Vec<&str>]) -> Result<Measurement> {
    let test = comments.split([' ', ',']).find(|word| word.starts_with("ib_"));
    let test = test.context("its comments must name the perftest program (ib_write_bw ...)")?;
    let figures: Vec<Option<Figure>> =
        titles.iter().map(|title| Figure::all().find(|figure| figure.name() == *title)).collect();
    if figures.iter().flatten().next().is_none() {
        let known: Vec<_> = Figure::all().map(|figure| figure.name()).collect();
        bail!("it has none of the columns {}", known.join(", "));
    }
    let row = |cells: &Vec<&str>| -> Result<Row> {
        let mut row = Row { bytes: number(cells[0])? as u64, ..Row::default() };
        for (figure, cell) in figures.iter().zip(cells) {
            if let Some(figure) = figure.filter(|_| !cell.is_empty()) {
                row.figures.insert(figure, number(cell)?);
            }
        }
        Ok(row)
    };
    let rows = rows.iter().map(row).collect::<Result<_>>()?;
    Ok(Measurement { test: test.to_owned(), rows, ..Measurement::default() })
}

fn list(titles: &[&str], rows: &[Vec<&str>]) -> Result<Vec<Measurement>> {
    let column = |name: &str| {
        titles.iter().position(|title| *title == name).with_context(|| format!("it has no column `{name}`"))
    };
    let (bytes, value, unit) = (column("bytes")?, column("value")?, column("unit")?);
    let rate = column("msg_rate_mpps").ok();
    let mut runs: BTreeMap<&str, Measurement> = BTreeMap::new();
    for cells in rows {
        let figure = match cells[unit] {
            "MiB/s" => Figure::BwAverage,
            "us_typ" => Figure::LatTypical,
            "us_avg" => Figure::LatAverage,
            other => bail!("there is no unit `{other}`: MiB/s, us_typ (median) or us_avg"),
        };
        let mut row = Row { bytes: number(cells[bytes])? as u64, ..Row::default() };
        row.figures.insert(figure, number(cells[value])?);
        if let Some(rate) = rate.map(|at| cells[at]).filter(|cell| !cell.is_empty()) {
            row.figures.insert(Figure::MsgRate, number(rate)?);
        }
        let run = runs.entry(cells[0]).or_default();
        run.test = cells[0].to_owned();
        run.rows.push(row);
    }
    Ok(runs.into_values().collect())
}

fn number(cell: &str) -> Result<f64> {
    cell.parse().ok().with_context(|| format!("`{cell}` is no number"))
}

/// The settings that the comments name, as `MTU 1024` or `Inline limit of the run: 220`.
fn settings(comments: &str) -> BTreeMap<Setting, String> {
    let words: Vec<String> = comments
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
        .filter(|word| !word.is_empty())
        .map(|word| word.trim_end_matches('.').to_lowercase())
        .collect();
    let is_number = |word: &&String| word.bytes().all(|byte| byte.is_ascii_digit());
    // The number that follows the words, a few words later at most.
    let after = |name: &[&str]| {
        let at = words.windows(name.len()).position(|window| window == name)?;
        words[at + name.len()..].iter().take(5).find(is_number).cloned()
    };
    let before = |name: &[&str]| {
        let at = words.windows(name.len()).position(|window| window == name)?;
        words.get(at.checked_sub(1)?).filter(is_number).cloned()
    };
    let connection = ["rc", "uc", "ud"].into_iter().find(|kind| words.iter().any(|word| word == kind));
    let found = [
        (Setting::Mtu, after(&["mtu"])),
        (Setting::TxDepth, after(&["tx", "depth"])),
        (Setting::CqModeration, after(&["cq", "moderation"])),
        (Setting::Inline, after(&["inline"])),
        (Setting::Qps, before(&["qp"])),
        (Setting::Iterations, before(&["iterations"])),
        (Setting::Connection, connection.map(str::to_uppercase)),
    ];
    found.into_iter().filter_map(|(setting, value)| Some((setting, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_one_test() {
        let published = &built_in().unwrap()[0];
        assert_eq!(published.label, "ConnectX-4 Lx EN 10GbE");
        let run = &published.runs[0];
        assert_eq!((run.test.as_str(), run.rows.len()), ("ib_send_bw", 23));
        assert_eq!(run.rows[8].bytes, 512);
        assert_eq!(run.rows[8].figures[&Figure::BwAverage], 1003.98);
        let setting = |setting| run.settings[&setting].as_str();
        assert_eq!(setting(Setting::Mtu), "1024");
        assert_eq!(setting(Setting::TxDepth), "128");
        assert_eq!(setting(Setting::CqModeration), "100");
        assert_eq!(setting(Setting::Inline), "0");
        assert_eq!(setting(Setting::Qps), "1");
        assert_eq!(setting(Setting::Iterations), "1000");
        assert_eq!(setting(Setting::Connection), "RC");
    }

    #[test]
    fn a_list_of_figures() {
        let published = &built_in().unwrap()[1];
        assert_eq!(published.label, "ConnectX-3");
        let latency = published.runs.iter().find(|run| run.test == "ib_write_lat").unwrap();
        assert_eq!(latency.points(Figure::LatTypical)[..2], [(2.0, 0.98), (128.0, 1.22)]);
        assert_eq!(latency.settings[&Setting::Inline], "220");
        assert_eq!(latency.settings[&Setting::Mtu], "2048");
    }

    #[test]
    fn damaged_files_are_refused() {
        for (text, why) in [
            ("", "no line of column titles"),
            ("# Card, ib_send_bw\nsize,bw\n1,2\n", "first column"),
            ("# Card\nbytes,bw_avg_mib_s\n1,2\n", "must name the perftest program"),
            ("# Card, ib_send_bw\nbytes,bw_avg_mib_s\n1,x\n", "`x` is no number"),
            ("# Card, ib_send_bw\nbytes,bw_avg_mib_s\n1,2,3\n", "3 fields"),
            ("# Card\ntest,bytes,value,unit\nib_send_bw,2,1,furlongs\n", "furlongs"),
            ("bytes,bw_avg_mib_s\n1,2\n", "must name the perftest program"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
