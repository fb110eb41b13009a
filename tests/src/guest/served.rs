//! A card that `verbena serve` serves, for a slot.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::stock::{verbena, Program};

/// How long the server may take until it listens.
const START: Duration = Duration::from_secs(10);

/// A served card. The server ends when this is dropped.
pub struct Served {
    server: Program,
    dir: tempfile::TempDir,
}

impl Served {
    /// Starts `verbena serve` with further options, and waits until it listens.
    pub fn start(options: &[&str]) -> Served {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("card");
        let mut command = Command::new(verbena());
        command.arg("serve").arg("--socket").arg(&socket).args(options);
        command.env("XDG_RUNTIME_DIR", dir.path());
        let mut server = Program::start(command);
        let until = Instant::now() + START;
        while !socket.exists() {
            let line = server.line().to_owned();
            assert!(!server.has_ended(), "`{line}` ended; it said:\n{}", server.said());
            assert!(Instant::now() < until, "`{line}` does not listen; it said:\n{}", server.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        Served { server, dir }
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("card")
    }

    /// Its runtime directory, which holds the nets that it joins.
    pub fn runtime(&self) -> &Path {
        self.dir.path()
    }

    /// What it has said.
    pub fn said(&self) -> String {
        self.server.said()
    }

    /// Ends it without a word, as a card that is pulled out.
    pub fn pull(&self) {
        self.server.signal(libc::SIGKILL);
    }
}
