//! The completion scripts and man pages, made from the definition of the command line.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

use crate::output;

/// Options of `verbena completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the completion script.
pub fn completions(args: CompletionsArgs, mut command: Command) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "verbena", &mut script);
    output::print(format_args!("{}", String::from_utf8(script)?));
    Ok(0)
}

/// Options of `verbena man`.
#[derive(Args)]
pub struct ManArgs {
    /// Directory for the pages, such as ~/.local/share/man/man1
    dir: PathBuf,
}

/// Writes verbena.1 and a page for each command.
pub fn man(args: ManArgs, command: Command) -> Result<u8> {
    let context = || format!("writing man pages to {}", args.dir.display());
    fs::create_dir_all(&args.dir).with_context(context)?;
    clap_mangen::generate_to(command, &args.dir).with_context(context)?;
    Ok(0)
}
