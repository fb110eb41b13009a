//! The one thing the driver knows of the card beneath it: a trait for BAR access, DMA memory and interrupts.
//!
//! The driver is generic over [`Card`] and is compiled once for each backend, so that on hardware
//! the data path is nothing but plain stores.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// A card function: its BAR0, memory that it can reach, and its interrupts.
pub trait Card: Send + Sync + 'static {
    /// Reads a 32-bit register of BAR0.
    fn read32(&self, offset: u32) -> u32;
    /// Writes a 32-bit register of BAR0, after all earlier stores to DMA memory.
    fn write32(&self, offset: u32, value: u32);
    /// Reads a 64-bit register of BAR0.
    fn read64(&self, offset: u32) -> u64;
    /// Writes a 64-bit register of BAR0, after all earlier stores to DMA memory.
    fn write64(&self, offset: u32, value: u64);
    /// Hot: a doorbell store (offset in a doorbell page). Orders after all earlier stores to DMA memory.
    fn doorbell(&self, offset: u32, value: u64);
    /// Hot: a whole WQE (multiple of 64 bytes, at most `PUSH_BYTES`) and its doorbell through the push window.
    fn push(&self, offset: u32, wqe: &[u8], doorbell_offset: u32, value: u64);
    /// Zeroed, page-aligned DMA memory visible to the card, until `free`.
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError>;
    /// Gives back memory of `alloc`; the card no longer uses it.
    fn free(&self, memory: DmaMemory);
    /// Makes user memory reachable by the card; returns the IOVA of `addr`.
    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError>;
    /// Takes back what `map` did for the same range.
    fn unmap(&self, iova: u64, addr: *mut u8, len: usize);
    /// Waits until interrupt `vector` fires (consuming it) or the time is over (false).
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError>;
    /// Hot: a send doorbell will follow soon. A hint for cards in memory; hardware needs none.
    #[inline]
    fn expect_doorbell(&self) {}
    /// Hot: a send of this queue pair has completed, so that more will be posted soon. A hint as the one before.
    #[inline]
    fn expect_posts(&self, _qpn: u32) {}
    /// Hot: a poll has found so many completions. A hint for cards in simulated time, where that takes time.
    #[inline]
    fn polled(&self, _completions: usize) {}
    /// Whether the card may be pulled out or reset behind the driver's back: then whoever waits long
    /// looks at its status now and then.
    fn may_vanish(&self) -> bool {
        false
    }
    /// Called on an empty poll: a software card runs what is due; hardware pauses.
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

// SAFETY: DmaMemory is only the description of a range; who reads and writes the bytes is
// decided by the code that dereferences `ptr`, each with its own reason.
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
