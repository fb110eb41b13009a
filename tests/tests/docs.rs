//! The documentation: a complete table of contents, links that lead somewhere, short pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use tests::stock::repository;

/// Written by a program, as long as what they list.
const GENERATED: [&str; 3] = ["registers.md", "wqe.md", "admin.md"];
const MOST_LINES: usize = 400;

/// All Markdown files below a directory, as paths relative to `base`.
fn pages(directory: &Path, base: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a readable directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages(&path, base, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path.strip_prefix(base).expect("below the base").to_owned());
        }
    }
}

fn book() -> BTreeSet<PathBuf> {
    let docs = repository().join("docs");
    let mut found = BTreeSet::new();
    pages(&docs, &docs, &mut found);
    found
}

/// The text without fenced code, whose brackets are no links.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            out += line;
        }
        out.push('\n');
    }
    out
}

/// The targets of `[text](target)` and `![text](target)`.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.trim().to_owned()).collect()
}

/// The anchors that a page offers, as renderers make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    headings.map(|line| line.trim_start_matches('#').trim().chars().filter_map(kept).collect()).collect()
}

/// `path` without `.` and `..`, or none where it leads out of the repository.
fn within(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !out.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out.starts_with(repository()).then_some(out)
}

#[test]
fn the_table_of_contents_is_complete() {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("docs/SUMMARY.md");
    let listed: Vec<PathBuf> = links(&summary).iter().map(PathBuf::from).collect();
    let unique: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    assert_eq!(listed.len(), unique.len(), "SUMMARY.md lists a page twice");
    let mut there = book();
    there.remove(Path::new("SUMMARY.md"));
    let missing: Vec<_> = there.difference(&unique).collect();
    let gone: Vec<_> = unique.difference(&there).collect();
    assert!(missing.is_empty(), "pages that SUMMARY.md does not list: {missing:?}");
    assert!(gone.is_empty(), "SUMMARY.md lists what is not there: {gone:?}");
}

#[test]
fn links_lead_somewhere() {
    let root = repository();
    let mut files: Vec<PathBuf> = book().into_iter().map(|page| root.join("docs").join(page)).collect();
    files.extend([root.join("README.md"), root.join("CONTRIBUTING.md")]);
    let mut broken = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a readable page");
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => Some(file.clone()),
                path => within(&file.parent().expect("a directory").join(path)),
            };
            let good = target.is_some_and(|target| {
                let page = || anchors(&fs::read_to_string(&target).unwrap_or_default());
                target.exists() && (anchor.is_empty() || page().contains(anchor))
            });
            if !good {
                broken
                    .push(format!("{}: {link}", file.strip_prefix(root).expect("below the root").display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// In each row what is named in backticks is defined in one of the files that the row links to.
#[test]
fn what_the_guide_names_is_there() {
    let page = repository().join("docs/finding-your-way.md");
    let text = fs::read_to_string(&page).expect("the page");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && line.contains("](")).collect();
    assert!(rows.len() >= 7, "{} rows", rows.len());
    let mut named = 0;
    for row in rows {
        let sources: Vec<String> = links(row)
            .iter()
            .filter_map(|link| within(&page.parent().expect("a directory").join(link)))
            .filter_map(|path| fs::read_to_string(path).ok())
            .collect();
        let answer = row.trim_end_matches('|').rsplit_once('|').map_or(row, |(_, answer)| answer);
        let is_name =
            |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !word.is_empty();
        for name in answer.split('`').skip(1).step_by(2).filter(is_name) {
            named += 1;
            // A function, a type, a trait, or an open set of values as `fpga-regs` declares it.
            let forms = [
                format!("fn {name}("),
                format!("fn {name}<"),
                format!("struct {name}<"),
                format!("trait {name} {{"),
                format!("    {name}: u8 {{"),
            ];
            let defines = |source: &String| forms.iter().any(|form| source.contains(form));
            assert!(sources.iter().any(defines), "`{name}` is in none of the files of the row\n{row}");
        }
    }
    assert!(named >= 10, "{named} names");
}

#[test]
fn pages_are_short_and_open_with_a_sentence() {
    let docs = repository().join("docs");
    let mut bad = Vec::new();
    for page in book() {
        let text = fs::read_to_string(docs.join(&page)).expect("a readable page");
        let name = page.display();
        if text.lines().count() > MOST_LINES
            && !GENERATED.iter().any(|generated| Path::new(generated) == page)
        {
            bad.push(format!("{name} has {} lines, more than {MOST_LINES}", text.lines().count()));
        }
        if page == Path::new("SUMMARY.md") {
            continue;
        }
        let mut parts = text.split("\n\n");
        if !parts.next().is_some_and(|title| title.starts_with("# ")) {
            bad.push(format!("{name} has no title"));
        }
        if !parts.next().is_some_and(|opening| opening.trim_end().ends_with(['.', ':'])) {
            bad.push(format!("{name} does not open with a sentence"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn anchors_are_made_as_renderers_do() {
    let found = anchors("# The `A` of B, c\n```\n# no heading\n```\n## d_e-f\n");
    assert_eq!(found, BTreeSet::from(["the-a-of-b-c".to_owned(), "d_e-f".to_owned()]));
    assert_eq!(links("[a](b) `x` ![c](d#e)\n```\n[f](g)\n```\n"), ["b", "d#e"]);
}
