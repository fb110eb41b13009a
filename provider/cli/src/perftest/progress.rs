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
        match (self.rows, self.duration) {
            (Some(all), _) => {
                self.bar.set_length(all);
                self.bar.set_position(rows as u64);
            }
            (None, Some(duration)) => {
                self.bar.set_length(duration.as_secs());
                let passed = self.start.elapsed().min(duration);
                self.bar.set_position(passed.as_secs());
            }
            (None, None) => {}
        }
        self.bar.set_message(waiting_for.to_owned());
        self.bar.tick();
    }

    fn style(&self) -> ProgressStyle {
        let template = match (self.rows, self.duration) {
            (Some(_), _) => "{spinner} [{elapsed}] {bar:30} {pos}/{len} sizes, {msg}",
            (None, Some(_)) => "{spinner} [{elapsed}] {bar:30} {pos}/{len} s, {msg}",
            (None, None) => "{spinner} [{elapsed}] {msg}",
        };
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
    }

    /// Prints a line of the result past the bar.
    pub fn print(&self, line: &str) {
        self.bar.suspend(|| say!("{line}"));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
