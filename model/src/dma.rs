//! DMA: addresses, faults, and atomic operations on memory.

use crate::plain::plain;

/// A DMA address: an IOVA in the address space of one attached process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Addr {
    /// IOVA.
    pub iova: u64,
    /// DMA domain (the attached process).
    pub domain: u16,
}

impl Addr {
    /// The address `n` bytes further.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // Of bytes, like a pointer's.
    pub fn add(self, n: u64) -> Addr {
        Addr { iova: self.iova.wrapping_add(n), domain: self.domain }
    }
}

/// A DMA access failed: the address is not mapped, or its process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFault;

/// Why payload was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// It cannot be read where it lies.
    Unread,
    /// It cannot be written where it goes to.
    Unwritten,
}

/// An atomic operation on eight bytes of memory.
#[derive(Clone, Copy, Debug)]
pub enum Atomic {
    /// Store `swap` if the value is `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Add.
    FetchAdd(u64),
}

impl Atomic {
    /// What is stored where the value was `original`; `None` where nothing is.
    pub fn applied(self, original: u64) -> Option<u64> {
        match self {
            Atomic::CompareSwap { compare, swap } => (original == compare).then_some(swap),
            Atomic::FetchAdd(add) => Some(original.wrapping_add(add)),
        }
    }
}

plain! {
    Addr { iova, domain }
}
