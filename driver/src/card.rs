//! All that the driver knows of the card: registers, DMA memory, interrupts, and hints.
//!
//! The driver is generic over [`Card`] and is compiled once for each backend, so that on hardware
//! the data path is only plain stores.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// A card function.
pub trait Card: Registers + Memory + Interrupts + Hints + Send + Sync + 'static {}

impl<C: Registers + Memory + Interrupts + Hints + Send + Sync + 'static + ?Sized> Card for C {}

/// BAR0 of a card.
pub trait Registers {
    /// Reads a 32-bit register.
    fn read32(&self, offset: u32) -> u32;
    /// Writes a 32-bit register, after all earlier stores to DMA memory.
    fn write32(&self, offset: u32, value: u32);
    /// Reads a 64-bit register.
    fn read64(&self, offset: u32) -> u64;
    /// Writes a 64-bit register, after all earlier stores to DMA memory.
    fn write64(&self, offset: u32, value: u64);
    /// Hot: a doorbell store (offset in a doorbell page). Orders after all earlier stores to DMA memory.
    fn doorbell(&self, offset: u32, value: u64);
    /// Whether the card may be pulled out or reset without the driver's knowledge: then long waits
    /// check its status from time to time.
    fn may_vanish(&self) -> bool {
        false
    }
}

/// Memory that a card can reach.
pub trait Memory {
    /// Zeroed, page-aligned DMA memory of at least `bytes`, visible to the card until `free`.
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError>;
    /// Frees memory of `alloc`; the card no longer uses it.
    fn free(&self, memory: DmaMemory);
    /// Makes `len` bytes of user memory at `addr` reachable by the card; returns the IOVA of `addr`.
    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError>;
    /// Undoes `map` for the same range.
    fn unmap(&self, iova: u64, addr: *mut u8, len: usize);
}

/// Interrupt vectors of a card.
pub trait Interrupts {
    /// Waits until interrupt `vector` fires (consuming it), or returns false after `timeout`.
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError>;
}

/// Hints for a card in software; hardware needs none of them.
pub trait Hints {
    /// Hot: a send doorbell follows soon.
    #[inline]
    fn expect_doorbell(&self) {}
    /// Hot: a send of this queue pair has completed, so more are posted soon.
    #[inline]
    fn expect_posts(&self, _qpn: u32) {}
    /// Hot: a poll has found `completions`; in simulated time a poll takes time.
    #[inline]
    fn polled(&self, _completions: usize) {}
    /// An empty poll, after `empty_polls` others in a row: a software card does what is due, hardware pauses.
    fn relax(&self, empty_polls: u32);
}

/// Memory that both the processor and the card can reach.
#[derive(Debug)]
pub struct DmaMemory {
    /// Where this process sees it.
    pub ptr: *mut u8,
    /// Where the card sees it.
    pub iova: u64,
    /// Bytes.
    pub len: usize,
}

// SAFETY: DmaMemory only describes a range; each piece of code that dereferences `ptr` justifies its access.
unsafe impl Send for DmaMemory {}
// SAFETY: as above; a shared DmaMemory gives out nothing but its address.
unsafe impl Sync for DmaMemory {}

/// What a backend can fail with.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// No DMA memory left.
    #[error("no DMA memory for {bytes} bytes: raise RLIMIT_MEMLOCK (ulimit -l) or free some queues")]
    NoMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// User memory cannot be made reachable.
    #[error("cannot map {len} bytes at {addr:#x} for DMA: {reason}")]
    Map {
        /// Start of the range.
        addr: u64,
        /// Bytes.
        len: usize,
        /// Why, and what helps.
        reason: String,
    },
    /// The card has disappeared.
    #[error("the card is gone (its registers read all ones): check the slot or the process that serves it")]
    Gone,
    /// The backend has no such interrupt.
    #[error("interrupt vector {vector} does not exist: the card has {count}")]
    NoVector {
        /// Asked for.
        vector: u32,
        /// How many there are.
        count: u32,
    },
    /// The backend could not be set up; the text says what to do.
    #[error("{0}")]
    Setup(String),
    /// A call to the operating system failed.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}
