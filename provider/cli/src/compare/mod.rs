//! `verbena compare`: many perftest runs on modelled cards, beside published and own measurements.
//!
//! | file | idea |
//! |---|---|
//! | `matrix`, `plan` | groups of runs; what is run, and running it |
//! | `published`, `added` | measurements of others, and the user's own |
//! | `curves` | results side by side: panels, differing settings, ratios |
//! | `budgets` | where the time of a message goes, on each card |
//! | `report`, `phases` | the page |
//! | `table` | CSV files, and the summary for the terminal |
//! | `golden` | `--save` and `--check` |

mod added;
mod budgets;
mod curves;
mod golden;
mod matrix;
mod phases;
mod plan;
mod published;
mod report;
mod table;

use std::time::Instant;

use anyhow::{ensure, Context, Result};

use self::curves::place;
use self::golden::Golden;
pub use self::plan::CompareArgs;
use self::plan::{Outcome, Plan};
use super::signals;
use crate::{files, output};

/// Runs the matrix and writes the report; exit code 1 when a run failed or a figure changed. After a signal the report has what was
/// measured before it.
pub fn compare(args: CompareArgs) -> Result<u8> {
    signals::watch();
    // What can be wrong with the files is said before the long run.
    let golden = args.check.as_ref().map(|path| Golden::load(path)).transpose()?;
    let added = added::read(&args.add)?;
    let plan = Plan::new(&args, golden.as_ref())?;
    files::make_directory(&args.out)?;

    let start = Instant::now();
    let work = tempfile::tempdir().context("making a directory for the runs")?;
    let bar = plan.bar();
    let (done, mut notes) = plan.run(work.path(), &bar);
    let (budgets, failed) = plan.budgets(work.path(), &bar);
    notes.extend(failed);
    bar.finish_and_clear();
    let took = start.elapsed();
    let failures = notes.len();
    let mut outcome = Outcome { panels: plan.panels(&done), budgets, notes };
    for base in plan.bases(added) {
        if let Err(base) = place(&mut outcome.panels, base) {
            let test = base.runs.first().map_or("", |run| run.test.as_str());
            outcome
                .notes
                .push(format!("{} ({test}) is not shown: no group of that test was run", base.label));
        }
    }
    for note in &outcome.notes {
        model::tell!("verbena: {note}");
    }
    output::print(format_args!("{}", table::summary(&outcome.panels)));
    let interrupted = signals::received().map(signals::exit_code);
    let ended = if interrupted.is_some() { done.len() } else { plan.cells().len() };
    let runs = ended + outcome.budgets.len();
    model::tell!("verbena: {runs} runs took {:.0} s", took.as_secs_f64());
    // Without results, the report of an earlier comparison stays.
    if interrupted.is_none() || !done.is_empty() {
        put(&args, &plan, &outcome)?;
    }
    if let Some(code) = interrupted {
        return Ok(code);
    }
    ensure!(!done.is_empty(), "no run gave a result");
    let now = Golden::of(plan.clock, plan.set, &plan.cards, &plan.tests, &done);
    if let Some(path) = &args.save {
        now.save(path)?;
        model::tell!("verbena: saved {}", path.display());
    }
    let planned = plan.cells().iter().map(|cell| (cell.card.clone(), cell.line())).collect();
    let changes = golden.map_or(Vec::new(), |golden| golden.changes(&now, planned, args.tolerance / 100.0));
    for change in &changes {
        model::tell!("verbena: changed: {change}");
    }
    match (args.check.as_ref(), changes.len()) {
        (Some(path), 0) => model::tell!("verbena: all figures are as in {}", path.display()),
        (Some(path), count) => model::tell!("verbena: changes against {}: {count}", path.display()),
        (None, _) => {}
    }
    Ok(u8::from(failures > 0 || !changes.is_empty()))
}

fn put(args: &CompareArgs, plan: &Plan, outcome: &Outcome) -> Result<()> {
    let mut pages = vec![
        ("report.html".to_owned(), report::page(plan, outcome)?),
        ("results.csv".to_owned(), table::results(&outcome.panels)),
        ("ratios.csv".to_owned(), table::ratios(&outcome.panels)),
    ];
    for panel in &outcome.panels {
        pages.extend(report::picture(panel)?.map(|svg| (format!("{}.svg", panel.group.name), svg)));
    }
    let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
    let written = format!("verbena: wrote into {}: {}", args.out.display(), names.join(", "));
    for (name, text) in &pages {
        files::write(&args.out.join(name), text)?;
    }
    model::tell!("{written}");
    Ok(())
}
