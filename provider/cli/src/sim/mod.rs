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

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};

pub use options::SimArgs;

use crate::output;

/// Does what was asked. If queue pairs gave up it fails, but not before the figures are out.
pub fn sim(args: SimArgs) -> Result<u8> {
    let plan = args.plan()?;
    memory::check(&plan)?;
    // What cannot be written is said before the run.
    let csv = args.csv.as_deref().map(|path| Output::new("--csv", path)).transpose()?;
    let plot = args.plot.as_deref().map(|path| Output::new("--plot", path)).transpose()?;
    if let Some((csv, plot)) = csv.as_ref().zip(plot.as_ref()) {
        ensure!(csv.identity()? != plot.identity()?, "--csv and --plot are to write the same file");
    }
    let run = play::play(&plan)?;
    output::print(format_args!("{}", report::text(&plan, &run)));
    model::tell!("{}", report::effort(&run));
    if let Some(file) = csv {
        file.write(&report::csv(&run))?;
    }
    match plot {
        Some(_) if run.done.is_empty() => {
            model::tell!("--plot: nothing has arrived, so there is nothing to draw")
        }
        Some(file) => file.write(&report::svg(&plan, &run)?)?,
        None => {}
    }
    match report::failure(&plan, &run) {
        Some(why) => bail!(why),
        None => Ok(0),
    }
}

/// A file for what a run gives.
struct Output<'a> {
    option: &'static str,
    path: &'a Path,
    file: File,
}

impl<'a> Output<'a> {
    fn new(option: &'static str, path: &'a Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            bail!("{option} -: name a file; standard output has the figures");
        }
        // What an earlier run has written stays until there is something else.
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("{option} {}", path.display()))?;
        Ok(Output { option, path, file })
    }

    /// Which file it is.
    fn identity(&self) -> Result<(u64, u64)> {
        let found = self.file.metadata()?;
        Ok((found.dev(), found.ino()))
    }

    fn write(self, text: &str) -> Result<()> {
        let write = || -> std::io::Result<()> {
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            (&self.file).write_all(text.as_bytes())
        };
        write().with_context(|| format!("{} {}", self.option, self.path.display()))
    }
}
