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

use anyhow::{bail, Result};
use clap::Args;

use cell::Verdict;
use release::Release;
use row::Row;

use crate::perftest::signals;

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
    if rows.is_empty() {
        bail!("no program of the table has `{}` in its line", args.only.join("` or `"));
    }
    let is_somewhere = |row: &&Row| releases.iter().any(|release| cell::programs(row, release).is_some());
    let (rows, absent): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_somewhere);
    let absent: BTreeSet<&str> = absent.iter().map(|row| row.package).collect();
    let absent = absent.into_iter().collect::<Vec<_>>().join(" ");
    if rows.is_empty() {
        bail!("none of these programs is installed: apt-get install {absent}");
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
    signals::watch_one();
    let mut reasons = Vec::new();
    for row in &rows {
        let mut words = Vec::new();
        for release in &releases {
            let verdict = cell::run(row, release)?;
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
    if !absent.is_empty() {
        say!("\nnot installed: {absent}");
    }
    Ok(u8::from(!reasons.is_empty()))
}

/// A line of a Markdown table, whose columns are as wide as their titles.
fn print_row(program: &str, width: usize, titles: &[String], cells: &[String]) {
    let padded = |(cell, title): (&String, &String)| format!(" {cell:<0$} |", title.len());
    let cells: String = cells.iter().zip(titles).map(padded).collect();
    say!("| {program:<width$} |{cells}");
}
