//! All that the driver knows of the card: registers, DMA memory, interrupts, and hints.
//!
//! The driver is generic over [`Card`] and is compiled once for each backend, so that on hardware
//! the data path is only plain stores.
#![allow(unsafe_code)]

use std::io;
use std::time::Duration;

/// One function of a card, as the driver sees it: a backend implements these four traits.
pub trait Card: Registers + Memory + Interrupts + Hints + Send + Sync + 'static {}

impl<C: Registers + Memory + Interrupts + Hints + Send + Sync + 'static + ?Sized> Card for C {}

/// BAR0 of a card. Offsets are bytes from its start ([`fpga_regs::regs`]).
pub trait Registers {
    /// Reads a 32-bit register.
    fn read32(&self, offset: u32) -> u32;
    /// Writes a 32-bit register; the card sees all earlier stores to DMA memory first.
    fn write32(&self, offset: u32, value: u32);
    /// Reads a 64-bit register.
    fn read64(&self, offset: u32) -> u64;
    /// Writes a 64-bit register; the card sees all earlier stores to DMA memory first.
    fn write64(&self, offset: u32, value: u64);
    /// Hot: writes a doorbell, by its offset in BAR0; the card sees all earlier stores to DMA memory first.
    fn doorbell(&self, offset: u32, value: u64);
    /// Whether the card may be unplugged or reset behind the driver's back: then long waits check its status from
    /// time to time.
    fn may_vanish(&self) -> bool {
        false
    }
}

/// Memory that a card can reach.
pub trait Memory {
    /// Zeroed, page-aligned DMA memory of at least `bytes`, visible to the card until `free`.
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError>;
    /// Frees memory from [`alloc`](Self::alloc), which the card must not use any more.
    fn free(&self, memory: DmaMemory);
    /// Makes `len` bytes of user memory at `addr` reachable by the card until [`unmap`](Self::unmap); returns the IOVA
    /// of `addr`. The card may write to them if `writable`.
    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError>;
    /// Undoes [`map`](Self::map) for the same range.
    fn unmap(&self, iova: u64, addr: *mut u8, len: usize);
}

/// Interrupt vectors of a card.
pub trait Interrupts {
    /// Waits until interrupt `vector` fires (consuming it), or returns false after `timeout`.
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError>;
}

/// Hints for a card in software. The defaults suit hardware, except that [`relax`](Self::relax) must pause.
pub trait Hints {
    /// Hot: a send doorbell follows soon.
    #[inline]
    fn expect_doorbell(&self) {}
    /// Hot: a send of this queue pair has completed, so its program will probably post again soon.
    #[inline]
    fn expect_posts(&self, _qpn: u32) {}
    /// Hot: a poll has returned this number of completions, for which simulated time charges the program.
    #[inline]
    fn polled(&self, _completions: usize) {}
    /// A poll found nothing, as did `empty_polls` others just before it. A software card runs work that is due; hardware
    /// pauses, and at times yields the core.
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
