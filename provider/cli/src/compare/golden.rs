//! A result kept for later: `--save FILE`, and `--check FILE` against it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};

use super::matrix::Set;
use super::plan::Done;
use crate::args::Clock;
use crate::measured::{Figure, Row};

const FORMAT: &str = "verbena compare 1";

/// The file, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// What it is.
    format: String,
    /// How the runs were made: `--check` makes them so again.
    pub clock: Clock,
    /// As `--set`.
    pub set: Set,
    /// As `--card`.
    pub cards: Vec<String>,
    /// As `--tests`.
    pub tests: Vec<String>,
    /// The results.
    runs: Vec<GoldenRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GoldenRun {
    card: String,
    command: String,
    rows: Vec<Row>,
}

/// A figure that is not what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    card: String,
    command: String,
    bytes: Option<u64>,
    figure: Option<Figure>,
    old: Option<f64>,
    new: Option<f64>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.command, self.card)?;
        if let Some(bytes) = self.bytes {
            write!(f, ", {bytes} bytes")?;
        }
        let Some(figure) = self.figure else {
            let (was, is) =
                if self.new.is_none() { ("was there", "is gone") } else { ("was not there", "is new") };
            return write!(f, ": it {was}, and {is}");
        };
        let value = |value: Option<f64>| value.map_or("none".to_owned(), |value| value.to_string());
        write!(f, ": {figure} was {}, is {}", value(self.old), value(self.new))?;
        match (self.old, self.new) {
            (Some(old), Some(new)) if old != 0.0 => write!(f, " ({:+.3} %)", (new / old - 1.0) * 100.0),
            _ => Ok(()),
        }
    }
}

impl Golden {
    /// Of what was run.
    pub fn of(clock: Clock, set: Set, cards: &[String], tests: &[String], done: &[Done]) -> Golden {
        let run = |done: &Done| GoldenRun {
            card: done.cell.card.clone(),
            command: done.cell.line(),
            rows: done.run.rows.clone(),
        };
        Golden {
            format: FORMAT.to_owned(),
            clock,
            set,
            cards: cards.to_vec(),
            tests: tests.to_vec(),
            runs: done.iter().map(run).collect(),
        }
    }

    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("--save: writing {}", path.display()))
    }

    pub fn load(path: &Path) -> Result<Golden> {
        let text =
            fs::read_to_string(path).with_context(|| format!("--check: reading {}", path.display()))?;
        let golden: Golden = serde_json::from_str(&text)
            .with_context(|| format!("--check: {} was not written by --save", path.display()))?;
        ensure!(
            golden.format == FORMAT,
            "--check: {} is of format `{}`, not `{FORMAT}`: write it again with --save",
            path.display(),
            golden.format
        );
        Ok(golden)
    }

    /// What differs in `new` by more than `tolerance` (0.01 is 1 %), of the runs that were planned: by card and command.
    pub fn changes(&self, new: &Golden, planned: BTreeSet<(String, String)>, tolerance: f64) -> Vec<Change> {
        let mut changes = Vec::new();
        for (card, command) in planned {
            let change = Change { card, command, bytes: None, figure: None, old: None, new: None };
            let rows = |golden: &Golden| {
                let same = |run: &&GoldenRun| run.card == change.card && run.command == change.command;
                golden.runs.iter().find(same).map(|run| run.rows.clone())
            };
            match (rows(self), rows(new)) {
                (Some(old), Some(new)) => row_changes(&change, &old, &new, tolerance, &mut changes),
                // It failed both times.
                (None, None) => {}
                (old, new) => changes.push(Change { old: old.map(|_| 0.0), new: new.map(|_| 0.0), ..change }),
            }
        }
        changes
    }
}

fn row_changes(change: &Change, old: &[Row], new: &[Row], tolerance: f64, changes: &mut Vec<Change>) {
    let sizes: BTreeSet<u64> = old.iter().chain(new).map(|row| row.bytes).collect();
    for bytes in sizes {
        for figure in Figure::all() {
            let value = |rows: &[Row]| {
                rows.iter().find(|row| row.bytes == bytes).and_then(|row| row.figures.get(&figure).copied())
            };
            let (old, new) = (value(old), value(new));
            let same = match (old, new) {
                // Reading back a number may be off by its last bit.
                (Some(old), Some(new)) => (new - old).abs() <= old.abs() * tolerance.max(1e-12),
                _ => old == new,
            };
            if !same {
                changes.push(Change { bytes: Some(bytes), figure: Some(figure), old, new, ..change.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(value: f64) -> Golden {
        let mut row = Row { bytes: 64, ..Row::default() };
        row.figures.insert(Figure::BwAverage, value);
        let run = GoldenRun { card: "f10a".into(), command: "ib_write_bw -a".into(), rows: vec![row] };
        Golden { runs: vec![run], ..Golden::of(Clock::Virtual, Set::Quick, &[], &[], &[]) }
    }

    fn planned() -> BTreeSet<(String, String)> {
        BTreeSet::from([("f10a".to_owned(), "ib_write_bw -a".to_owned())])
    }

    #[test]
    fn a_change_is_named_with_old_and_new() {
        let changes = golden(100.0).changes(&golden(101.5), planned(), 0.0);
        let said: Vec<String> = changes.iter().map(Change::to_string).collect();
        assert_eq!(said, ["ib_write_bw -a on f10a, 64 bytes: bw_avg_mib_s was 100, is 101.5 (+1.500 %)"]);
        assert!(golden(100.0).changes(&golden(101.5), planned(), 0.02).is_empty());
        assert!(golden(171.23).changes(&golden(171.23), planned(), 0.0).is_empty());
    }

    #[test]
    fn lost_runs_and_rows_are_changes() {
        let empty = Golden { runs: Vec::new(), ..golden(1.0) };
        let changes = golden(1.0).changes(&empty, planned(), 0.5);
        assert!(changes[0].to_string().ends_with("it was there, and is gone"), "{}", changes[0]);
        let mut less = golden(1.0);
        less.runs[0].rows.clear();
        let changes = golden(1.0).changes(&less, planned(), 0.5);
        assert!(changes[0].to_string().ends_with("was 1, is none"), "{}", changes[0]);
    }

    /// With fewer cards or tests than the file was made with, only those are compared.
    #[test]
    fn what_is_not_run_is_no_change() {
        let mut more = golden(1.0);
        more.runs.push(GoldenRun { card: "cx4lx".into(), ..more.runs[0].clone() });
        more.runs.push(GoldenRun { command: "ib_read_bw -a".into(), ..more.runs[0].clone() });
        assert!(more.changes(&golden(1.0), planned(), 0.0).is_empty());
        assert_eq!(more.changes(&golden(2.0), planned(), 0.0).len(), 1);
        let empty = Golden { runs: Vec::new(), ..golden(1.0) };
        assert_eq!(more.changes(&empty, planned(), 0.0).len(), 1, "it failed");
        assert!(empty.changes(&empty, planned(), 0.0).is_empty(), "it failed before, too");
    }

    #[test]
    fn it_comes_back_from_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("golden.json");
        golden(0.1 + 0.2).save(&path).unwrap();
        assert!(Golden::load(&path).unwrap().changes(&golden(0.1 + 0.2), planned(), 0.0).is_empty());
        fs::write(&path, "{}").unwrap();
        assert!(format!("{:#}", Golden::load(&path).unwrap_err()).contains("was not written by --save"));
    }
}
