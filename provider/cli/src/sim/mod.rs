//! `verbena sim`: traffic patterns on many cards in simulated time, without programs.
//!
//! | file | one idea |
//! |---|---|
//! | `options` | what is asked for, and what of it cannot be |
//! | `pattern` | who sends how much to whom, and when |
//! | `retries` | what has no answer is sent again: when, and how often |
//! | `memory` | what a run takes of it, before it is made |
//! | `host` | a card with its queue pairs, through the driver |
//! | `play` | the run: one thread plays all actors |
//! | `figures` | what is computed from it |
//! | `report` | text, CSV and plot |

mod figures;
mod host;
mod memory;
mod options;
mod pattern;
mod play;
mod report;
mod retries;

use anyhow::{bail, Context, Result};

pub use options::SimArgs;

/// Does what was asked. If queue pairs gave up it fails, but not before the figures are out.
pub fn sim(args: SimArgs) -> Result<u8> {
    let plan = args.plan()?;
    memory::check(&plan)?;
    let run = play::play(&plan)?;
    output_text(&report::text(&plan, &run));
    model::tell!("{}", report::effort(&run));
    if let Some(path) = &args.csv {
        std::fs::write(path, report::csv(&run)).with_context(|| format!("--csv {}", path.display()))?;
    }
    // Where nothing has arrived there is nothing to draw.
    if let Some(path) = args.plot.as_ref().filter(|_| !run.done.is_empty()) {
        let svg = report::svg(&plan, &run)?;
        std::fs::write(path, svg).with_context(|| format!("--plot {}", path.display()))?;
    }
    match report::failure(&plan, &run) {
        Some(why) => bail!(why),
        None => Ok(0),
    }
}

fn output_text(text: &str) {
    crate::output::print(format_args!("{text}"));
}
