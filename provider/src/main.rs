//! The `verbena` command: starts verbs programs on modelled cards, checks the
//! machine, runs perftest and prints what queue entries mean.

// What cannot be printed is not forgotten: see `cli::output`.
#![deny(clippy::print_stdout)]

mod cli;
mod release;
mod shown;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
