//! `verbena sim`: traffic patterns on many cards in simulated time, without programs.
//!
//! | file | one idea |
//! |---|---|
//! | `options` | what is asked for, and what of it cannot be |
//! | `pattern` | who sends how much to whom, and when |
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

use anyhow::{Context, Result};

pub use options::SimArgs;

/// Does what was asked.
pub fn sim(args: SimArgs) -> Result<u8> {
    let plan = args.plan()?;
    memory::check(&plan)?;
    let run = play::play(&plan)?;
    output_text(&report::text(&plan, &run));
    model::tell!("{}", report::effort(&run));
    if let Some(path) = &args.csv {
        std::fs::write(path, report::csv(&run)).with_context(|| format!("--csv {}", path.display()))?;
    }
    if let Some(path) = &args.plot {
        let svg = report::svg(&plan, &run)?;
        std::fs::write(path, svg).with_context(|| format!("--plot {}", path.display()))?;
    }
    Ok(0)
}

fn output_text(text: &str) {
    crate::output::print(format_args!("{text}"));
}
