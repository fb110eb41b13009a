//! The table of docs/profiles.md is fresh. `UPDATE_DOCS=1 cargo test -p model --test profiles_page` writes it
//! anew.

use std::fmt::Write as _;
use std::path::Path;

use model::profile::{NUMBERS, SECTIONS};

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
    let (table, after) = rest.split_once(END).expect("the marker behind the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, [before, BEGIN, &tables(), END, after].concat()).unwrap();
    }
    assert!(
        table == tables(),
        "stale; write it anew: UPDATE_DOCS=1 cargo test -p model --test profiles_page"
    );
}
