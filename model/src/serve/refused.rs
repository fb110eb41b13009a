//! The error of a command: what the client is told.

/// A command that is not carried out.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) errno: i32,
    pub(super) reason: String,
}

impl Refused {
    pub(super) fn new(errno: i32, reason: impl Into<String>) -> Refused {
        Refused { errno, reason: reason.into() }
    }

    pub(super) fn invalid(reason: impl Into<String>) -> Refused {
        Refused::new(libc::EINVAL, reason)
    }
}
