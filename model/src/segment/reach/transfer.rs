//! A copy between this process and memory of a member, and how it fails.

/// A DMA access that failed, as a card's would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DmaFault {
    /// The member has not mapped this address.
    #[error("address {iova:#x} of member {member} is not mapped for DMA")]
    NotMapped {
        /// Whose address.
        member: u16,
        /// The address.
        iova: u64,
    },
    /// It is mapped, but not for this access.
    #[error("address {iova:#x} of member {member} is not mapped for this kind of access")]
    Forbidden {
        /// Whose address.
        member: u16,
        /// The address.
        iova: u64,
    },
    /// It is mapped, but its process cannot be reached: the process has
    /// unmapped it or has ended, or the system forbids the access (EPERM).
    #[error("memory of member {member} at {iova:#x} cannot be reached: error {errno}")]
    Unreachable {
        /// Whose address.
        member: u16,
        /// The address.
        iova: u64,
        /// The error of the system call.
        errno: i32,
    },
}

impl DmaFault {
    /// The member that owns the memory.
    pub fn member(&self) -> u16 {
        let (Self::NotMapped { member, .. }
        | Self::Forbidden { member, .. }
        | Self::Unreachable { member, .. }) = *self;
        member
    }
}

/// Direction of a copy, seen from `Transfer::here`.
#[derive(Clone, Copy)]
pub(in crate::segment) enum Direction {
    /// From the member.
    Read,
    /// To the member.
    Write,
}

/// One copy between `here`, in this process, and `iova` of a member.
#[derive(Clone, Copy)]
pub(in crate::segment) struct Transfer {
    pub(in crate::segment) member: u16,
    pub(in crate::segment) iova: u64,
    pub(in crate::segment) here: *mut u8,
    pub(in crate::segment) len: usize,
    pub(in crate::segment) direction: Direction,
}

impl Transfer {
    /// Its first `len` bytes.
    pub(in crate::segment) fn first(self, len: usize) -> Transfer {
        Transfer { len, ..self }
    }

    /// All but its first `done` bytes.
    pub(in crate::segment) fn after(self, done: usize) -> Transfer {
        let here = self.here.wrapping_add(done);
        Transfer { iova: self.iova + done as u64, here, len: self.len - done, ..self }
    }

    /// The fault of a system call that failed with `errno`.
    pub(in crate::segment) fn unreachable(&self, errno: i32) -> DmaFault {
        DmaFault::Unreachable { member: self.member, iova: self.iova, errno }
    }
}
