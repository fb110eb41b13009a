//! perftest's `--out_json` files.
//!
//! perftest 4.5 writes keys and words without quotation marks and commas before closing braces;
//! since its change "Make output JSON standard" it is JSON. Both put one pair on a line, so what is
//! not JSON is read by lines. A file holds one size only: perftest rewrites it for each.

use anyhow::{bail, ensure, Result};
use serde_json::{Map, Value};

use super::text::{plain, MIB_S_PER_GB_S};
use super::{program_of, Figure, Measurement, Row, Setting};

/// Name and value of each line, in one of the two parts.
type Pairs = Vec<(String, String)>;

/// All results in a file: one, or several such files one after the other.
pub fn parse(text: &str) -> Result<Vec<Measurement>> {
    let objects: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let reports = match objects {
        Ok(objects) => objects.iter().map(standard).collect::<Result<Vec<_>>>()?,
        Err(_) => by_lines(text),
    };
    ensure!(!reports.is_empty(), "it holds no report of perftest's --out_json: no `test_info` and `results`");
    reports.iter().map(|(info, results)| measurement(info, results)).collect()
}

fn standard(object: &Value) -> Result<(Pairs, Pairs)> {
    let part = |name: &str| object.get(name).and_then(Value::as_object);
    let (Some(info), Some(results)) = (part("test_info"), part("results")) else {
        bail!("it is JSON, but no report of perftest's --out_json: no `test_info` and `results`");
    };
    Ok((pairs(info), pairs(results)))
}

fn pairs(map: &Map<String, Value>) -> Pairs {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    map.iter().map(|(name, value)| (name.clone(), word(value))).collect()
}

/// The form of perftest 4.5.
fn by_lines(text: &str) -> Vec<(Pairs, Pairs)> {
    let mut reports: Vec<(Pairs, Pairs)> = Vec::new();
    let mut in_results = false;
    for line in text.lines() {
        let unquoted = |word: &str| word.trim().trim_matches('"').trim().to_owned();
        let Some((name, value)) = line.trim().trim_end_matches(',').split_once(':') else {
            continue;
        };
        let (name, value) = (unquoted(name), unquoted(value));
        match (name.as_str(), value.as_str()) {
            ("test_info", "{") => {
                reports.push(Default::default());
                in_results = false;
            }
            ("results", "{") => in_results = true,
            _ => {
                if let Some((info, results)) = reports.last_mut() {
                    if in_results { results } else { info }.push((name, value));
                }
            }
        }
    }
    reports
}

fn measurement(info: &Pairs, results: &Pairs) -> Result<Measurement> {
    let title = info.iter().find(|(name, _)| name == "test").map(|(_, title)| title.as_str());
    let Some((test, both_ways)) = title.and_then(program_of) else {
        bail!("its `test` is {title:?}, which is no test of perftest that can be compared");
    };
    let settings =
        info.iter().filter_map(|(name, value)| Some((Setting::from_perftest(name)?, plain(value))));
    let mut run = Measurement { test, settings: settings.collect(), ..Measurement::default() };
    if both_ways {
        run.settings.insert(Setting::Bidirectional, "yes".to_owned());
    }
    let number = |wanted: &str| -> Option<f64> {
        results.iter().find(|(name, _)| name == wanted).and_then(|(_, value)| value.parse().ok())
    };
    let Some(bytes) = number("MsgSize") else {
        bail!("its results have no `MsgSize`: run perftest without --output");
    };
    let mut row = Row { bytes: bytes as u64, ..Row::default() };
    row.figures.extend(
        results.iter().filter_map(|(name, value)| Some((Figure::from_perftest(name)?, value.parse().ok()?))),
    );
    ensure!(!row.figures.is_empty(), "its results have none of perftest's figures");
    if is_gigabits(&row) {
        for figure in [Figure::BwPeak, Figure::BwAverage] {
            row.figures.entry(figure).and_modify(|value| *value *= MIB_S_PER_GB_S);
        }
    }
    run.rows.push(row);
    run.note_iterations();
    Ok(run)
}

/// The file does not say its unit (`--report_gbits`), but the message rate does: bandwidth is rate
/// times size, and the two units are a factor of 119 apart.
fn is_gigabits(row: &Row) -> bool {
    let (Some(average), Some(rate)) =
        (row.figures.get(&Figure::BwAverage), row.figures.get(&Figure::MsgRate))
    else {
        return false;
    };
    let mib_s = rate * 1e6 * row.bytes as f64 / 1_048_576.0;
    mib_s > 0.0 && *average > 0.0 && *average < mib_s / MIB_S_PER_GB_S.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::text;

    fn one(text: &str) -> Measurement {
        let mut runs = parse(text).unwrap();
        assert_eq!(runs.len(), 1);
        runs.remove(0)
    }

    /// What the same run printed says the same, to the printed digits.
    fn agrees(json: &str, printed: &str) {
        let (json, printed) = (one(json), text::parse(printed).unwrap().pop().unwrap());
        assert_eq!(json.test, printed.test);
        for (setting, value) in &printed.settings {
            assert_eq!(json.settings.get(setting), Some(value), "{setting:?}");
        }
        let last = printed.rows.last().unwrap();
        assert_eq!(json.rows, std::slice::from_ref(last));
    }

    #[test]
    fn old_form_as_perftest_4_5_wrote_it() {
        let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/perftest");
        for name in ["send_bw_all", "write_lat", "send_lat_duration", "write_bw_gbits"] {
            let read = |form: &str| std::fs::read_to_string(format!("{files}/{name}.{form}")).unwrap();
            agrees(&read("json"), &read("txt"));
        }
    }

    #[test]
    fn new_form() {
        let run = one(include_str!("../../../../tests/perftest/new-form/write_bw.json"));
        assert_eq!((run.test.as_str(), run.rows[0].bytes), ("ib_write_bw", 65536));
        assert_eq!(run.settings[&Setting::Mtu], "1024");
        assert_eq!(run.rows[0].figures[&Figure::BwAverage], 1103.38);
        let run = one(include_str!("../../../../tests/perftest/new-form/read_lat.json"));
        assert_eq!(run.test, "ib_read_lat");
        assert_eq!(run.rows[0].figures[&Figure::Lat999], 2.61);
        assert_eq!(run.settings[&Setting::OutstandingReads], "16");
    }

    #[test]
    fn several_files_in_one() {
        let old = include_str!("../../../../tests/perftest/write_lat.json");
        assert_eq!(parse(&[old, old].concat()).unwrap().len(), 2);
        let new = include_str!("../../../../tests/perftest/new-form/write_bw.json");
        assert_eq!(parse(&[new, new].concat()).unwrap().len(), 2);
    }

    #[test]
    fn other_files_are_refused() {
        for (text, why) in [
            ("{}", "no `test_info`"),
            ("{\ntest_info: {\ntest: Nothing,\n},\nresults: {\n},\n}\n", "no test of perftest"),
            ("{\ntest_info: {\ntest: Send_BW_Test,\n},\nresults: {\nbw_avg: 1.0,\n},\n}\n", "no `MsgSize`"),
            ("", "no report"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
