//! Commands in the guest, over its second serial line.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the shell may take to answer, where twenty other programs want the cores.
const ANSWER: Duration = Duration::from_secs(60);

/// The shell of a guest.
pub struct Shell {
    line: UnixStream,
    unread: Vec<u8>,
    commands: u32,
}

/// What a command said and how it ended.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its exit status.
    pub status: i32,
    /// Its standard output and error.
    pub text: String,
}

impl Shell {
    /// Connects to the guest's line and waits until the shell answers.
    pub fn connect(path: &Path, limit: Duration) -> Result<Shell, String> {
        let until = Instant::now() + limit;
        let line = loop {
            match UnixStream::connect(path) {
                Ok(line) => break line,
                Err(error) if Instant::now() > until => return Err(format!("{}: {error}", path.display())),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        line.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        let mut shell = Shell { line, unread: Vec::new(), commands: 0 };
        // What is typed before the line is the shell's gets lost: ask again until there is an answer.
        loop {
            shell.send("echo are-you-$((20+3))")?;
            if shell.read_until("are-you-23", Duration::from_millis(300)).is_ok() {
                break;
            }
            if Instant::now() > until {
                return Err(format!("the guest's shell did not answer within {limit:?}"));
            }
        }
        // Answers to earlier questions.
        std::thread::sleep(Duration::from_millis(50));
        shell.run("true", ANSWER).map(|_| shell)
    }

    fn send(&mut self, line: &str) -> Result<(), String> {
        self.line
            .write_all(format!("{line}\n").as_bytes())
            .map_err(|error| format!("the guest is gone: {error}"))
    }

    /// Starts a command; [`Shell::finish`] waits for its end.
    pub fn start(&mut self, command: &str) -> Result<(), String> {
        self.commands += 1;
        let n = self.commands;
        self.send(&format!("echo @begin-{n}; ( {command}\n ) </dev/null 2>&1; echo \"@end-{n} $?\""))?;
        self.read_until(&format!("@begin-{n}\n"), ANSWER).map(drop)
    }

    /// Waits for the end of the command; gives what it said since the last look.
    pub fn finish(&mut self, limit: Duration) -> Result<Said, String> {
        let mark = format!("@end-{} ", self.commands);
        let text = self.read_until(&mark, limit)?;
        let status = self.read_until("\n", ANSWER)?;
        let status = status.trim().parse().map_err(|_| format!("{status:?} is no exit status"))?;
        Ok(Said { status, text })
    }

    /// Runs a command to its end.
    pub fn run(&mut self, command: &str, limit: Duration) -> Result<Said, String> {
        self.start(command)?;
        self.finish(limit).map_err(|error| format!("`{command}`: {error}"))
    }

    /// All up to `text`, which is taken away too.
    fn read_until(&mut self, text: &str, limit: Duration) -> Result<String, String> {
        let until = Instant::now() + limit;
        loop {
            let found = self.unread.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = found {
                let before: Vec<u8> = self.unread.drain(..at + text.len()).collect();
                return Ok(String::from_utf8_lossy(&before[..at]).replace('\r', ""));
            }
            let mut buffer = [0; 4096];
            match self.line.read(&mut buffer) {
                Ok(0) => return Err(format!("the guest ended; it had said: {}", self.rest())),
                Ok(count) => self.unread.extend(buffer[..count].iter().filter(|&&byte| byte != b'\r')),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() > until {
                        return Err(format!("no {text:?} within {limit:?}; it said: {}", self.rest()));
                    }
                }
                Err(error) => return Err(format!("the guest's line: {error}")),
            }
        }
    }

    fn rest(&self) -> String {
        String::from_utf8_lossy(&self.unread).into_owned()
    }
}
