//! The `verbena` command: starts verbs programs on modelled cards, checks the
//! machine, runs perftest and prints what queue entries mean.

mod cli;
mod release;
mod shown;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
