//! The generated pages are fresh. `UPDATE_DOCS=1 cargo test -p fpga-regs`
//! rewrites them.

mod admin;
mod registers;
mod table;
mod wqe;

use std::path::Path;

pub fn check(name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, wanted).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found
        .lines()
        .zip(wanted.lines())
        .position(|(found, wanted)| found != wanted)
        .unwrap_or(found.lines().count().min(wanted.lines().count()));
    assert!(
        found == wanted,
        "docs/{name} is stale from line {}; rewrite it with: UPDATE_DOCS=1 cargo test -p fpga-regs",
        differs + 1
    );
}

#[test]
fn registers_page_is_fresh() {
    check("registers.md", &registers::page());
}

#[test]
fn admin_page_is_fresh() {
    check("admin.md", &admin::page());
}

#[test]
fn wqe_page_is_fresh() {
    check("wqe.md", &wqe::page());
}
