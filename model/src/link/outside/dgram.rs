//! The medium `dgram:LOCAL,REMOTE`: each frame in a datagram between two UNIX sockets, as QEMU's `-netdev dgram` has it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::opened::Failed;
use super::raw::{Found, Raw, Wire};
use crate::packet::PortId;

/// The path MTU: the medium has no limit of its own.
pub(super) const LARGEST: u32 = 4096;
/// How long a peer that does not read is waited for. Its kernel keeps ten frames or so for it.
const FULL: Duration = Duration::from_millis(50);
/// How long it is not waited for after that.
const STUCK: Duration = Duration::from_millis(500);

/// Two sockets' names: ours, which exists as long as this does, and the peer's, which may come later.
pub(super) struct Dgram {
    socket: UnixDatagram,
    local: PathBuf,
    remote: PathBuf,
    /// The peer did not read; until then it is not waited for.
    stuck: Option<Instant>,
}

/// Opens it.
pub(super) fn open(port: PortId, local: &Path, remote: &Path) -> Found {
    let bound = remove_stale(local, |path| UnixDatagram::unbound()?.connect(path))
        .and_then(|()| UnixDatagram::bind(local))
        .and_then(|socket| socket.set_write_timeout(Some(FULL)).map(|()| socket));
    let socket = bound.map_err(|error| not_bound(local, error))?;
    let wire = Dgram { socket, local: local.into(), remote: remote.into(), stuck: None };
    Ok((Box::new(wire), Raw::own(port, LARGEST)))
}

/// Why a UNIX socket cannot be made.
pub(super) fn not_bound(path: &Path, error: io::Error) -> Failed {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => "is there already: another net has it, or it is no socket",
        io::ErrorKind::NotFound => "cannot be made, its directory is missing",
        _ => "cannot be made",
    };
    (format!("the socket {} {what}", path.display()), error)
}

/// Removes a socket that a process has left behind which is gone. Whatever else is there stays, and is in the way.
pub(super) fn remove_stale(path: &Path, connect: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

impl Wire for Dgram {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.socket.as_fd()]
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.stuck.is_some_and(|until| Instant::now() < until) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.stuck = None;
        let sent = self.socket.send_to(frame, &self.remote);
        if sent.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.stuck = Some(Instant::now() + STUCK);
        }
        sent.map(drop)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        // A longer one is cut off, which its ICRC shows.
        match rustix::net::recv(&self.socket, into, rustix::net::RecvFlags::DONTWAIT) {
            Ok((len, _)) => Ok(Some(len)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl std::ops::Drop for Dgram {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.local);
    }
}
