//! A program that runs, and what it says.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{cpu_time, descendants, involuntary_switches, running, signal};
use crate::wait::{Instead, LIMIT, PAUSE};

/// One pipe for all that a program says: with two, what comes first would be decided by who reads.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which only this process has.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0, "a pipe");
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// The words of a command.
pub fn words(command: &Command) -> Vec<&str> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_str().expect("words in UTF-8")).collect()
}

/// A command that starts another one, as `nsenter` does, with the directory and what that one sets of the environment, but as the
/// wrapper's user.
pub fn wrapped(mut wrapper: Command, command: &Command) -> Command {
    wrapper.args(words(command));
    if let Some(directory) = command.get_current_dir() {
        wrapper.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapper.env(name, value),
            None => wrapper.env_remove(name),
        };
    }
    wrapper
}

/// A running program. It and all it started are killed when this is dropped.
pub struct Program {
    line: String,
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    status: Option<ExitStatus>,
    started: Instant,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its command line.
    pub line: String,
    /// Its status; none when it had to be killed after the time limit.
    pub status: Option<ExitStatus>,
    /// All that it wrote to stdout and stderr, in the order in which it did.
    pub said: String,
    /// How long it ran.
    pub took: Duration,
}

impl Ended {
    /// True when it exited with status 0, or as rping's server does that has served its client: it closes its event channel
    /// while another thread of it may be about to wait there, which exits then. So it does on any card.
    pub fn good(&self) -> bool {
        let closed = ["server DISCONNECT EVENT...", "rdma_get_cm_event: Bad file descriptor"];
        let served = || closed.iter().all(|text| self.said.contains(text));
        self.status.is_some_and(|status| status.success() || status.code() == Some(255) && served())
    }

    /// Expects that it ended well. Gives what it said.
    #[track_caller]
    pub fn expect_good(self) -> String {
        assert!(self.good(), "{self}");
        self.said
    }

    /// Expects that it ended well and has said `text`. Gives all that it said.
    #[track_caller]
    pub fn expect_good_saying(self, text: &str) -> String {
        assert!(self.good() && self.said.contains(text), "no `{text}`: {self}");
        self.said
    }

    /// Expects that it did not end well, and said why.
    #[track_caller]
    pub fn expect_refusal(self, why: &str) {
        let refused = self.status.is_some() && !self.good();
        assert!(refused && self.said.contains(why), "not refused with `{why}`: {self}");
    }

    /// The status in words.
    pub fn how(&self) -> String {
        match self.status {
            None => format!("killed after {:.1} s: it did not end", self.took.as_secs_f32()),
            Some(status) => match status.signal() {
                Some(signal) => format!("ended by signal {signal}"),
                None => format!("exit status {}", status.code().unwrap_or(-1)),
            },
        }
    }
}

/// For messages: its line, how it ended, and what it said.
impl Display for Ended {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "`{}`: {}; it said:\n{}", self.line, self.how(), self.said)
    }
}

impl Program {
    /// Starts it, in a process group of its own. Ctrl-C ends it also where a script runs the tests in the background,
    /// as whose jobs ignore it. It is killed, too, when the thread ends that starts it: a test that is interrupted drops nothing.
    pub fn start(command: Command) -> Program {
        Program::start_reading(command, Stdio::null())
    }

    /// Starts it with an input.
    pub fn start_reading(mut command: Command, input: Stdio) -> Program {
        let line = words(&command).join(" ");
        let (reader, writer) = pipe();
        let other = writer.try_clone().expect("a descriptor");
        command.stdin(input).stdout(writer).stderr(other).process_group(0);
        // SAFETY: system calls.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let child = command.spawn().unwrap_or_else(|error| panic!("`{line}` could not be started: {error}"));
        let said = Arc::new(Mutex::new(Vec::new()));
        // Its ends of the pipe, without which there is no end of it.
        drop(command);
        let reader = Some(collect(File::from(reader), said.clone()));
        Program { line, child, said, reader, status: None, started: Instant::now() }
    }

    /// Its process id (`verbena run` becomes the program, so this is the program's).
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The command line.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("the reader does not panic")).into_owned()
    }

    /// True when it is over.
    pub fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("our own child");
        }
        self.status.is_some()
    }

    /// True when it is over and did not end well.
    pub fn failed(&mut self) -> bool {
        self.has_ended() && !self.status.is_some_and(|status| status.success())
    }

    /// Waits until it has said `text`; panics when it ends or stays silent.
    #[track_caller]
    pub fn expect(&mut self, text: &str, limit: Duration) {
        self.wait_until(|| format!("it does not say `{text}`"), limit, |said| said.contains(text));
    }

    /// Waits until something is so, of what it has said or of what others see; panics when it ends before, or a
    /// minute goes by.
    #[track_caller]
    pub fn expect_that(&mut self, instead: &str, is: impl FnMut(&str) -> bool) {
        self.wait_until(instead, LIMIT, is);
    }

    #[track_caller]
    fn wait_until(&mut self, instead: impl Instead, limit: Duration, mut is: impl FnMut(&str) -> bool) {
        let start = Instant::now();
        while !is(&self.said()) {
            let over = self.has_ended() && self.reader.as_ref().is_none_or(JoinHandle::is_finished);
            // What came between the look and the end counts too.
            if (over || start.elapsed() > limit) && !is(&self.said()) {
                let how = if over { "ended" } else { "went on" };
                panic!("`{}` {how}: {}; it said:\n{}", self.line, instead.text(), self.said());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until it has used so much more CPU time, as one that polls when it is ready, however late it was run. Where others
    /// want the processor it yields after each look, and uses little: then until it has left the processor so often.
    pub fn expect_work(&mut self, work: Duration, limit: Duration) {
        const SWITCHES: u64 = 200;
        let (start, pid) = (Instant::now(), self.pid());
        let (worked, left) = (cpu_time(pid), involuntary_switches(pid));
        let switches = || involuntary_switches(pid).saturating_sub(left);
        while cpu_time(pid).saturating_sub(worked) < work && switches() < SWITCHES {
            let alive = !self.has_ended() && start.elapsed() < limit;
            assert!(alive, "`{}` does not work; it said:\n{}", self.line, self.said());
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends a signal, unless it is known to have ended.
    #[track_caller]
    pub fn signal(&self, number: i32) {
        if self.status.is_none() {
            signal(self.pid(), number);
        }
    }

    /// Waits for its end; after `limit` it is killed.
    pub fn wait(mut self, limit: Duration) -> Ended {
        let start = Instant::now();
        while !self.has_ended() && start.elapsed() < limit {
            std::thread::sleep(PAUSE);
        }
        let took = self.started.elapsed();
        let status = self.status;
        self.kill();
        Ended { line: self.line.clone(), status, said: self.said(), took }
    }

    /// Kills it and what it started, and waits until they are gone.
    fn kill(&mut self) {
        let strays = descendants(self.pid());
        // SAFETY: the group is the child's own; it may hold processes that outlived the child.
        unsafe { libc::kill(-(self.pid() as i32), libc::SIGKILL) };
        if self.status.is_none() {
            self.status = self.child.wait().ok();
        }
        for pid in strays.into_iter().filter(|&pid| running(pid)) {
            // SAFETY: a descendant of our child, seen a moment ago.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
        if let Some(reader) = self.reader.take() {
            // A reader that does not end belongs to a daemon that kept the pipe: not our business.
            let start = Instant::now();
            while !reader.is_finished() && start.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

fn collect(mut source: File, said: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = source.read(&mut buffer) {
            if let Ok(mut said) = said.lock() {
                said.extend_from_slice(&buffer[..count]);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_does_not_outlive_who_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("1000");
            let program = Program::start(command);
            let pid = program.pid();
            assert!(running(pid));
            // As in a process that is killed.
            std::mem::forget(program);
            pid
        };
        let pid = std::thread::spawn(start).join().expect("it starts");
        crate::wait_for("`sleep` goes on", || !running(pid));
    }
}
