//! One side of the test: a perftest process, and what it says.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{kill_process, Pid, Signal};

use super::pty;

/// Lines kept for error messages.
const KEPT_LINES: usize = 200;
/// Those that are shown.
const LAST_WORDS: usize = 12;
/// What getopt(3) says; such lines are shown, too.
const WRONG: [&str; 5] = [
    "unrecognized option",
    "invalid option",
    "requires an argument",
    "doesn't allow an argument",
    "is ambiguous",
];
const POLL: Duration = Duration::from_millis(10);
/// How long the lines of a process that has ended are waited for; one of its children may still have the terminal.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Lines that a side wrote, the newest last.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: &str) {
        if let Ok(mut lines) = self.0.lock() {
            if lines.len() == KEPT_LINES {
                lines.remove(0);
            }
            lines.push(line.to_owned());
        }
    }

    fn tail(&self, count: usize) -> Vec<String> {
        self.0.lock().map_or(Vec::new(), |lines| lines[lines.len().saturating_sub(count)..].to_vec())
    }
}

/// A running side. Ended when dropped, whatever happens.
pub struct Side {
    pub name: &'static str,
    child: Child,
    log: Log,
    readers: Vec<JoinHandle<()>>,
}

impl Side {
    /// Starts a side; its lines go to `lines` too, when given.
    pub fn start(name: &'static str, mut command: Command, lines: Option<Sender<String>>) -> Result<Side> {
        let log = Log::default();
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let terminal = match lines.as_ref().map(|_| pty::open()) {
            Some(Ok((ours, theirs))) => {
                command.stdout(theirs);
                Some(pty::Reader(ours))
            }
            _ => {
                command.stdout(Stdio::piped());
                None
            }
        };
        let mut child = command.spawn().with_context(|| format!("starting the {name}"))?;
        // Closes our copy of the terminal's other end.
        drop(command);
        let mut readers = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            readers.push(collect(stderr, log.clone(), None));
        }
        match (terminal, child.stdout.take()) {
            (Some(reader), _) => readers.push(collect(reader, log.clone(), lines)),
            (None, Some(stdout)) => readers.push(collect(stdout, log.clone(), lines)),
            (None, None) => {}
        }
        Ok(Side { name, child, log, readers })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("waiting for the {}", self.name))
    }

    /// Waits until it ends, but not for ever.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                let start = Instant::now();
                while self.readers.iter().any(|reader| !reader.is_finished()) && start.elapsed() < LAST_LINES
                {
                    thread::sleep(POLL / 10);
                }
                return Ok(Some(status));
            }
            if start.elapsed() > limit {
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }

    /// Asks it to end, then makes it.
    pub fn end(&mut self, signal: Signal) {
        if matches!(self.ended(), Ok(Some(_))) {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, signal);
        }
        if !matches!(self.wait(Duration::from_secs(2)), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    /// The newest of all lines that it wrote.
    pub fn said(&self) -> String {
        self.log.tail(KEPT_LINES).join("\n")
    }

    /// Its last lines, indented for an error message.
    pub fn last_words(&self) -> String {
        // The readers may see the end of the process a moment late.
        thread::sleep(2 * POLL);
        let all = self.log.tail(KEPT_LINES);
        if all.is_empty() {
            return format!("the {} said nothing", self.name);
        }
        // A page of help comes after what was wrong.
        let (first, last) = all.split_at(all.len().saturating_sub(LAST_WORDS));
        let wrong = |line: &&String| WRONG.iter().any(|wrong| line.contains(wrong));
        let lines: Vec<&str> = first.iter().filter(wrong).chain(last).map(String::as_str).collect();
        format!("the {}'s last lines:\n    {}", self.name, lines.join("\n    "))
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.end(Signal::TERM);
    }
}

fn collect(source: impl Read + Send + 'static, log: Log, lines: Option<Sender<String>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut bytes = Vec::new();
        while source.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches(['\n', '\r']);
            if !line.trim().is_empty() {
                log.push(line);
            }
            if let Some(lines) = &lines {
                let _ = lines.send(line.to_owned());
            }
            bytes.clear();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn lines_come_one_by_one_and_the_end_is_seen() {
        let (sender, receiver) = mpsc::channel();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; echo bad >&2; exit 3"]);
        let mut side = Side::start("client", command, Some(sender)).unwrap();
        let status = side.wait(Duration::from_secs(5)).unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["one", "two"]);
        assert!(side.last_words().contains("bad"));
    }

    #[test]
    fn a_dropped_side_is_ended() {
        let mut command = Command::new("sleep");
        command.arg("100");
        let side = Side::start("server", command, None).unwrap();
        let pid = side.child.id();
        drop(side);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
