//! `verbena matrix`: runs stock programs of several releases on modelled cards, and prints which of them pass.
//!
//! | file | idea |
//! |---|---|
//! | [`row`] | what a row says: what is run, and what shows that it worked |
//! | [`programs`] | the rows |
//! | [`release`] | the columns: the programs of this machine, or those unpacked in a directory |
//! | [`cell`] | one program of one release |

mod cell;
mod programs;
mod release;
mod row;

use std::collections::BTreeSet;

use anyhow::{bail, ensure, Result};
use clap::Args;

use cell::Verdict;
use release::Release;
use row::Row;

use crate::signals;

/// Options of `verbena matrix`.
#[derive(Args)]
pub struct MatrixArgs {
    /// Releases to run: `installed`, or a directory that packages of a release are unpacked in
    #[arg(long, value_name = "RELEASE", value_delimiter = ',', default_value = release::INSTALLED)]
    on: Vec<String>,
    /// Run only the programs whose line has this text, or that this package of Debian has; several times for more
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
}

/// Runs every program of every release; 1 if one of them fails.
pub fn matrix(args: MatrixArgs) -> Result<u8> {
    let releases = args.on.iter().map(|name| Release::find(name)).collect::<Result<Vec<_>>>()?;
    let is_package = |text: &String| programs::rows().any(|row| row.package == text);
    let wanted = |row: &&Row| {
        // `perftest` is a package, and in the name of a program of another.
        let is = |text: &String| match is_package(text) {
            true => row.package == text,
            false => row.line().contains(text),
        };
        args.only.is_empty() || args.only.iter().any(is)
    };
    let rows: Vec<&Row> = programs::rows().filter(wanted).collect();
    ensure!(!rows.is_empty(), "no program of the table has `{}` in its line", args.only.join("` or `"));
    let is_somewhere = |row: &&Row| releases.iter().any(|release| cell::programs(row, release).is_some());
    let (rows, absent): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_somewhere);
    let absent = remedies(&absent);
    if rows.is_empty() {
        bail!("none of these programs is installed: {}", absent.join("; "));
    }
    let width = rows.iter().map(|row| row.line().len()).max().unwrap_or(0);
    let titles: Vec<String> = releases.iter().map(Release::title).collect();
    print_row("program", width, &titles, &titles);
    print_row(
        &"-".repeat(width),
        width,
        &titles,
        &titles.iter().map(|_| "---".to_owned()).collect::<Vec<_>>(),
    );
    // Programs and their directories do not outlive the command.
    signals::watch();
    let mut reasons = Vec::new();
    let mut ended = Ok(());
    'rows: for row in &rows {
        let mut words = Vec::new();
        for release in &releases {
            let verdict = match cell::run(row, release) {
                Ok(verdict) => verdict,
                // What is known by now is said all the same.
                Err(error) => {
                    print_row(&row.line(), width, &titles, &words);
                    ended = Err(error);
                    break 'rows;
                }
            };
            words.push(match verdict {
                Verdict::Pass => "pass".to_owned(),
                Verdict::NotInstalled => "not installed".to_owned(),
                Verdict::Failed(how, said) => {
                    reasons.push(format!("{} on {}: {how}\n{said}", row.line(), release.title()));
                    how
                }
            });
        }
        print_row(&row.line(), width, &titles, &words);
    }
    for reason in &reasons {
        say!("\n{reason}");
    }
    for remedy in &absent {
        say!("\nnot installed: {remedy}");
    }
    ended?;
    Ok(u8::from(!reasons.is_empty()))
}

/// How to install the programs of these rows: packages of Debian, and of Python.
fn remedies(absent: &[&Row]) -> Vec<String> {
    let (python, debian): (Vec<&Row>, Vec<&Row>) = absent.iter().partition(|row| row.wheel.is_some());
    let names = |rows: Vec<&Row>| {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.package).collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    let ways = [
        (names(debian), "apt-get install ", ""),
        (names(python), "pip install ", ", in a virtual environment that --on names (docs/programs.md)"),
    ];
    let ways = ways.into_iter().filter(|(names, ..)| !names.is_empty());
    ways.map(|(names, before, after)| format!("{before}{names}{after}")).collect()
}

/// A line of a Markdown table, whose columns are as wide as their titles.
fn print_row(program: &str, width: usize, titles: &[String], cells: &[String]) {
    let padded = |(cell, title): (&String, &String)| format!(" {cell:<0$} |", title.len());
    let cells: String = cells.iter().zip(titles).map(padded).collect();
    say!("| {program:<width$} |{cells}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_python_are_not_debians() {
        let of = |package: &str| programs::rows().find(|row| row.package == package).expect("a row");
        let said = remedies(&[of("qperf"), of("mpich"), of("fio"), of("ibverbs"), of("mpich")]);
        let python = "pip install ibverbs mpich, in a virtual environment that --on names (docs/programs.md)";
        assert_eq!(said, ["apt-get install fio qperf", python]);
        assert_eq!(remedies(&[of("mpich")]).len(), 1);
        assert!(remedies(&[]).is_empty());
    }
}
