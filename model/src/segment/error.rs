//! Why memory was not mapped or unmapped.

use std::time::Duration;

use super::lock::LockError;

/// How long a registration waits for the lock. A thread that runs the cards releases
/// it after each batch of work.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(20);

/// Why memory was not mapped or unmapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The lock could not be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Part of the buffer is not mapped, or not accessible as asked.
    #[error("address {0:#x} is not mapped in this process with the access that was asked for")]
    BadAddress(u64),
    /// The heap has no contiguous free range of that size.
    #[error("the card's memory is full")]
    HeapFull,
    /// The member's DMA map is full.
    #[error("too many separate memory ranges are mapped for DMA")]
    TooManyRanges,
    /// Something is mapped there already.
    #[error("address {0:#x} is mapped for DMA already")]
    AlreadyMapped(u64),
    /// Nothing is registered there.
    #[error("address {0:#x} is not mapped for DMA")]
    NotMapped(u64),
    /// A system call failed.
    #[error("reading this process's memory map failed: {0}")]
    System(#[from] std::io::Error),
}
