//! One program of one release, on a net of its own.

use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use model::attach::{listeners, OpenError};
use model::segment::AttachError;
use tempfile::TempDir;

use super::release::Release;
use super::row::{Pair, Ready, Row, Way, PORT};
use crate::launch::run::run_on;
use crate::net::runtime::Net;
use crate::perftest::port;
use crate::perftest::side::Side;
use crate::signals;

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a row is run whose program fails or hangs by its own fault.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// What came of a program.
pub enum Verdict {
    /// It worked.
    Pass,
    /// The release is here without it.
    NotInstalled,
    /// The reason in a few words, and what the program said.
    Failed(String, String),
}

/// Where a program runs.
struct Cell<'a> {
    row: &'a Row,
    net: Net,
    /// A free port.
    port: u16,
    /// Its working directory.
    directory: TempDir,
    /// PATH.
    path: OsString,
}

/// The words that start the server's program and the client's (or the only one), if the release has them.
pub fn programs(row: &Row, release: &Release) -> Option<[Vec<OsString>; 2]> {
    let server = match row.way {
        Way::Pair(Pair { by: Some(server), .. }) => server,
        _ => row.program,
    };
    if row.wheel.is_some_and(|wheel| !release.has_wheel(wheel)) {
        return None;
    }
    Some([release.program(server)?, release.program(row.program)?])
}

/// Runs the program of a row.
pub fn run(row: &Row, release: &Release) -> Result<Verdict> {
    let Some([server, words]) = programs(row, release) else { return Ok(Verdict::NotInstalled) };
    let mut tries = 0;
    loop {
        let cell = Cell::new(row, release.path())?;
        let mut sides = Vec::new();
        let how = cell.processes(&server, &words, &mut sides).err().map(|error| format!("{error:#}"));
        signals::check().with_context(|| row.line())?;
        // The client, of two, is the last.
        let said = sides.last().map_or(String::new(), Side::said);
        let Some(how) = how.or_else(|| row.proof.missing(&said)) else { return Ok(Verdict::Pass) };
        tries += 1;
        let hangs = row.hangs_since.is_some_and(|since| release.major().is_some_and(|major| major >= since))
            && row.proof.missing(&said).is_none()
            && sides.iter_mut().any(|side| matches!(side.ended(), Ok(None)));
        let again = hangs || sides.iter().any(|side| row.is_tried_again(&side.said()));
        if tries == TRIES || !again {
            return Ok(Verdict::Failed(
                how,
                sides.iter().map(Side::last_words).collect::<Vec<_>>().join("\n"),
            ));
        }
    }
}

impl Cell<'_> {
    fn new(row: &Row, path: OsString) -> Result<Cell<'_>> {
        static NETS: AtomicU32 = AtomicU32::new(0);
        let net = format!("matrix-{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed));
        let directory = tempfile::tempdir().context("making a directory")?;
        for (name, content) in row.files {
            fs::write(directory.path().join(name), content).with_context(|| format!("writing {name}"))?;
        }
        Ok(Cell { row, net: Net::named(&net)?, port: port::free()?, directory, path })
    }

    /// Words that start something in the environment of the row, and in that which `more` begins with.
    fn command(&self, words: &[OsString], more: &str) -> Command {
        let mut command = run_on(&self.net);
        command
            .args(self.row.launcher.split_whitespace())
            .arg("--")
            .args(words)
            .current_dir(self.directory.path())
            // Open MPI asks root for these.
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .env("PATH", &self.path)
            .env("PORT", self.port.to_string())
            .env("OPTIONS", self.row.options);
        let more = more.replace("PORT", &self.port.to_string());
        let mut more = more.split_whitespace().peekable();
        let variables = self.row.environment.split_whitespace().filter_map(|word| word.split_once('='));
        command.envs(variables);
        while let Some((name, value)) = more.peek().and_then(|word| variable(word)) {
            command.env(name, value);
            more.next();
        }
        command.args(more);
        command
    }

    /// Runs all processes of the program to their ends.
    fn processes(&self, server: &[OsString], words: &[OsString], sides: &mut Vec<Side>) -> Result<()> {
        let start = |name, command| {
            // On a terminal programs write each line at once; nobody reads these but the log of the side.
            let (lines, _) = mpsc::channel();
            Side::start(name, command, Some(lines))
        };
        let options = self.row.options.split_whitespace();
        match self.row.way {
            Way::Alone => {
                let mut command = self.command(words, "");
                command.args(options);
                sides.push(start("program", command)?);
            }
            Way::Script(script) => {
                let shell = ["sh", "-c", script, "sh"].map(OsString::from);
                sides.push(start("script", self.command(&[&shell, words].concat(), ""))?);
            }
            Way::Pair(pair) => {
                let mut command = self.command(server, pair.server);
                command.args(options.clone());
                sides.push(start("server", command)?);
                self.wait(pair.ready, &mut sides[0])?;
                let mut command = self.command(words, pair.client);
                command.args(options);
                sides.push(start("client", command)?);
            }
        }
        let began = Instant::now();
        for side in sides.iter_mut().rev() {
            while side.ended()?.is_none() && began.elapsed() < LIMIT && signals::received().is_none() {
                std::thread::sleep(PAUSE);
            }
            match side.wait(Duration::ZERO)? {
                Some(status) if status.success() => {}
                Some(status) => bail!("{}: {status}", side.name),
                None => bail!("{}: did not end within {} s", side.name, LIMIT.as_secs()),
            }
        }
        Ok(())
    }

    /// Waits until the server takes clients.
    fn wait(&self, ready: Ready, server: &mut Side) -> Result<()> {
        let began = Instant::now();
        while !self.is(ready, server)? {
            if let Some(status) = server.ended()? {
                bail!("the server ended at once: {status}");
            }
            ensure!(
                began.elapsed() <= LIMIT && signals::received().is_none(),
                "the server did not {} within {} s",
                ready.what(self.port),
                LIMIT.as_secs()
            );
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn is(&self, ready: Ready, server: &Side) -> Result<bool> {
        Ok(match ready {
            Ready::Tcp => port::is_listening(server.pid(), self.port),
            Ready::Says(text) => server.said().contains(text),
            Ready::Rdma(port) => match listeners(&self.net.socket()) {
                Ok(ports) => ports.contains(&if port == PORT { self.port } else { port }),
                // Its launcher is just starting the net.
                Err(OpenError::Attach(AttachError::NoKeeper(_) | AttachError::Closed(_))) => false,
                Err(error) => return Err(error).context("asking the net for listeners"),
            },
        })
    }
}

impl Ready {
    /// What a server does then.
    fn what(self, free: u16) -> String {
        match self {
            Ready::Tcp => format!("listen on TCP port {free}"),
            Ready::Rdma(port) => {
                format!("listen on port {} of the connection manager", if port == PORT { free } else { port })
            }
            Ready::Says(text) => format!("say `{text}`"),
        }
    }
}

/// NAME=VALUE.
fn variable(word: &str) -> Option<(&str, &str)> {
    word.split_once('=')
        .filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'))
}
