//! One program of one release, on a net of its own.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};

use super::programs::{Row, Way};
use super::release::Release;
use crate::perftest::port;
use crate::perftest::side::Side;

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
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

/// Runs the program of a row.
pub fn run(row: &Row, release: &Release) -> Verdict {
    let Some(words) = release.program(row.program) else { return Verdict::NotInstalled };
    static NETS: AtomicU32 = AtomicU32::new(0);
    let net = format!("matrix-{}-{}", std::process::id(), NETS.fetch_add(1, Ordering::Relaxed));
    let command = |more: &str| {
        // The name that this very binary can always be reached by.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["run", "--quiet", "--net", &net, &format!("--with-parent={}", std::process::id())])
            .args(row.launcher.split_whitespace())
            .arg("--")
            .args(&words)
            .args(row.options.split_whitespace())
            .args(more.split_whitespace());
        command
    };
    let mut sides = Vec::new();
    let how = processes(row, command, &mut sides).err().map(|error| format!("{error:#}"));
    // The client, of two, is the last.
    let how = how.or_else(|| row.proof.missing(&sides.last().map_or(String::new(), Side::said)));
    match how {
        None => Verdict::Pass,
        Some(how) => Verdict::Failed(how, sides.iter().map(Side::last_words).collect::<Vec<_>>().join("\n")),
    }
}

/// Runs all processes of the program to their ends.
fn processes(row: &Row, command: impl Fn(&str) -> Command, sides: &mut Vec<Side>) -> Result<()> {
    let start = |name, command| {
        // On a terminal programs write each line at once; nobody reads these but the log of the side.
        let (lines, _) = mpsc::channel();
        Side::start(name, command, Some(lines))
    };
    match row.way {
        Way::Alone => sides.push(start("program", command(""))?),
        Way::Pair { server, client } => {
            let number = port::free()?;
            let with_port = |words: &str| words.replace("PORT", &number.to_string());
            sides.push(start("server", command(&with_port(server)))?);
            let began = Instant::now();
            while !port::is_listening(sides[0].pid(), number) {
                if let Some(status) = sides[0].ended()? {
                    bail!("the server ended at once: {status}");
                }
                if began.elapsed() > LIMIT {
                    bail!("the server did not listen within {} s", LIMIT.as_secs());
                }
                std::thread::sleep(PAUSE);
            }
            sides.push(start("client", command(&with_port(client)))?);
        }
    }
    let began = Instant::now();
    for side in sides.iter_mut().rev() {
        match side.wait(LIMIT.saturating_sub(began.elapsed()))? {
            Some(status) if status.success() => {}
            Some(status) => bail!("{}: {status}", side.name()),
            None => bail!("{}: did not end within {} s", side.name(), LIMIT.as_secs()),
        }
    }
    Ok(())
}
