//! `verbena perftest` run as a process of its own, for commands that run many.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use rustix::process::Signal;

use crate::args::Clock;
use crate::perftest::side::Side;
use crate::signals;

const TICK: Duration = Duration::from_millis(200);
/// From the end of its output to its own end, while it ends two programs and a net.
const PARTING_TIME: Duration = Duration::from_secs(30);

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The cards' profile; none: the default one.
    pub card: Option<String>,
    pub clock: Clock,
    /// More options of `verbena perftest`.
    pub launcher: Vec<String>,
    /// Where the spans go (virtual clock only).
    pub trace: Option<PathBuf>,
    pub test: String,
    pub options: Vec<String>,
}

impl Job {
    /// What its user would type behind `verbena perftest`.
    fn words(&self) -> impl Iterator<Item = &str> {
        let card = self.card.iter().flat_map(|card| ["--card", card.as_str()]);
        let clock = (self.clock == Clock::Virtual).then_some(["--clock", "virtual"]);
        let rest = self.launcher.iter().chain([&self.test]).chain(&self.options).map(String::as_str);
        card.chain(clock.into_iter().flatten()).chain(rest)
    }

    /// As its user would type it.
    pub fn line(&self) -> String {
        ["verbena perftest"].into_iter().chain(self.words()).collect::<Vec<_>>().join(" ")
    }

    fn command(&self, out: &Path) -> Command {
        // The name that this very binary can always be reached by.
        let mut command = Command::new("/proc/self/exe");
        command.arg("perftest").arg("--out").arg(out);
        command.arg(format!("--with-parent={}", std::process::id()));
        if let Some(trace) = &self.trace {
            command.arg("--trace").arg(trace);
        }
        command.args(self.words());
        command
    }

    /// Runs it to its end and gives what the client said; each line goes to `seen` as it comes.
    ///
    /// It ends by itself when no result comes (its own --timeout).
    pub fn run(&self, out: &Path, mut seen: impl FnMut(&str)) -> Result<String> {
        let (sender, lines) = mpsc::channel();
        let mut side = Side::start("perftest run", self.command(out), Some(sender))?;
        let mut said = String::new();
        loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => {
                    seen(&line);
                    said += &line;
                    said.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.go_on(&mut side)?;
        }
        let status = side.wait(PARTING_TIME)?;
        // A terminal's Ctrl-C comes to both, and it may be the first to end.
        self.go_on(&mut side)?;
        let status = status.with_context(|| {
            format!("waited {} s for `{}` to end; {}", PARTING_TIME.as_secs(), self.line(), side.last_words())
        })?;
        if !status.success() {
            bail!("`{}` failed ({status}); {}", self.line(), side.last_words());
        }
        Ok(said)
    }

    /// Ends it after a signal, and says during what it came.
    fn go_on(&self, side: &mut Side) -> Result<()> {
        signals::check().map_err(|ended| {
            side.end(Signal::INT);
            ended.context(format!("during `{}`", self.line()))
        })
    }
}
