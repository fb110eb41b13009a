//! Scripts on the front door: stock verbs, in each of the ways in which a net can run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::stock::{compile_c, Compiled, Ended, Program, StockNet};

use super::counters::{self, Counters};
use super::script::{Logs, Script};

/// How a net runs its cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// For messages.
    pub name: &'static str,
    options: &'static [&'static str],
    /// Packets are recorded, which keeps them off the express lane.
    recorded: bool,
}

/// Short messages on the express lane.
pub const EXPRESS: Mode = Mode { name: "express lane", options: &[], recorded: false };
/// The same wire; every message is a packet.
pub const GENERAL: Mode = Mode { name: "general path", options: &["--snaplen", "64"], recorded: true };
/// Every packet is a frame.
pub const EXACT: Mode = Mode { name: "exact wire", options: &["--wire", "exact"], recorded: false };
/// Simulated time.
pub const VIRTUAL: Mode = Mode { name: "simulated time", options: &["--clock", "virtual"], recorded: false };

/// Which cards and processes the sides have.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Otherwise both sides are on one card.
    pub two_cards: bool,
    /// Otherwise all are threads of one process.
    pub processes: bool,
    /// Parts of each side.
    pub parts: [usize; 2],
}

/// What came of scripts on one net.
pub struct Seen {
    /// What came of each.
    pub scripts: Vec<Logs>,
    /// What the cards counted in all.
    pub counters: Counters,
}

/// The programs and where their files are.
pub struct Runner {
    directory: tempfile::TempDir,
    script: Compiled,
    stream: Compiled,
    runs: u32,
}

/// The seconds in which a request has to be completed.
const PATIENCE: u64 = 15;

fn text(path: &Path) -> String {
    path.to_str().expect("a path of ASCII").to_owned()
}

impl Runner {
    pub fn new() -> Runner {
        let directory = tempfile::tempdir().expect("a directory");
        let [script, stream] = ["script", "stream"].map(compile_c);
        Runner { directory, script, stream, runs: 0 }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{}.{name}", self.runs))
    }

    /// Runs a program once for each of these first arguments until all end; the error is what they said. The first makes
    /// the socket at which the others meet it. `meanwhile` is called until it gives something, or the first one ends.
    fn programs<T>(
        &self,
        program: &Path,
        how: (Mode, Layout),
        (each, more): (&[Vec<&str>], &[&str]),
        limit: Duration,
        meanwhile: impl Fn(&StockNet) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let (mode, layout) = how;
        let (socket, pcap) = (text(&self.at("socket")), text(&self.at("pcap")));
        let mut options = mode.options.to_vec();
        if mode.recorded {
            options.extend(["--pcap", &pcap]);
        }
        let net = StockNet::new();
        let card = if layout.two_cards { "verbena1" } else { "verbena0" };
        let start = |first: &[&str]| {
            let arguments = [first, &["verbena0", card, &socket], more].concat();
            Program::start(net.command(&options, program, &arguments))
        };
        let mut programs = vec![start(&each[0])];
        for first in &each[1..] {
            let begun = Instant::now();
            while !Path::new(&socket).exists() && !programs[0].has_ended() && begun.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(1));
            }
            programs.push(start(first));
        }
        let begun = Instant::now();
        let mut given = meanwhile(&net);
        while given.is_none() && !programs[0].has_ended() && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(1));
            given = meanwhile(&net);
        }
        let ended: Vec<_> = programs.into_iter().map(|program| program.wait(limit)).collect();
        let _ = (fs::remove_file(socket), fs::remove_file(pcap));
        if ended.iter().all(Ended::good) {
            return Ok(given);
        }
        let said: Vec<_> = ended.iter().map(|ended| format!("{}: {}", ended.how(), ended.said)).collect();
        Err(format!("{}, {layout:?}: {}", mode.name, said.join("\n")))
    }

    /// Runs all scripts on one net: what was seen, or why there is nothing to see.
    pub fn run(&mut self, mode: Mode, layout: Layout, scripts: &[Script]) -> Result<Seen, String> {
        self.runs += 1;
        let (file, log) = (self.at("script"), text(&self.at("log")));
        fs::write(&file, scripts.iter().map(Script::text).collect::<String>()).expect("the script");
        let limit = Duration::from_secs(30 + PATIENCE * scripts.len() as u64);
        let hold = self.at("log.hold");
        counters::make_fifo(&hold);
        let read = |net: &StockNet| counters::read(net, &hold);
        let parts = layout.parts;
        let count = parts[0] + parts[1];
        let numbers = parts.map(|parts| parts.to_string());
        let mut which: Vec<String> = (0..count).map(|part| part.to_string()).collect();
        if !layout.processes {
            which = vec!["all".to_owned()];
        }
        let each: Vec<_> = which.iter().map(|part| vec![&*numbers[0], &*numbers[1], &**part]).collect();
        let more: &[&str] = &[&text(&file), &log, &PATIENCE.to_string()];
        let ended = self.programs(&self.script, (mode, layout), (&each, more), limit, read);
        let _ = fs::remove_file(&hold);
        let logs: Vec<_> = (0..count)
            .map(|part| {
                let path = format!("{log}.{part}");
                let said = fs::read_to_string(&path).unwrap_or_default();
                let _ = fs::remove_file(path);
                said.split("script ").skip(1).map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        let _ = fs::remove_file(file);
        let tail =
            |log: &[String]| log.last().map_or("", |log| &log[log.len().saturating_sub(200)..]).to_owned();
        let counters = ended.map_err(|error| {
            let tails = logs.iter().enumerate().map(|(part, log)| format!("\npart {part}: ...{}", tail(log)));
            format!("{error}{}", tails.collect::<String>())
        })?;
        assert!(logs.iter().all(|log| log.len() == scripts.len()), "{} ended too early", mode.name);
        let of = |n: usize, parts: &[Vec<String>]| parts.iter().map(|log| log[n].clone()).collect();
        let (zero, one) = logs.split_at(parts[0]);
        let scripts = (0..scripts.len()).map(|n| [of(n, zero), of(n, one)]).collect();
        Ok(Seen { scripts, counters: counters.expect("the programs wait until they are read") })
    }

    /// Messages of one service whose buffers are written over as soon as they are completed.
    pub fn stream(&mut self, mode: Mode, layout: Layout, service: &str, messages: u32) -> Result<(), String> {
        self.runs += 1;
        let limit = Duration::from_secs(120);
        let nothing = |_: &StockNet| Some(());
        let each = if layout.processes { vec![vec!["0"], vec!["1"]] } else { vec![vec!["both"]] };
        let more: &[&str] = &[service, &messages.to_string()];
        self.programs(&self.stream, (mode, layout), (&each, more), limit, nothing)
            .map(|_| ())
            .map_err(|error| format!("{service}: {error}"))
    }
}
