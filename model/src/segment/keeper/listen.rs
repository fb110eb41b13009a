//! The keeper's socket file: one keeper for each path, private to its user.
#![allow(unsafe_code)]

use std::fs::{self, DirBuilder, File};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};
use rustix::net::{
    accept_with, bind, listen, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
};

use super::attach::{dial, AttachError};
use super::error::KeeperError;
use crate::segment::now_ns;

/// How long another keeper may take to start or end.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long descriptors are waited for.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A listening socket and its file.
pub(in crate::segment) struct Listener {
    pub(in crate::segment) socket: OwnedFd,
    path: PathBuf,
    /// This keeper made the directory, and removes it if it is empty at the end.
    made_directory: bool,
    /// The file is.
    pub(in crate::segment) removed: bool,
    /// When to look for clients again. Those that no descriptor is left for keep the socket readable.
    pub(in crate::segment) accept_at: u64,
}

impl Listener {
    /// Listens at `path`, unless a keeper is alive there.
    pub(in crate::segment) fn new(path: &Path) -> Result<Listener, KeeperError> {
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let begin = Instant::now();
        loop {
            let made_directory = match DirBuilder::new().mode(0o700).create(directory) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(KeeperError::system("making the socket's directory", error)),
            };
            check_directory(directory)?;
            match Self::bind_in(directory, path, made_directory) {
                // The previous keeper has just removed the directory.
                Err(KeeperError::System { error, .. })
                    if error.kind() == io::ErrorKind::NotFound && begin.elapsed() < PATIENCE => {}
                result => return result,
            }
        }
    }

    fn bind_in(directory: &Path, path: &Path, made_directory: bool) -> Result<Listener, KeeperError> {
        let _alone = lock_directory(directory)
            .map_err(|error| KeeperError::system("locking the socket's directory", error))?;
        match dial(path) {
            Ok(_) => return Err(KeeperError::AlreadyRunning(path.into())),
            Err(AttachError::NoKeeper(_)) => {}
            Err(error) => return Err(KeeperError::Socket(error)),
        }
        // Under another name first, so that the socket that clients see is listening already.
        let new = path.with_file_name("new");
        match fs::remove_file(&new) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(KeeperError::system("removing a stale socket", error)),
        }
        let system = |error: rustix::io::Errno| {
            KeeperError::system("listening for the programs that use the cards", error.into())
        };
        let address = SocketAddrUnix::new(&new).map_err(system)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(system)?;
        bind(&socket, &address).map_err(system)?;
        listen(&socket, 128).map_err(system)?;
        fs::rename(&new, path).map_err(|error| KeeperError::system("naming the socket", error))?;
        Ok(Listener { socket, path: path.into(), made_directory, removed: false, accept_at: 0 })
    }

    /// The next connection, if there is one, and a descriptor for it.
    pub(in crate::segment) fn accept(&mut self) -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let accepted = accept_with(&self.socket, flags);
        if accepted.as_ref().is_err_and(|&error| error != rustix::io::Errno::AGAIN) {
            // A client waits: no descriptor is left for it.
            self.accept_at = now_ns() + ACCEPT_RETRY.as_nanos() as u64;
        }
        accepted.ok()
    }

    /// Keeps other keepers from starting in this directory, while it is decided
    /// whether this one ends.
    pub(in crate::segment) fn lock(&self) -> Option<File> {
        lock_directory(self.path.parent()?).ok()
    }

    /// Removes the file (and the directory, if this keeper made it), once:
    /// afterwards the path may be another keeper's.
    pub(in crate::segment) fn remove(&mut self) {
        if std::mem::replace(&mut self.removed, true) {
            return;
        }
        let _ = fs::remove_file(&self.path);
        if let (true, Some(directory)) = (self.made_directory, self.path.parent()) {
            // Fails, as it should, while another net has its socket there.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// User and process at the other end of a connection. The process is 0 when it
/// is in a process namespace that this one cannot see.
pub(in crate::segment) fn peer(connection: &OwnedFd) -> io::Result<(u32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` is a ucred and `len` its size.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &mut len,
        )
    };
    match result {
        0 => Ok((peer.uid, peer.pid.unsigned_abs())),
        _ => Err(io::Error::last_os_error()),
    }
}

/// No other user may be able to put a socket in this place.
fn check_directory(directory: &Path) -> Result<(), KeeperError> {
    let found = fs::symlink_metadata(directory)
        .map_err(|error| KeeperError::system("looking at the socket's directory", error))?;
    let me = rustix::process::geteuid().as_raw();
    if !found.is_dir() || found.uid() != me || found.mode() & 0o077 != 0 {
        return Err(KeeperError::UnsafeDirectory(directory.into()));
    }
    Ok(())
}

/// Locks the directory itself, so that no lock file remains.
fn lock_directory(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    let begin = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
