//! `verbena perftest`: both sides of a perftest program on a net of their own.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what the launcher must know of perftest's options |
//! | [`side`], `pty` | one of the two processes, its terminal |
//! | [`meeting`], [`port`] | where they meet, and by TCP the port |
//! | [`table`] | perftest's table, read back |
//! | `settings`, `csv`, `plot` | how a result was made, and its files |
//! | `progress` | the progress bar |

mod csv;
pub mod meeting;
mod options;
mod plot;
pub mod port;
mod progress;
mod pty;
mod settings;
pub mod side;
pub mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{anyhow, bail, ensure, Context, Result};
use clap::Args;
use model::attach::{capture_lost, rule_uses, trace_lost, OpenError};
use rustix::process::Signal;

use self::meeting::Meeting;
use self::options::Options;
use self::progress::Progress;
use self::settings::{Settings, CUT_SHORT};
use self::side::Side;
use self::table::{Table, UNCALIBRATED};
use crate::args::{CardArgs, Clock};
use crate::files;
use crate::launch::in_path;
use crate::launch::part_id::{announcement, PartArgs, VARIABLE};
use crate::launch::run::{die_with, run_on};
use crate::net::keeper;
use crate::net::runtime::Net;
use crate::net::wire::in_words;
use crate::signals;

const LISTEN_TIME: Duration = Duration::from_secs(20);
/// How often a client comes too early.
const TRIES: u32 = 10;
const PARTING_TIME: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(200);

/// Options of `verbena perftest`.
#[derive(Args)]
pub struct PerftestArgs {
    #[command(flatten)]
    cards: CardArgs,
    #[command(flatten)]
    part: PartArgs,
    /// Both sides on verbena0
    #[arg(long)]
    loopback: bool,
    /// Directory for results.csv and plot.svg (default ./verbena-results/TEST-...)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Give up when no new result comes for this long; with -D, for this much longer than that
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// End the test when the process with this number ends
    #[arg(long, hide = true, value_name = "PID")]
    with_parent: Option<u32>,
    /// The perftest program, such as ib_write_bw, and all of its own options, such as -a -n 1000
    #[arg(required = true, trailing_var_arg = true, value_name = "TEST")]
    test: Vec<String>,
}

/// How the two sides ended.
enum Outcome {
    Done,
    Interrupted(i32),
}

/// Runs the test, prints the client's table and writes the results.
pub fn perftest(args: PerftestArgs) -> Result<u8> {
    let own = PerftestArgs::augment_args(clap::Command::new("perftest"));
    let (program, arguments) = args.test.split_first().expect("clap requires one");
    let test = short_name(program);
    let options = Options::read(&test, arguments, &own)?;
    find_program(program)?;
    if options.only_text {
        let status = Command::new(program).args(arguments).status();
        let status = status.with_context(|| format!("starting {program}"))?;
        return Ok(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1));
    }
    signals::watch();
    if let Some(parent) = args.with_parent {
        die_with(parent)?;
    }
    let net = Net::named(&format!("perftest-{}", std::process::id()))?;
    let held = keeper::ensure(&net, &args.cards)?;
    let mut settings = Settings {
        test,
        options: arguments.to_vec(),
        cards: held.info.cards,
        card: held.info.card.clone(),
        wire: in_words(&held.info.wire),
        clock: held.info.clock,
        loopback: args.loopback,
        part_id: args.part.presented(),
        cut_short: false,
        started: SystemTime::now(),
    };
    ensure!(
        settings.loopback || settings.cards >= 2,
        "the two sides need two cards: use --cards 2, or --loopback for one"
    );
    let meeting = Meeting::new(&held.info, &options, settings.loopback)?;
    if let Some(id) = settings.part_id {
        model::tell!("verbena: {}", announcement(id));
    }
    let out = args.out.clone().unwrap_or_else(|| Path::new("verbena-results").join(settings.directory()));
    // Before a long run, not after it.
    files::make_directory(&out)?;
    let mut run = Run {
        args: &args,
        net: &net,
        meeting,
        early: false,
        progress: Progress::new(&options),
        limit: Duration::from_secs(args.timeout).saturating_add(options.duration.unwrap_or_default()),
        table: Table::default(),
    };
    let began = Instant::now();
    let outcome = run.both_sides();
    run.progress.finish();
    if settings.clock == Clock::Virtual {
        say_time(&net, began);
    }
    say_idle_rules(&net);
    let recorded = recorded(&net, &args);
    settings.cut_short = match outcome {
        Ok(Outcome::Done) => false,
        Ok(Outcome::Interrupted(_)) => !options.infinite,
        Err(_) => true,
    };
    let written = write_results(&settings, &run.table, &out);
    if args.cards.trace.is_some() || args.cards.wire.pcap.is_some() {
        drop(held);
        keeper::ended(&net)?;
    }
    let outcome = outcome?;
    if run.table.rows.is_empty() {
        model::tell!("verbena: the client printed no table, so there is nothing to write");
    }
    let code = match outcome {
        Outcome::Done => 0,
        Outcome::Interrupted(_) if options.infinite && !run.table.rows.is_empty() => 0,
        Outcome::Interrupted(signal) => signals::exit_code(signal),
    };
    written?;
    recorded?;
    Ok(code)
}

/// A test with a fault that never happens tests something else.
fn say_idle_rules(net: &Net) {
    let uses = rule_uses(&net.socket()).unwrap_or_default();
    for it in uses.iter().filter(|it| it.hit == 0) {
        let counted = it.counted;
        model::tell!("verbena: the fault `{}` hit no frame; its conditions held for {counted}", it.rule);
    }
}

/// Whether all was recorded that was to be: frames, and the trace.
fn recorded(net: &Net, args: &PerftestArgs) -> Result<()> {
    let complete = |path: &Option<PathBuf>, lost: fn(&Path) -> Result<Option<io::Error>, OpenError>| {
        let Some(path) = path else { return Ok(()) };
        match lost(&net.socket())? {
            Some(error) => Err(error).with_context(|| format!("{} is not complete", path.display())),
            None => Ok(()),
        }
    };
    complete(&args.cards.wire.pcap, capture_lost)?;
    complete(&args.cards.trace, trace_lost)
}

/// One run of both sides.
struct Run<'a> {
    args: &'a PerftestArgs,
    net: &'a Net,
    meeting: Meeting,
    /// The client came before the server listened.
    early: bool,
    progress: Progress,
    /// How long the client may say nothing: with `-D`, while it measures.
    limit: Duration,
    table: Table,
}

impl Run<'_> {
    fn both_sides(&mut self) -> Result<Outcome> {
        for _ in 1..TRIES {
            let outcome = self.try_both_sides();
            if !self.early {
                return outcome;
            }
            model::tell!("verbena: the server told the client to connect before it listened (perftest issue 93): again");
        }
        self.try_both_sides()
    }

    fn try_both_sides(&mut self) -> Result<Outcome> {
        self.early = false;
        let port = port::free()?;
        let mut server = Side::start("server", self.command("verbena0", port), None)?;
        let start = Instant::now();
        loop {
            let looked = Instant::now();
            if self.meeting.is_ready(self.net, &server, port)? {
                break;
            }
            let took = looked.elapsed();
            if let Some(signal) = signals::received() {
                return Ok(Outcome::Interrupted(signal));
            }
            if let Some(status) = server.wait(Duration::ZERO)? {
                bail!("the server ended before the client was started ({status}); {}", server.last_words());
            }
            if start.elapsed() > LISTEN_TIME {
                bail!(
                    "waited {} s for the server to {}; {}",
                    LISTEN_TIME.as_secs(),
                    self.meeting.what(port),
                    server.last_words()
                );
            }
            self.progress.tick("waiting for the server to listen", 0);
            // A look may take ten milliseconds of a core that the server needs.
            std::thread::sleep(Duration::from_millis(5).max(2 * took));
        }
        let device = if self.args.loopback { "verbena0" } else { "verbena1" };
        let mut command = self.command(device, port);
        self.meeting.tell(&mut command);
        let (sender, lines) = mpsc::channel();
        let mut client = Side::start("client", command, Some(sender))?;
        let followed = self.follow(&mut client, &mut server, &lines);
        let gave_up = followed.is_err() && self.table.rows.is_empty() && client.ended()?.is_some();
        self.early = gave_up && self.meeting.was_early(&client.said());
        followed
    }

    /// Prints what the client says until it ends, and judges the end.
    fn follow(&mut self, client: &mut Side, server: &mut Side, lines: &Receiver<String>) -> Result<Outcome> {
        let mut last_line = Instant::now();
        loop {
            match lines.recv_timeout(TICK) {
                Ok(line) => {
                    last_line = Instant::now();
                    self.table.feed(&line);
                    self.progress.print(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The client has closed its output: it ends now.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let rows = self.table.rows.len();
            self.progress.tick("waiting for the client's next result", rows);
            if signals::received().is_some() {
                client.end(Signal::INT);
                server.end(Signal::INT);
                // What the client still says. A child of its own may have its output, too, and go on.
                let until = Instant::now() + PARTING_TIME;
                while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    if Instant::now() >= until {
                        break;
                    }
                    self.table.feed(&line);
                    self.progress.print(&line);
                }
                break;
            }
            if last_line.elapsed() > self.limit {
                bail!(
                    "waited {} s for the client's next result (it has {rows}); --timeout gives it \
                     longer; {}; {}",
                    self.limit.as_secs(),
                    client.last_words(),
                    server.last_words()
                );
            }
        }
        let outcome = self.judge(client, server)?;
        if client.said().contains(UNCALIBRATED) {
            model::tell!(
                "verbena: the machine was too busy for perftest to find out how fast the processor counts: rows of 0.00 are \
                 no figures. Run it again, or with --clock virtual, in which a busy machine changes nothing"
            );
        }
        Ok(outcome)
    }

    /// Both sides are ending: did they succeed?
    fn judge(&self, client: &mut Side, server: &mut Side) -> Result<Outcome> {
        let ended = |side: &mut Side, name: &str| -> Result<ExitStatus> {
            side.wait(PARTING_TIME)?.ok_or_else(|| {
                anyhow!(
                    "waited {} s for the {name} to end after the test; {}",
                    PARTING_TIME.as_secs(),
                    side.last_words()
                )
            })
        };
        let status = ended(client, "client")?;
        // Ctrl-C ends all three of us at once, in any order.
        if let Some(signal) = signals::received() {
            return Ok(Outcome::Interrupted(signal));
        }
        if !status.success() {
            // The server's word may be the reason: give it a moment to end.
            let _ = server.wait(Duration::from_secs(1));
            bail!(
                "{} failed ({status}); {}\n{}",
                self.args.test[0],
                client.last_words(),
                server.last_words()
            );
        }
        let status = ended(server, "server")?;
        if !status.success() {
            bail!(
                "the server of {} failed ({status}), though the client succeeded; {}",
                self.args.test[0],
                server.last_words()
            );
        }
        Ok(Outcome::Done)
    }

    fn command(&self, device: &str, port: u16) -> Command {
        let mut command = run_on(self.net);
        command.arg("--").args(&self.args.test);
        command.args(["-d", device, "-p", &port.to_string()]);
        match self.args.part.presented() {
            Some(id) => command.env(VARIABLE, id.to_string()),
            None => command.env_remove(VARIABLE),
        };
        command
    }
}

/// How much simulated time the run took, to the picosecond: the same for the same command.
fn say_time(net: &Net, began: Instant) {
    if let Ok(Some(ps)) = model::attach::simulated_time(&net.socket()) {
        const S: u64 = 1_000_000_000_000;
        let took = began.elapsed().as_secs_f64();
        model::tell!("verbena: {}.{:012} s of simulated time, in {took:.3} s", ps / S, ps % S);
    }
}

fn short_name(test: &str) -> String {
    Path::new(test).file_name().map_or(test.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn find_program(test: &str) -> Result<()> {
    let found = if test.contains('/') { Path::new(test).is_file() } else { in_path(test) };
    ensure!(
        found,
        "there is no program `{test}`: perftest's are ib_{{write,read,send,atomic}}_{{bw,lat}}, \
         in the package of that name (apt-get install perftest)"
    );
    Ok(())
}

fn write_results(settings: &Settings, table: &Table, out: &Path) -> Result<()> {
    if table.rows.is_empty() {
        // Only if it is ours, that is empty.
        let _ = fs::remove_dir(out);
        return Ok(());
    }
    let put = |name: &str, text: String| -> Result<String> {
        let path = out.join(name);
        files::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let mut written = vec![put("results.csv", csv::text(settings, table))?];
    if let Some(svg) = plot::svg(settings, table)? {
        written.push(put("plot.svg", svg)?);
    }
    let cut = if settings.cut_short { format!(": {CUT_SHORT}") } else { String::new() };
    model::tell!("verbena: wrote {}{cut}", written.join(" and "));
    Ok(())
}
