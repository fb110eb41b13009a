//! A progress bar on the terminal, for runs that take their time.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::options::Options;

const PATIENCE: Duration = Duration::from_secs(1);

/// Shows how far the run is; nothing where stderr is no terminal.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    rows: Option<u64>,
    duration: Option<Duration>,
}

impl Progress {
    /// A bar that is hidden until the run turns out to be long.
    pub fn new(options: &Options) -> Progress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        Progress {
            bar,
            start: Instant::now(),
            rows: options.rows().filter(|&rows| rows > 1),
            duration: options.duration.filter(|_| !options.infinite),
        }
    }

    /// Says what is being waited for, and moves the bar.
    pub fn tick(&self, waiting_for: &str, rows: usize) {
        if self.bar.is_hidden() {
            if self.start.elapsed() < PATIENCE || !std::io::stderr().is_terminal() {
                return;
            }
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.set_style(self.style());
        }
        let passed = || self.start.elapsed().as_secs();
        let reached = self.rows.map(|all| (rows as u64, all));
        if let Some((at, of)) = reached.or_else(|| self.duration.map(|all| (passed(), all.as_secs()))) {
            self.bar.set_length(of);
            self.bar.set_position(at.min(of));
        }
        self.bar.set_message(waiting_for.to_owned());
        self.bar.tick();
    }

    fn style(&self) -> ProgressStyle {
        let unit = if self.rows.is_some() { "sizes" } else { "s" };
        let template = match self.rows.is_some() || self.duration.is_some() {
            true => format!("{{spinner}} [{{elapsed}}] {{bar:30}} {{pos}}/{{len}} {unit}, {{msg}}"),
            false => "{spinner} [{elapsed}] {msg}".to_owned(),
        };
        ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner())
    }

    /// Prints a line of the result past the bar.
    pub fn print(&self, line: &str) {
        self.bar.suspend(|| say!("{line}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
