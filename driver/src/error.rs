//! Errors of driver calls; every message says what to do.

use std::time::Duration;

use fpga_regs::regs::{DEVICE_ID, VENDOR_ID, VERSION_MAJOR};
use fpga_regs::{AdminOpcode, AdminStatus, Syndrome};

use crate::card::CardError;

/// The result of a driver call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a driver call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The backend failed.
    #[error(transparent)]
    Card(#[from] CardError),
    /// The identity register does not name a Verbena card.
    #[error(
        "this is not a Verbena card: vendor {vendor:#06x} device {device:#06x} was read, \
         {VENDOR_ID:#06x} {DEVICE_ID:#06x} is needed; check which PCI slot was given"
    )]
    Foreign {
        /// Vendor read.
        vendor: u16,
        /// Device read.
        device: u16,
    },
    /// The card speaks a newer definition.
    #[error(
        "the card has register definition {major}.{minor}, this driver knows {VERSION_MAJOR}.x: \
         install a driver that is as new as the card's firmware"
    )]
    Version {
        /// Major read.
        major: u16,
        /// Minor read.
        minor: u16,
    },
    /// Reset or enable did not complete.
    #[error(
        "{what} did not complete within {after:?} (status {status:#x}, cause {cause:#x}): power-cycle the card"
    )]
    BringUp {
        /// The step.
        what: &'static str,
        /// Time waited.
        after: Duration,
        /// STATUS register.
        status: u32,
        /// ERROR_CAUSE register.
        cause: u32,
    },
    /// The card is not in the state that the driver brought it to.
    #[error(
        "the card was reset or failed while it was in use (status {status:#x}, cause {cause:#x}): \
         close the device and open it again"
    )]
    Lost {
        /// STATUS register.
        status: u32,
        /// ERROR_CAUSE register.
        cause: u32,
    },
    /// An admin command got no reply.
    #[error("the card did not answer {command} within {after:?}: reset the card or restart what serves it")]
    Timeout {
        /// The command.
        command: AdminOpcode,
        /// Time waited.
        after: Duration,
    },
    /// The card refused an admin command.
    #[error("the card refused {command}: {status} (syndrome {syndrome}); {}", refusal(*.status).1)]
    Refused {
        /// The command.
        command: AdminOpcode,
        /// The reply's status.
        status: AdminStatus,
        /// The reply's detail.
        syndrome: Syndrome,
    },
    /// An invalid argument.
    #[error("{0}")]
    Invalid(String),
    /// More was asked for than the card has.
    #[error("{what}: {asked} asked for, the card's limit is {limit}")]
    Limit {
        /// Which limit.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// What the card can do.
        limit: u64,
    },
    /// The destination GID has no Ethernet address.
    #[error("no path to {}: check the GID, the GID index and that the peer's port is up", std::net::Ipv6Addr::from(*.gid))]
    Unreachable {
        /// The destination.
        gid: [u8; 16],
    },
    /// A port has no GID at an index.
    #[error("port {port} has no GID at index {index}: `ibv_devinfo -v` shows those that it has")]
    NoGid {
        /// The port.
        port: u8,
        /// The index.
        index: u8,
    },
    /// Something that this card or driver does not do.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
    /// The object was destroyed before.
    #[error("this {0} was destroyed already")]
    Destroyed(&'static str),
    /// The card's answer is impossible.
    #[error("the card broke the protocol: {0}; reset it")]
    Protocol(String),
}

impl Error {
    /// A refused argument.
    pub fn invalid(text: impl Into<String>) -> Self {
        Error::Invalid(text.into())
    }

    /// The card may still execute the command that failed.
    pub(crate) fn may_execute(&self) -> bool {
        matches!(self, Error::Timeout { .. } | Error::Lost { .. })
    }

    /// The errno of the man pages for this error.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Card(CardError::NoMemory { .. }) => libc::ENOMEM,
            Error::Card(CardError::Map { .. }) => libc::EFAULT,
            Error::Card(CardError::NoVector { .. }) => libc::EINVAL,
            Error::Card(CardError::Os { source, .. }) => source.raw_os_error().unwrap_or(libc::EIO),
            Error::Card(CardError::Gone | CardError::Setup(_)) => libc::ENODEV,
            Error::Foreign { .. } | Error::Version { .. } => libc::ENODEV,
            Error::BringUp { .. } | Error::Timeout { .. } => libc::ETIMEDOUT,
            Error::Refused { status, .. } => refusal(*status).0,
            Error::Invalid(_) | Error::Limit { .. } | Error::Destroyed(_) => libc::EINVAL,
            Error::Unsupported(_) => libc::EOPNOTSUPP,
            Error::Unreachable { .. } => libc::EHOSTUNREACH,
            // As Linux says since 5.11.
            Error::NoGid { .. } => libc::ENODATA,
            Error::Protocol(_) | Error::Lost { .. } => libc::EIO,
        }
    }
}

/// Fails where an argument is wrong.
pub(crate) fn refuse_if(wrong: bool, why: &'static str) -> Result<()> {
    match wrong {
        true => Err(Error::invalid(why)),
        false => Ok(()),
    }
}

/// Fails where more is asked for than there is.
pub(crate) fn within(what: &'static str, asked: impl Into<u64>, limit: impl Into<u64>) -> Result<()> {
    let (asked, limit) = (asked.into(), limit.into());
    match asked <= limit {
        true => Ok(()),
        false => Err(Error::Limit { what, asked, limit }),
    }
}

/// The errno of a refusal, and what helps.
fn refusal(status: AdminStatus) -> (i32, &'static str) {
    match status {
        AdminStatus::NO_RESOURCE => (libc::ENOMEM, "free objects of this kind or use fewer processes"),
        AdminStatus::IN_USE => (libc::EBUSY, "destroy what uses it first"),
        AdminStatus::NOT_FOUND => (libc::ENOENT, "the object does not exist (any more)"),
        AdminStatus::LIMIT => (libc::EINVAL, "ask for less, see the limits of the card"),
        AdminStatus::BAD_STATE => (libc::EINVAL, "query the object's state first, it may be in error"),
        AdminStatus::BAD_PARAM => (libc::EINVAL, "check the arguments"),
        AdminStatus::BAD_OPCODE | AdminStatus::NOT_SUPPORTED => {
            (libc::EOPNOTSUPP, "this card does not do that")
        }
        AdminStatus::INTERNAL | AdminStatus::DMA_ERROR => (libc::EIO, "reset the card"),
        _ => (libc::EINVAL, "reset the card"),
    }
}

/// Why a work request was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The ring has no room.
    #[error("the queue is full: poll completions first, or create it deeper")]
    QueueFull,
    /// The work request is wrong.
    #[error("bad work request: {0}")]
    Invalid(&'static str),
    /// The QP cannot take work requests in its state.
    #[error("the QP's state does not allow posting here: move it to RTS (sends) or INIT (receives) first")]
    State,
}

impl PostError {
    /// The errno of the man pages.
    pub fn errno(self) -> i32 {
        match self {
            PostError::QueueFull => libc::ENOMEM,
            PostError::Invalid(_) | PostError::State => libc::EINVAL,
        }
    }
}

/// Why a CQ cannot be polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CqError {
    /// A completion names a work request that was never posted.
    #[error(
        "the card completed work request {index} of QP {qpn:#x}, which was never posted: reset the card"
    )]
    BadEntry {
        /// Whose completion.
        qpn: u32,
        /// Which work request.
        index: u32,
    },
    /// The card is gone.
    #[error("the card is gone (its registers read all ones): check the slot or the process that serves it")]
    Gone,
    /// The card was reset or failed.
    #[error("the card was reset or failed while it was in use: close the device and open it again")]
    Lost,
    /// The CQ was destroyed.
    #[error("this CQ was destroyed already")]
    Destroyed,
}
