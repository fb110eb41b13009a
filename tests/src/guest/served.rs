//! Cards that `verbena serve` serves, for slots.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::stock::{verbena_in, Program};

/// How long the server may take until it listens.
const START: Duration = Duration::from_secs(60);

/// Served cards of one net. The server ends when this is dropped.
pub struct Served {
    server: Program,
    cards: usize,
    dir: tempfile::TempDir,
}

impl Served {
    /// Serves the first `cards` cards of a new net of two, and waits until the server listens.
    pub fn start(cards: usize, options: &[&str]) -> Served {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = verbena_in(dir.path());
        command.arg("serve").args(options);
        for card in 0..cards {
            command.arg("--socket").arg(dir.path().join(format!("card{card}")));
        }
        let mut server = Program::start(command);
        let last = format!("card{} ", cards - 1);
        server.expect(&format!("{}\n", dir.path().join(last.trim()).display()), START);
        Served { server, cards, dir }
    }

    /// Where they listen.
    pub fn sockets(&self) -> Vec<PathBuf> {
        (0..self.cards).map(|card| self.dir.path().join(format!("card{card}"))).collect()
    }

    /// The runtime directory of their net.
    pub fn runtime(&self) -> &Path {
        self.dir.path()
    }

    /// What the server has said.
    pub fn said(&self) -> String {
        self.server.said()
    }

    /// Ends it in the middle of whatever it does, as a card that is pulled out. (Not by SIGKILL: QEMU 11.1 ends
    /// with it where a message to it was not read yet.)
    pub fn pull(&self) {
        self.server.signal(libc::SIGTERM);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.said());
        }
    }
}
