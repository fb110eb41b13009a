//! What CONTRIBUTING.md says of the sources: short files, no large cycles of imports, folders with a table, and few words
//! of our own.

#[path = "house/cycles.rs"]
mod cycles;
#[path = "house/modules.rs"]
mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tests::stock::repository;

use cycles::cycles;
use modules::Crate;

const MOST_LINES: usize = 400;
/// Files in a cycle of imports.
const MOST_IN_A_CYCLE: usize = 3;
/// Files of a folder without a table.
const MOST_WITHOUT_A_TABLE: usize = 8;
const MOST_WORDS: usize = 60;

/// Written by a program.
const GENERATED: [&str; 0] = [];

/// Files whose importers are not counted: what they hold is implemented, or listed, in several files on purpose.
const AGGREGATES: &[(&str, &str)] = &[
    ("model/src/segment/mod.rs", "`Segment`, with methods in each file that serves it"),
    ("model/src/segment/reach/mod.rs", "`Reach`, with methods in each file that reaches memory"),
    (
        "model/src/segment/layout.rs",
        "the table of what is in the segment, by the types of the files that use it",
    ),
    (
        "model/src/sim/state.rs",
        "`Sim`, the state of simulated time, of which each file of `sim` changes its part",
    ),
];

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn name(path: &Path) -> String {
    path.strip_prefix(repository()).unwrap_or(path).display().to_string()
}

fn stem(path: impl AsRef<Path>) -> String {
    path.as_ref().file_stem().expect("a name").to_string_lossy().into_owned()
}

fn crates() -> Vec<PathBuf> {
    let manifest = text(&repository().join("Cargo.toml"));
    let members = manifest.lines().find(|line| line.starts_with("members")).expect("members");
    members.split('"').skip(1).step_by(2).map(|member| repository().join(member).join("src")).collect()
}

/// All folders with Rust files below those, with their files.
fn folders() -> Vec<(PathBuf, Vec<PathBuf>)> {
    let (mut open, mut found) = (crates(), Vec::new());
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let (inner, files): (Vec<_>, Vec<_>) =
            entries.flatten().map(|entry| entry.path()).partition(|path| path.is_dir());
        let sources = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
        found.push((folder, sources.collect()));
        open.extend(inner);
    }
    found
}

#[track_caller]
fn nothing(what: &[String]) {
    assert!(
        what.is_empty(),
        "{}",
        what.join(
            "
"
        )
    );
}

#[test]
fn files_are_short() {
    let mut long: Vec<String> = folders()
        .into_iter()
        .flat_map(|(_, files)| files)
        .map(|file| (text(&file).lines().count(), name(&file)))
        .filter(|(lines, file)| *lines > MOST_LINES && !GENERATED.contains(&file.as_str()))
        .map(|(lines, file)| format!("{file} has {lines} lines, more than {MOST_LINES}"))
        .collect();
    long.sort();
    nothing(&long);
}

#[test]
fn imports_have_no_large_cycles() {
    let mut said = Vec::new();
    for folder in crates() {
        for file in ["lib.rs", "main.rs"].map(|file| folder.join(file)) {
            if !file.exists() {
                continue;
            }
            let this = Crate::read(&file);
            let imports = this.imports();
            let aggregate = |file: usize| AGGREGATES.iter().any(|(hub, _)| name(&this.files[file]) == *hub);
            let edges: Vec<_> = imports.keys().copied().filter(|&(_, to)| !aggregate(to)).collect();
            for cycle in cycles(this.files.len(), &edges) {
                if cycle.len() <= MOST_IN_A_CYCLE {
                    continue;
                }
                said.push(format!("a cycle of {} files:", cycle.len()));
                for (from, to) in edges.iter().filter(|(a, b)| cycle.contains(a) && cycle.contains(b)) {
                    let [a, b] = [from, to].map(|&file| name(&this.files[file]));
                    said.push(format!("    {a} -> {b} ({})", imports[&(*from, *to)]));
                }
            }
        }
    }
    nothing(&said);
}

#[test]
fn aggregates_are_there() {
    for (file, reason) in AGGREGATES {
        assert!(repository().join(file).exists() && !reason.is_empty(), "{file} is no file");
    }
}

#[test]
fn large_folders_have_a_table() {
    let mut missing = Vec::new();
    for (folder, files) in folders() {
        if files.len() <= MOST_WITHOUT_A_TABLE {
            continue;
        }
        let fronts = ["mod.rs", "lib.rs", "main.rs"].map(|front| folder.join(front));
        let Some(front) = fronts.iter().find(|front| front.exists()) else {
            missing.push(format!("{} has no mod.rs", name(&folder)));
            continue;
        };
        let front_text = text(front);
        let rows = front_text.lines().filter(|line| line.starts_with("//! |"));
        let named: BTreeSet<&str> =
            rows.flat_map(|row| row.split(|c: char| !(c.is_alphanumeric() || c == '_'))).collect();
        let lost: Vec<String> = files
            .iter()
            .filter(|file| !fronts.contains(file))
            .map(stem)
            .filter(|file| !file.ends_with("_tests") && !named.contains(file.as_str()))
            .collect();
        if !lost.is_empty() {
            missing.push(format!("the table of {} does not name {}", name(front), lost.join(", ")));
        }
    }
    missing.sort();
    nothing(&missing);
}

/// The words of docs/glossary.md: the first cell of each row, in backticks or not.
#[test]
fn the_glossary_is_short_and_true() {
    let page = text(&repository().join("docs/glossary.md"));
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|-"));
    let words: Vec<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .map(|word| word.trim().trim_matches(['`', '*']))
        .collect();
    // The head of each table is no word.
    let words: Vec<&str> = words.into_iter().filter(|word| !matches!(*word, "word" | "term" | "")).collect();
    assert!((5..MOST_WORDS).contains(&words.len()), "{} words, not less than {MOST_WORDS}", words.len());
    let sources: String = folders().iter().flat_map(|(_, files)| files).map(|file| text(file)).collect();
    let sources = sources.to_lowercase();
    let unused: Vec<_> = words.iter().filter(|word| !sources.contains(&word.to_lowercase())).collect();
    assert!(unused.is_empty(), "words that no source uses: {unused:?}");
}

/// `tests/check` runs `stock` beside the tests of other names, for which cargo takes patterns but no exception.
#[test]
fn no_other_test_begins_as_stock_does() {
    let entries = crates().into_iter().filter_map(|source| fs::read_dir(source.with_file_name("tests")).ok());
    let names: Vec<String> = entries.flatten().flatten().map(|entry| stem(entry.path())).collect();
    let lost: Vec<_> = names.into_iter().filter(|name| name.starts_with("st") && name != "stock").collect();
    nothing(&lost);
}

#[test]
fn cycles_are_found() {
    assert_eq!(
        cycles(6, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 0)]),
        [vec![3, 4], vec![0, 1, 2]]
    );
    assert!(cycles(3, &[(0, 1), (1, 2), (0, 2)]).is_empty());
}
