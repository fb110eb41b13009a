//! Why a keeper did not run.

use std::io;
use std::path::{Path, PathBuf};

use super::attach::AttachError;

/// Why a keeper did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The net has a keeper.
    #[error("cards are running at {0} already")]
    AlreadyRunning(PathBuf),
    /// Others could interfere.
    #[error("{0} must be a directory of this user's with mode 0700: remove it, or choose another with XDG_RUNTIME_DIR")]
    UnsafeDirectory(PathBuf),
    /// The heap is larger than the segment's tables can describe.
    #[error("a heap of {0} bytes is too large")]
    HeapTooLarge(u64),
    /// The socket cannot be used.
    #[error(transparent)]
    Socket(AttachError),
    /// A port cannot have its medium.
    #[error(transparent)]
    Port(#[from] crate::link::outside::PortError),
    /// Ports with a medium outside of the segment have the machine's time.
    #[error("in simulated time no port leaves the net: leave out --port, or --clock virtual")]
    PortsInSimulatedTime,
    /// There are too many of them.
    #[error("{0} sockets are too many for one net")]
    TooManySockets(usize),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A file that the net is to write cannot be made.
    #[error("making the {what} file {}: {error}", path.display())]
    File {
        /// What it is for.
        what: &'static str,
        /// Where it was to be.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that the net is to write is that of another.
    #[error("another net is writing {}: choose another file, or end that net's programs first", .0.display())]
    FileTaken(PathBuf),
}

impl KeeperError {
    pub(in crate::segment) fn system(what: &'static str, error: io::Error) -> KeeperError {
        KeeperError::System { what, error }
    }

    /// Why a file could not be [made](crate::claimed::make).
    pub(crate) fn file(what: &'static str, path: &Path, error: io::Error) -> KeeperError {
        match error.kind() {
            io::ErrorKind::WouldBlock => KeeperError::FileTaken(path.into()),
            _ => KeeperError::File { what, path: path.into(), error },
        }
    }
}
