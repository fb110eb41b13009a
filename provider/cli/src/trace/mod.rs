//! `verbena trace`: where the time of each message goes in a run in simulated time.
//!
//! | file | idea |
//! |---|---|
//! | [`file`], [`messages`] | the trace file, its spans gathered by message |
//! | [`budget`] | the time of a message divided among the phases |
//! | `text`, `table` | the budget for people, that of each message as CSV |
//! | `perfetto`, `vcd`, `place` | for viewers: Trace Event Format, a value change dump, the rows of both |

pub mod budget;
pub mod file;
pub mod messages;
mod perfetto;
mod place;
mod table;
mod text;
mod vcd;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use clap::{Args, ValueEnum};

use self::file::Trace;
use super::measured::run::Job;
use super::measured::{self, Measurement};
use super::signals;
use crate::args::Clock;
use crate::files;

/// Options of `verbena trace`.
#[derive(Args)]
pub struct TraceArgs {
    /// Directory for what is written
    #[arg(long, short, value_name = "DIR", default_value = "verbena-trace")]
    out: PathBuf,
    /// What to write: the phase budget, that of each message, a Perfetto/Chrome trace, a waveform dump
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FORMAT", default_values_t = [Format::Text, Format::Csv, Format::Perfetto, Format::Vcd])]
    format: Vec<Format>,
    /// Messages of each size in all but the phase budget (0: all)
    #[arg(long, value_name = "N", default_value_t = 200)]
    messages: usize,
    /// Take a trace that was written by `--trace FILE` instead of running a test
    #[arg(long, value_name = "FILE", conflicts_with_all = ["test", "card", "launcher"])]
    read: Option<PathBuf>,
    /// Card profile, as for `verbena run` (default f10a)
    #[arg(long, value_name = "PROFILE")]
    card: Option<String>,
    /// Another option of `verbena perftest`, as --with=--loopback or --with=--fault=loss=0.01
    #[arg(long = "with", value_name = "OPTION", allow_hyphen_values = true)]
    launcher: Vec<String>,
    /// The perftest program, such as ib_write_lat, and all of its own options, such as -s 8 -n 1000
    #[arg(required_unless_present = "read", trailing_var_arg = true, value_name = "TEST")]
    test: Vec<String>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// budget.txt, also printed
    Text,
    /// messages.csv
    Csv,
    /// trace.json, for ui.perfetto.dev and chrome://tracing
    Perfetto,
    /// trace.vcd, for GTKWave and Surfer
    Vcd,
}

/// Runs the test, or reads a trace, and writes what was asked for.
pub fn trace(args: TraceArgs) -> Result<u8> {
    let make_out = || files::make_directory(&args.out);
    let (path, reported) = match &args.read {
        Some(path) => (path.clone(), None),
        None => {
            signals::watch();
            make_out()?;
            let path = std::path::absolute(args.out.join("trace.vbtrace"))?;
            let reported = run(&args, &path)?;
            (path, Some(reported))
        }
    };
    signals::check()?;
    let trace = read(&path)?;
    make_out()?;
    let mut written = Vec::new();
    if args.read.is_none() {
        written.push(path.display().to_string());
    }
    if args.format.contains(&Format::Text) {
        let text = text::text(&trace, reported.as_ref());
        say!("{text}");
        written.push(put(&args.out, "budget.txt", |file| file.write_all(text.as_bytes()))?);
    }
    let shown = || messages::first_of_each_size(&trace, args.messages);
    if args.format.contains(&Format::Csv) {
        written.push(put(&args.out, "messages.csv", |file| table::write(shown(), file))?);
    }
    if args.format.contains(&Format::Perfetto) {
        written.push(put(&args.out, "trace.json", |file| perfetto::write(&trace, shown(), file))?);
    }
    if args.format.contains(&Format::Vcd) {
        written.push(put(&args.out, "trace.vcd", |file| vcd::write(&trace, shown(), file))?);
    }
    let (all, some) = (trace.spans.len(), shown().len());
    if some < all && args.format != [Format::Text] {
        model::tell!(
            "verbena: {some} of {all} spans are shown, of the first {} messages of each size; the budget is of all: \
             --messages 0 shows all",
            args.messages
        );
    }
    model::tell!("verbena: wrote {}", written.join(", "));
    Ok(0)
}

pub fn read(path: &Path) -> Result<Trace> {
    let file = File::open(path).with_context(|| format!("opening the trace {}", path.display()))?;
    let trace = Trace::read(file).with_context(|| path.display().to_string())?;
    ensure!(
        !trace.spans.is_empty(),
        "{} has no spans: did the program send anything, with --clock virtual?",
        path.display()
    );
    Ok(trace)
}

fn run(args: &TraceArgs, path: &Path) -> Result<Measurement> {
    let (test, options) = args.test.split_first().expect("clap requires one without --read");
    let job = Job {
        card: args.card.clone(),
        clock: Clock::Virtual,
        launcher: args.launcher.clone(),
        trace: Some(path.to_owned()),
        test: test.clone(),
        options: options.to_vec(),
    };
    let said = job.run(&args.out, |line| say!("{line}"))?;
    let mut runs = measured::text::parse(&said)?;
    runs.pop().context("perftest printed no table")
}

fn put(dir: &Path, name: &str, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<String> {
    let path = dir.join(name);
    let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
    let mut file = BufWriter::new(file);
    write(&mut file).and_then(|()| file.flush()).with_context(|| format!("writing {}", path.display()))?;
    Ok(path.display().to_string())
}
