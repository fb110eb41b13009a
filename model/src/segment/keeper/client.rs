//! A connection to the keeper, and what it is for.

use std::os::fd::OwnedFd;

/// A connection.
pub(super) struct Client {
    /// Ends when the process does.
    pub connection: OwnedFd,
    /// What it is for.
    pub role: Role,
    /// Its process, after its first message; 0 if that is in a namespace that is not visible here.
    pub pid: u32,
    /// The segment does not stay for it.
    pub watches: bool,
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Has to say hello until then.
    Greeting(u64),
    /// The segment stays.
    Hold,
    /// Of a process that has mapped the segment.
    Member(u16),
}
