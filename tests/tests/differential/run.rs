//! Scripts on the front door: stock verbs, in each of the ways in which a net can run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tests::stock::{compile_c, Ended, Program, StockNet};

use super::counters::{self, Counters};
use super::script::Script;

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
    /// Otherwise both sides are threads of one process.
    pub two_processes: bool,
}

/// What came of scripts on one net.
pub struct Seen {
    /// What the sides of each wrote down.
    pub scripts: Vec<[String; 2]>,
    /// What the cards counted in all.
    pub counters: Counters,
}

/// The programs and where their files are.
pub struct Runner {
    directory: tempfile::TempDir,
    script: PathBuf,
    stream: PathBuf,
    runs: u32,
}

/// The seconds in which a request has to be completed.
const PATIENCE: &str = "4";

fn text(path: &Path) -> String {
    path.to_str().expect("a path of ASCII").to_owned()
}

impl Runner {
    pub fn new() -> Runner {
        let directory = tempfile::tempdir().expect("a directory");
        let [script, stream] = ["script", "stream"].map(|name| compile_c(name, directory.path()));
        Runner { directory, script, stream, runs: 0 }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{}.{name}", self.runs))
    }

    /// Runs both sides of a program until they end; the error is what they said. `meanwhile` is called until it gives
    /// something, or a side ends.
    fn sides<T>(
        &self,
        program: &Path,
        how: (Mode, Layout),
        more: &[&str],
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
        let start = |side: &str| {
            let arguments = [&[side, "verbena0", card, &socket], more].concat();
            Program::start(net.command(&options, program, &arguments))
        };
        let mut programs = vec![start(if layout.two_processes { "0" } else { "both" })];
        if layout.two_processes {
            let begun = Instant::now();
            while !Path::new(&socket).exists() && !programs[0].has_ended() && begun.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(1));
            }
            programs.push(start("1"));
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
        let limit = Duration::from_secs(30 + 5 * scripts.len() as u64);
        let hold = self.at("log.hold");
        counters::make_fifo(&hold);
        let read = |net: &StockNet| counters::read(net, &hold);
        let ended = self.sides(&self.script, (mode, layout), &[&text(&file), &log, PATIENCE], limit, read);
        let _ = fs::remove_file(&hold);
        let logs = [0, 1].map(|side| {
            let path = format!("{log}.{side}");
            let said = fs::read_to_string(&path).unwrap_or_default();
            let _ = fs::remove_file(path);
            said.split("script ").skip(1).map(str::to_owned).collect::<Vec<_>>()
        });
        let _ = fs::remove_file(file);
        let tail =
            |log: &[String]| log.last().map_or("", |log| &log[log.len().saturating_sub(200)..]).to_owned();
        let counters = ended.map_err(|error| {
            format!("{error}\nside 0: ...{}\nside 1: ...{}", tail(&logs[0]), tail(&logs[1]))
        })?;
        let [zero, one] = logs;
        assert!(zero.len() == scripts.len() && one.len() == scripts.len(), "{} ended too early", mode.name);
        let scripts = zero.into_iter().zip(one).map(|(zero, one)| [zero, one]).collect();
        Ok(Seen { scripts, counters: counters.expect("the programs wait until they are read") })
    }

    /// Messages of one service whose buffers are written over as soon as they are completed.
    pub fn stream(&mut self, mode: Mode, layout: Layout, service: &str, messages: u32) -> Result<(), String> {
        self.runs += 1;
        let limit = Duration::from_secs(120);
        let nothing = |_: &StockNet| Some(());
        self.sides(&self.stream, (mode, layout), &[service, &messages.to_string()], limit, nothing)
            .map(|_| ())
            .map_err(|error| format!("{service}: {error}"))
    }
}
