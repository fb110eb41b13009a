//! Joining a segment: the client's side of the keeper's socket.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    connect, send, socket_with, sockopt, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use super::options::MAX_PASSED;
use super::protocol::{Hello, Kind, Verdict, Welcome, PROTOCOL_VERSION};
use crate::passing::receive_with;
use crate::segment::layout::{Tables, LAYOUT_VERSION, MAGIC};
use crate::segment::{reach::kernel, registry, Segment, MAX_MEMBERS};

/// How long the keeper may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why this process did not get into the segment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No keeper listens there. The launcher of a program starts one.
    #[error("no card is running at {0}: start the program with `verbena run`")]
    NoKeeper(PathBuf),
    /// The keeper was just ending, or refused to speak. Trying again may help.
    #[error("the keeper at {0} closed the connection: try again")]
    Closed(PathBuf),
    /// The keeper and this program are of different builds.
    #[error("the running cards are of another version of verbena (theirs {theirs:#x}, ours {ours:#x}): end the programs that use them, then start again")]
    OtherVersion {
        /// Version of the keeper.
        theirs: u32,
        /// Version of this program.
        ours: u32,
    },
    /// The segment belongs to somebody else.
    #[error("the cards at {0} belong to another user: choose another --net name")]
    OtherUser(PathBuf),
    /// All member indices are in use.
    #[error("too many processes use these cards (at most 255): end some, or choose another --net name")]
    Full,
    /// The path does not fit into a socket address.
    #[error("the socket path {0} is too long (at most 107 bytes): set XDG_RUNTIME_DIR or choose a shorter --net name")]
    PathTooLong(PathBuf),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl AttachError {
    fn system(what: &'static str) -> impl Fn(rustix::io::Errno) -> AttachError {
        move |error| AttachError::System { what, error: error.into() }
    }
}

impl Segment {
    /// Becomes a member of the segment whose keeper listens at `socket`.
    pub fn attach(socket: &Path) -> Result<Segment, AttachError> {
        Segment::join(socket, Kind::Member)
    }

    /// The same, but the segment does not stay for this process: it ends when all others have left.
    pub(crate) fn watch(socket: &Path) -> Result<Segment, AttachError> {
        Segment::join(socket, Kind::Watch)
    }

    fn join(socket: &Path, kind: Kind) -> Result<Segment, AttachError> {
        let (connection, welcome, descriptors) = greet(socket, kind)?;
        let mut descriptors = descriptors.into_iter();
        let Some((memfd, wake)) = descriptors.next().zip(descriptors.next()) else {
            return Err(AttachError::Closed(socket.into()));
        };
        let sockets = descriptors.collect();
        kernel::allow_access();
        let segment = registry::enter_segment(
            memfd,
            wake,
            Some(connection),
            sockets,
            welcome.total_bytes,
            welcome.member,
        )
        .map_err(|error| AttachError::System {
            what: "mapping the cards' memory (is there a limit on virtual memory, ulimit -v?)",
            error,
        })?;
        let header = &segment.tables().header;
        if welcome.total_bytes < size_of::<Tables>() as u64
            || usize::from(welcome.member) >= MAX_MEMBERS
            || header.magic != MAGIC
            || header.version != LAYOUT_VERSION
            || !segment.sized(header.world_bytes)
        {
            return Err(AttachError::OtherVersion { theirs: header.version, ours: LAYOUT_VERSION });
        }
        Ok(segment)
    }

    /// Keeps the segment alive while [`Hold::connection`] is open in any process.
    pub fn hold(socket: &Path) -> Result<Hold, AttachError> {
        let (connection, Welcome { alone, .. }, descriptors) = greet(socket, Kind::Hold)?;
        rustix::io::fcntl_setfd(&connection, rustix::io::FdFlags::empty())
            .map_err(AttachError::system("making a descriptor inheritable"))?;
        Ok(Hold { connection, namespaces: descriptors, alone })
    }

    /// Whether a keeper listens at `socket`: an error says why it cannot be had.
    pub fn ask(socket: &Path) -> Result<(), AttachError> {
        greet(socket, Kind::Ask).map(drop)
    }
}

/// A segment that stays.
#[derive(Debug)]
pub struct Hold {
    /// The connection to the keeper. It has no close-on-exec flag, so that a program executed next inherits it.
    pub connection: OwnedFd,
    /// The namespaces that the keeper keeps for the programs.
    pub namespaces: Vec<OwnedFd>,
    /// It stays for nobody else: it has just begun, or was about to end.
    pub alone: bool,
}

type Greeted = (OwnedFd, Welcome, Vec<OwnedFd>);

fn greet(path: &Path, kind: Kind) -> Result<Greeted, AttachError> {
    let connection = dial(path)?;
    let hello = Hello { version: PROTOCOL_VERSION, kind };
    let closed = |_| AttachError::Closed(path.into());
    send(&connection, &hello.encode(), SendFlags::NOSIGNAL).map_err(closed)?;

    let mut bytes = [0; Welcome::BYTES + 1];
    let received = receive_with(&connection, &mut bytes, MAX_PASSED);
    let (length, descriptors) = received.map_err(|error| match error {
        rustix::io::Errno::AGAIN => AttachError::System {
            what: "waiting for the keeper of the cards (is it stopped?)",
            error: io::ErrorKind::TimedOut.into(),
        },
        _ => AttachError::Closed(path.into()),
    })?;
    let Some(welcome) = Welcome::decode(&bytes[..length]) else {
        return Err(AttachError::Closed(path.into()));
    };
    match welcome.verdict {
        Verdict::ACCEPTED => Ok((connection, welcome, descriptors)),
        Verdict::OTHER_VERSION => {
            Err(AttachError::OtherVersion { theirs: welcome.version, ours: PROTOCOL_VERSION })
        }
        Verdict::OTHER_USER => Err(AttachError::OtherUser(path.into())),
        Verdict::FULL => Err(AttachError::Full),
        _ => Err(AttachError::Closed(path.into())),
    }
}

/// Connects to a keeper, with limits on how long it may take.
pub(in crate::segment) fn dial(path: &Path) -> Result<OwnedFd, AttachError> {
    let address = SocketAddrUnix::new(path).map_err(|_| AttachError::PathTooLong(path.to_path_buf()))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(AttachError::system("making a socket"))?;
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(&socket, which, Some(PATIENCE))
            .map_err(AttachError::system("setting up a socket"))?;
    }
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => {
                return Err(AttachError::NoKeeper(path.into()))
            }
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
                return Err(AttachError::OtherUser(path.into()))
            }
            Err(error) => return Err(AttachError::system("connecting to the keeper of the cards")(error)),
        }
    }
}
