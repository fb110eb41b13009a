//! A user's own measurements: `--add FILE=LABEL`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::measured::{json, text, Measurement};

/// Measurements with a name.
#[derive(Clone, Debug)]
pub struct Added {
    /// As on the command line.
    pub label: String,
    /// By test and settings.
    pub runs: Vec<Measurement>,
}

/// Reads all `FILE=LABEL`. Files of the same label become one curve: `--out_json` has one size a file.
pub fn read(arguments: &[String]) -> Result<Vec<Added>> {
    let mut all: Vec<Added> = Vec::new();
    for argument in arguments {
        let (path, label) = split(argument);
        let bytes = fs::read(path).with_context(|| format!("--add: reading {path}"))?;
        let content = String::from_utf8_lossy(&bytes);
        let parse = if content.trim_start().starts_with('{') { json::parse } else { text::parse };
        let mut runs = parse(&content).with_context(|| format!("--add: {path}"))?;
        for run in runs.iter_mut().filter(|run| run.raw.is_empty()) {
            run.raw = content.clone().into_owned();
        }
        let at = all.iter().position(|added| added.label == label).unwrap_or_else(|| {
            all.push(Added { label: label.to_owned(), runs: Vec::new() });
            all.len() - 1
        });
        for run in runs {
            join(&mut all[at].runs, run);
        }
    }
    Ok(all)
}

/// `FILE=LABEL`; without a label it is the file's name.
fn split(argument: &str) -> (&str, &str) {
    match argument.rsplit_once('=') {
        Some((path, label)) if !label.is_empty() && !label.contains('/') => (path, label),
        _ => (argument, Path::new(argument).file_name().and_then(|name| name.to_str()).unwrap_or(argument)),
    }
}

fn join(runs: &mut Vec<Measurement>, new: Measurement) {
    let settings = |run: &Measurement| {
        run.settings
            .iter()
            .filter(|(setting, _)| setting.matters())
            .map(|(s, v)| (*s, v.clone()))
            .collect::<Vec<_>>()
    };
    match runs.iter_mut().find(|run| run.test == new.test && settings(run) == settings(&new)) {
        Some(run) => {
            run.rows.extend(new.rows);
            run.rows.sort_by_key(|row| row.bytes);
            if run.raw != new.raw {
                run.raw += &new.raw;
            }
        }
        None => runs.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_follows_the_last_equals_sign() {
        assert_eq!(split("a/b=c.txt=my card"), ("a/b=c.txt", "my card"));
        assert_eq!(split("a/b.txt"), ("a/b.txt", "b.txt"));
        assert_eq!(split("a=b/c.txt"), ("a=b/c.txt", "c.txt"));
    }

    #[test]
    fn sizes_of_one_label_are_joined() {
        let dir = tempfile::tempdir().unwrap();
        let form = include_str!("../../../../tests/perftest/new-form/write_bw.json");
        let mut arguments = Vec::new();
        for size in ["65536", "2048"] {
            let path = dir.path().join(size);
            fs::write(&path, form.replace("65536", size)).unwrap();
            arguments.push(format!("{}=card", path.display()));
        }
        let added = read(&arguments).unwrap();
        assert_eq!((added.len(), added[0].runs.len()), (1, 1));
        let sizes: Vec<u64> = added[0].runs[0].rows.iter().map(|row| row.bytes).collect();
        assert_eq!(sizes, [2048, 65536]);
    }
}
