//! What is run, and running it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use model::profile::Profile;

use super::added::Added;
use super::budgets::{self, CardBudget};
use super::curves::{Curve, Kind, Panel};
use super::golden::Golden;
use super::matrix::{self, Axis, Cell, Group, Set};
use super::published::{self, Published};
use crate::args::Clock;
use crate::measured::run::Job;
use crate::measured::{text, Measurement, Setting};
use crate::perftest::table::Table;
use crate::signals;

const DEFAULT_CARDS: [&str; 2] = ["f10a", "cx4lx"];
/// Where no published measurement of the card says otherwise.
const DEFAULT_MTU: u32 = 1024;

/// Options of `verbena compare`.
#[derive(Args)]
pub struct CompareArgs {
    /// Card profiles: names of `verbena card list`, or files (default f10a,cx4lx)
    #[arg(long, alias = "cards", value_delimiter = ',', value_name = "PROFILE,...")]
    pub card: Vec<String>,
    /// Groups of tests: write_bw, read_bw, send_bw, write_lat, read_lat, send_lat, inline, bidir,
    /// mtu, qps (default all)
    #[arg(long, value_delimiter = ',', value_name = "GROUP,...")]
    pub tests: Vec<String>,
    /// Which sizes, and how many iterations (default quick)
    #[arg(long, value_enum)]
    pub set: Option<Set>,
    /// The clock of the programs (default virtual)
    #[arg(long, value_enum)]
    pub clock: Option<Clock>,
    /// A published measurement as CSV, besides those of the cards that come with Verbena
    #[arg(long, value_name = "FILE")]
    pub reference: Vec<PathBuf>,
    /// Your own measurement: perftest's output or its --out_json file, old or new form
    #[arg(long, value_name = "FILE=LABEL")]
    pub add: Vec<String>,
    /// Directory for report.html and the CSV files
    #[arg(long, short, value_name = "DIR", default_value = "verbena-compare")]
    pub out: PathBuf,
    /// Keep the figures as a golden file
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Run what the golden file was made with, and fail where a figure differs
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// How far a figure may be off for --check
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, requires = "check", value_parser = percent)]
    pub tolerance: f64,
}

fn percent(text: &str) -> Result<f64, &'static str> {
    let number = text.parse().ok().filter(|percent: &f64| percent.is_finite() && *percent >= 0.0);
    number.ok_or("a finite number from 0 on")
}

pub struct Done {
    pub cell: Cell,
    /// What perftest measured.
    pub run: Measurement,
}

/// What is run, after defaults.
pub struct Plan {
    pub cards: Vec<String>,
    /// Names of groups, as on the command line; none: all.
    pub tests: Vec<String>,
    pub groups: Vec<Group>,
    pub set: Set,
    pub clock: Clock,
    /// Published measurements of these cards.
    pub published: Vec<Published>,
}

/// Everything that the report shows.
pub struct Outcome {
    pub panels: Vec<Panel>,
    pub budgets: Vec<CardBudget>,
    /// Runs that failed, and measurements that no panel fits.
    pub notes: Vec<String>,
}

impl Plan {
    /// Options and defaults; with `golden` those that the file was made with.
    pub fn new(args: &CompareArgs, golden: Option<&Golden>) -> Result<Plan> {
        let or_golden = |given: &[String], golden: Option<&Vec<String>>, default: &[&str]| match golden {
            _ if !given.is_empty() => given.to_vec(),
            Some(golden) => golden.clone(),
            None => default.iter().map(|name| (*name).to_owned()).collect(),
        };
        let clock = args.clock.or(golden.map(|golden| golden.clock)).unwrap_or(Clock::Virtual);
        let set = args.set.or(golden.map(|golden| golden.set)).unwrap_or_default();
        let tests = or_golden(&args.tests, golden.map(|golden| &golden.tests), &[]);
        // With the wall clock there is nothing of a card's speed to compare, so one card is enough.
        let default: &[&str] = if clock == Clock::Wall { &DEFAULT_CARDS[..1] } else { &DEFAULT_CARDS };
        let cards = or_golden(&args.card, golden.map(|golden| &golden.cards), default);
        for card in &cards {
            Profile::load(card).with_context(|| format!("--card {card}"))?;
        }
        let mut published = published::built_in()?;
        published.retain(|known| cards.iter().any(|card| Some(card.as_str()) == known.card));
        for path in &args.reference {
            let text = fs::read_to_string(path)
                .with_context(|| format!("--reference: reading {}", path.display()))?;
            let read = published::parse(&text).with_context(|| format!("--reference: {}", path.display()))?;
            // Given explicitly, a file that is built in too is shown once.
            published.retain(|known| known.label != read.label);
            published.push(read);
        }
        Ok(Plan { groups: matrix::groups(&tests)?, cards, tests, set, clock, published })
    }

    /// The MTU of a card's published measurements, so that they can be compared.
    fn mtu(&self, card: &str) -> u32 {
        let known = self.published.iter().filter(|known| known.card == Some(card));
        let mut settings =
            known.flat_map(|known| &known.runs).filter_map(|run| run.settings.get(&Setting::Mtu));
        settings.next().and_then(|mtu| mtu.parse().ok()).unwrap_or(DEFAULT_MTU)
    }

    pub fn cells(&self) -> Vec<Cell> {
        let of_group = |group: &Group| {
            let group = *group;
            self.cards.iter().flat_map(move |card| matrix::cells(group, card, self.set, self.mtu(card)))
        };
        self.groups.iter().flat_map(of_group).collect()
    }

    /// A progress bar of all results.
    pub fn bar(&self) -> ProgressBar {
        let rows: usize = self.cells().iter().map(|cell| cell.rows).sum();
        let budgets = if self.clock == Clock::Virtual { self.budget_cells().len() } else { 0 };
        let bar = ProgressBar::new((rows + budgets) as u64);
        let style = ProgressStyle::with_template("{spinner} [{elapsed}] {bar:30} {pos}/{len} results, {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }

    /// Runs every cell; a failed one is reported and the others continue. A signal ends it.
    pub fn run(&self, dir: &Path, bar: &ProgressBar) -> (Vec<Done>, Vec<String>) {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        let mut position = 0;
        for cell in self.cells() {
            let job = Job {
                card: Some(cell.card.clone()),
                clock: self.clock,
                launcher: cell.launcher.clone(),
                trace: None,
                test: cell.group.test.to_owned(),
                options: cell.options.clone(),
            };
            bar.set_message(format!("{} on {}", cell.line(), cell.card));
            bar.tick();
            let mut output = Table::default();
            let result = job.run(dir, |line| {
                if output.feed(line) {
                    bar.inc(1);
                }
            });
            match result.and_then(|said| text::parse(&said)) {
                Ok(mut runs) => done.extend(runs.pop().map(|run| Done { cell: cell.clone(), run })),
                Err(error) if signals::received().is_some() => {
                    failed.push(format!("{error:#}: {} of {} runs are done", done.len(), self.cells().len()));
                    break;
                }
                Err(error) => failed.push(format!("{error:#}")),
            }
            position += cell.rows as u64;
            bar.set_position(position);
        }
        (done, failed)
    }

    /// Card, test, verb and size of each budget; of the latency tests that are run at all.
    fn budget_cells(&self) -> Vec<(&str, &'static str, &'static str, u32)> {
        let mut cells = Vec::new();
        for (test, verb) in budgets::TESTS {
            if self.groups.iter().any(|group| group.test == test) {
                let cards = self.cards.iter();
                cells.extend(
                    cards.flat_map(|card| budgets::SIZES.map(|size| (card.as_str(), test, verb, size))),
                );
            }
        }
        cells
    }

    /// The phase budgets; the wall clock has no trace. A signal ends it, too.
    pub fn budgets(&self, dir: &Path, bar: &ProgressBar) -> (Vec<CardBudget>, Vec<String>) {
        let (mut budgets, mut failed) = (Vec::new(), Vec::new());
        if self.clock == Clock::Wall {
            return (budgets, failed);
        }
        for (card, test, verb, bytes) in self.budget_cells() {
            if let Some(signal) = signals::received() {
                let (count, all) = (budgets.len(), self.budget_cells().len());
                failed.push(format!("ended by signal {signal}: {count} of {all} phase budgets are done"));
                break;
            }
            bar.set_message(format!("phases of {test}, {bytes} bytes, on {card}"));
            match budgets::measure(card, test, verb, bytes, self.mtu(card), dir) {
                Ok(budget) => budgets.push(budget),
                Err(error) => failed.push(format!("{error:#}")),
            }
            bar.inc(1);
        }
        (budgets, failed)
    }

    /// A panel for each group, with a curve for each card.
    pub fn panels(&self, done: &[Done]) -> Vec<Panel> {
        let panel = |group: &Group| {
            let curve = |card: &String| {
                let mine: Vec<&Done> =
                    done.iter().filter(|done| done.cell.group == *group && done.cell.card == *card).collect();
                (!mine.is_empty()).then(|| Curve {
                    label: format!("{card} (model)"),
                    kind: Kind::Model,
                    card: Some(card.clone()),
                    runs: mine.iter().map(|done| done.run.clone()).collect(),
                    commands: mine.iter().map(|done| done.cell.title()).collect(),
                })
            };
            let curves: Vec<Curve> = self.cards.iter().filter_map(curve).collect();
            (!curves.is_empty()).then_some(Panel { group: *group, curves })
        };
        self.groups.iter().filter_map(panel).collect()
    }

    /// What the models are compared with.
    pub fn bases(&self, added: Vec<Added>) -> Vec<Curve> {
        let curve = |label: &str, kind, card: Option<&str>, run: &Measurement| Curve {
            label: label.to_owned(),
            kind,
            card: card.map(str::to_owned),
            runs: vec![run.clone()],
            commands: Vec::new(),
        };
        let mut bases = Vec::new();
        for known in &self.published {
            // Other tests were not asked for.
            let runs = known.runs.iter().filter(|run| self.tests.is_empty() || self.runs_test(&run.test));
            bases.extend(
                runs.map(|run| {
                    curve(&format!("{} (published)", known.label), Kind::Published, known.card, run)
                }),
            );
        }
        for own in &added {
            bases.extend(own.runs.iter().map(|run| curve(&own.label, Kind::Added, None, run)));
        }
        bases
    }

    fn runs_test(&self, test: &str) -> bool {
        self.groups.iter().any(|group| group.axis == Axis::Size && group.test == test)
    }
}
