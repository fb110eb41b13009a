//! The table of docs/profiles.md is fresh. `UPDATE_DOCS=1 cargo test -p model --test profiles_page` rewrites it.

use std::fmt::Write as _;
use std::path::Path;

use model::profile::{Profile, BUILTIN, NUMBERS, SECTIONS};

const BEGIN: &str = "<!-- numbers: written by UPDATE_DOCS=1 cargo test -p model --test profiles_page -->\n";
const END: &str = "<!-- end of numbers -->";

fn tables() -> String {
    let mut text = String::new();
    for (section, about) in SECTIONS {
        let _ =
            writeln!(text, "\n### {section}\n\n{}\n\n| key | unit | meaning |\n|---|---|---|", about.trim());
        for number in NUMBERS.iter().filter(|number| number.section == *section) {
            let _ = writeln!(text, "| `{}` | {} | {} |", number.key, number.unit, number.about.trim());
        }
    }
    text.push('\n');
    text
}

#[test]
fn the_table_of_numbers_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/profiles.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the marker before the table");
    let (table, after) = rest.split_once(END).expect("the marker after the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, [before, BEGIN, &tables(), END, after].concat()).unwrap();
    }
    assert!(table == tables(), "stale; rewrite it: UPDATE_DOCS=1 cargo test -p model --test profiles_page");
}

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)).unwrap()
}

/// The number of fitted numbers is the same wherever it is mentioned.
#[test]
fn the_pages_count_the_fitted_numbers() {
    let words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];
    let (profiles, readme) = (page("docs/profiles.md"), page("README.md"));
    for (name, text) in BUILTIN {
        let loaded = Profile::load(name).unwrap();
        let fitted: Vec<String> = NUMBERS
            .iter()
            .zip(&loaded.notes)
            .filter(|(_, note)| note.is_fitted())
            .map(|(number, _)| number.name())
            .collect();
        let row = profiles.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/profiles.md has no row of {name}"));
        assert!(row.ends_with(&format!("| {} |", fitted.len())), "{row}\nbut fitted are {fitted:?}");
        if fitted.is_empty() {
            continue;
        }
        let count = words[fitted.len()];
        let says = format!("`{name}` ({count} fitted number");
        assert!(readme.contains(&says), "README.md does not say \"{says}\": {fitted:?}");
        // The head of the file names them.
        let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        for number in &fitted {
            assert!(head.contains(number.as_str()), "the head of {name}.toml does not name {number}");
        }
    }
}
