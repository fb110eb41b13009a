//! perftest in simulated time, and profiles of cards for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{need, repository, verbena_in, Program};

/// How long one run may take.
const LIMIT: Duration = Duration::from_secs(240);

/// What `verbena perftest` writes of a run: a column by message size.
pub fn simulated_perftest(launcher: &[&str], test: &str, options: &[&str], column: &str) -> Vec<(u64, f64)> {
    need(test);
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = verbena_in(directory.path());
    command.args(["perftest", "--clock", "virtual", "--out", "out"]).args(launcher).arg(test).args(options);
    Program::start(command).wait(LIMIT).expect_good();
    table(&directory.path().join("out/results.csv"), column)
}

/// A column of a CSV file with comments, by its first column.
pub fn table(path: &Path, column: &str) -> Vec<(u64, f64)> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','));
    let place = lines.next().and_then(|mut names| names.position(|name| name == column));
    let place = place.unwrap_or_else(|| panic!("{} has no column {column}", path.display()));
    let row = |cells: std::str::Split<'_, char>| {
        let cells: Vec<&str> = cells.collect();
        (cells[0].parse().expect("a size"), cells[place].parse().expect("a figure"))
    };
    lines.map(row).collect()
}

/// The profile cx4lx with some keys changed, as a file in a directory.
pub fn changed_profile(directory: &Path, changes: &[(&str, u32)]) -> PathBuf {
    let model = repository().join("model/profiles/cx4lx.toml");
    let mut text = fs::read_to_string(model).expect("the profile");
    for (key, value) in changes {
        let start = text.find(&format!("\n{key} = ")).unwrap_or_else(|| panic!("no key {key}")) + 1;
        let end = start + text[start..].find('\n').expect("a line");
        text.replace_range(start..end, &format!("{key} = [{value}, \"a test\"]"));
    }
    let path = directory.join("own.toml");
    fs::write(&path, text).expect("written");
    path
}

/// cx4lx, of whose stages nothing but the wire limits frames of any size.
pub fn only_the_wire(directory: &Path) -> PathBuf {
    let changes = [
        ("post_ns", 1),
        ("post_recv_ns", 1),
        ("doorbell_ns", 1),
        ("poll_ns", 1),
        ("poll_cqe_ns", 1),
        ("qp_ns", 10),
        ("gather_ns", 0),
        ("pipe_ns", 10),
        ("gap_ns", 0),
        ("rx_packet_ns", 0),
    ];
    changed_profile(directory, &changes)
}
