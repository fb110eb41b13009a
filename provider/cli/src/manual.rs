//! The completion scripts and man pages, made from the definition of the command line.

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::roff::{bold, roman, Roff};
use clap_mangen::Man;

use crate::output;

/// Options of `verbena completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

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

/// Environment variables, as docs/running.md has them.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("VERBENA_NET", "default of --net; set for the programs of a net"),
    ("VERBENA_SOCKET", "the socket of the net that a program is on; set by verbena run"),
    ("VERBENA_PROVIDER", "the provider library that programs get, instead of the installed one"),
    ("VERBENA_PART_ID", "the part id that cards present; set by verbena run"),
    ("VERBENA_VERBOSE", "1: programs say why a call was refused"),
    (
        "VERBENA_PROGRAMS",
        "with how many programs one begins in simulated time; set by verbena run --programs",
    ),
    ("VERBENA_PATIENCE", "seconds that simulated time may stand still before programs end (60)"),
    ("XDG_RUNTIME_DIR", "where the directory of nets is"),
];

const FILES: &[(&str, &str)] = &[
    ("$XDG_RUNTIME_DIR/verbena", "sockets of the nets that are running, and what is known of them"),
    ("/tmp/verbena-UID", "the same where the variable is not set, or names a directory of another user"),
];

const STATUS: &[(&str, &str)] = &[
    ("0", "it is done, and nothing was found to be wrong"),
    ("1", "it could not be done, or something was found to be wrong or different"),
    ("2", "the command line is wrong"),
    ("128+N", "signal N has ended a wait"),
];

const STATUS_OF_RUN: &[(&str, &str)] = &[
    ("125", "the cards could not be shown"),
    ("126", "the program could not be started"),
    ("127", "there is no such program"),
    ("2", "the command line is wrong"),
    ("any", "else that of the program"),
];

/// Writes verbena.1 and a page for each command.
pub fn man(args: ManArgs, command: Command) -> Result<u8> {
    let context = || format!("writing man pages to {}", args.dir.display());
    fs::create_dir_all(&args.dir).with_context(context)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let source = format!("verbena {}", command.get_version().unwrap_or_default());
    pages(&command, &source, None, &args.dir).with_context(context)?;
    Ok(0)
}

/// The page of a command, and those of its own commands.
fn pages(command: &Command, source: &str, parent: Option<&str>, dir: &Path) -> io::Result<()> {
    let man = Man::new(command.clone()).source(source);
    let mut page = Vec::new();
    man.render(&mut page)?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    let of_run = name == "verbena-run";
    let mut more = Roff::default();
    section(&mut more, "EXIT STATUS", if of_run { STATUS_OF_RUN } else { STATUS });
    if of_run || parent.is_none() {
        section(&mut more, "ENVIRONMENT", ENVIRONMENT);
        section(&mut more, "FILES", FILES);
    }
    if let Some(parent) = parent {
        more.control("SH", ["SEE ALSO"]).text([bold(parent), roman("(1)")]);
    }
    page.extend(more.to_roff().into_bytes());
    fs::write(dir.join(man.get_filename()), page)?;
    command
        .get_subcommands()
        .filter(|it| !it.is_hide_set())
        .try_for_each(|it| pages(it, source, Some(name), dir))
}

/// Words with their meanings.
fn section(roff: &mut Roff, title: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [title]);
    for (word, meaning) in entries {
        roff.control("TP", []).text([bold(*word)]).text([roman(*meaning)]);
    }
}
