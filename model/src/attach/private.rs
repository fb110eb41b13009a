//! [`PrivateNet`]: a net whose keeper is a thread of this process.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{panicking, sleep, spawn, JoinHandle};
use std::time::{Duration, Instant};

use super::keeper::{run_keeper, NetOptions};
use crate::segment::KeeperError;

/// How long the keeper may take to start, and to end; and the pause between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// See the module. Drop it after what was opened of the net: it waits for the keeper, and panics if that has failed.
pub struct PrivateNet {
    socket: PathBuf,
    keeper: Option<JoinHandle<Result<(), KeeperError>>>,
}

impl PrivateNet {
    /// Starts a net whose keeper listens at `socket`, and gives what `open` has opened of it, which it stays for. Errors are
    /// the keeper's, or say why nothing was opened.
    pub fn start<T, E: Into<Box<dyn Error + Send + Sync>>>(
        socket: &Path,
        options: impl Into<NetOptions>,
        open: impl Fn(&Path) -> Result<T, E>,
    ) -> Result<(PrivateNet, T), KeeperError> {
        let (at, options) = (socket.to_path_buf(), options.into());
        let keeper = spawn(move || run_keeper(&at, options));
        let until = Instant::now() + PATIENCE;
        loop {
            match open(socket) {
                Ok(opened) => {
                    return Ok((PrivateNet { socket: socket.into(), keeper: Some(keeper) }, opened))
                }
                Err(error) if keeper.is_finished() || Instant::now() > until => {
                    let failed = keeper.is_finished().then(|| keeper.join().ok()?.err()).flatten();
                    let (what, error) = ("opening a private net", io::Error::other(error));
                    return Err(failed.unwrap_or(KeeperError::System { what, error }));
                }
                Err(_) => sleep(PAUSE),
            }
        }
    }

    /// Where the keeper listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for PrivateNet {
    fn drop(&mut self) {
        let Some(keeper) = self.keeper.take() else { return };
        let until = Instant::now() + PATIENCE;
        while !keeper.is_finished() && Instant::now() < until {
            sleep(PAUSE);
        }
        if !panicking() {
            assert!(keeper.is_finished(), "the keeper of a private net does not end");
            keeper.join().expect("the keeper does not panic").expect("the keeper ends well");
        }
    }
}
