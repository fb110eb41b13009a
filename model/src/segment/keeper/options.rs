//! What a keeper is started with.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::segment::Segment;

/// Most sockets that a keeper passes on: the kernel lets 253 descriptors pass at once (SCM_MAX_FD).
pub const MAX_SOCKETS: usize = 224;
/// Most descriptors that a keeper passes on: the memory and an eventfd, and sockets.
pub(in crate::segment) const MAX_PASSED: usize = 2 + MAX_SOCKETS;

/// Called with the member that has ended; false when it has to be called again.
pub type OnMemberGone = Box<dyn FnMut(&Segment, u16) -> bool>;
/// Runs timers, returns the next deadline.
pub type OnTimer = Box<dyn FnMut(&Arc<Segment>) -> u64>;
/// Looks if it is time, returns when it is again.
pub type OnLook = Box<dyn FnMut(&Segment) -> u64>;
/// Called with a time (ns); whether there is something to do before it.
pub type OnAlone = Box<dyn FnMut(&Segment, u64) -> bool>;

/// Works beside the keeper, in a thread of its own, until the descriptor is readable.
pub type Beside = Box<dyn FnOnce(Arc<Segment>, OwnedFd) + Send>;

/// A descriptor that the keeper listens to.
pub struct Watch {
    /// Readable when there is news.
    pub descriptor: OwnedFd,
    /// There may be news. The lock is not held. False when it has to be called again.
    pub on_news: Box<dyn FnMut(&Segment) -> bool>,
}

/// What a keeper is to do.
pub struct KeeperOptions {
    /// Where it listens. The directory belongs to the user, mode 0700; it is
    /// made if there is none (its parent must exist).
    pub socket_path: PathBuf,
    /// Size of the heap; it costs nothing until it is used.
    pub heap_bytes: u64,
    /// Size of the cards' area.
    pub world_bytes: u64,
    /// Namespaces for the programs of this segment, at most two, passed to each process that holds it.
    pub namespaces: Vec<OwnedFd>,
    /// Descriptors by which ports send to the outside, at most [`MAX_SOCKETS`], passed to each member.
    pub sockets: Vec<OwnedFd>,
    /// Files that only programs of this segment write, locked until the last of it is written.
    pub files: Vec<File>,
    /// Works while the keeper does.
    pub beside: Option<Beside>,
    /// Something outside of the segment that the cards follow.
    pub watch: Option<Watch>,
    /// Prepares the cards' area, which is zero, before any process can attach.
    pub init: Box<dyn FnOnce(&Segment)>,
    /// A member has ended. The lock is not held. Afterwards the member's memory
    /// is freed, so the cards must stop using it here.
    pub on_member_gone: OnMemberGone,
    /// Timers may be due: a deadline has passed, or the keeper
    /// was woken, or has just started. The lock is not held. Returns the next deadline
    /// (CLOCK_MONOTONIC, ns), `u64::MAX` if there is none.
    pub on_timer: OnTimer,
    /// Looks at the cards if it is time for that; returns when it is again, as `on_timer`. The lock is not held.
    pub on_look: Option<OnLook>,
    /// No connection is left, and no socket: whether something will be done before that time (ns) all the same.
    pub on_alone: OnAlone,
}
