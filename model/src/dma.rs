//! DMA: addresses, faults, and atomic operations on memory.

use fpga_regs::MAX_SGE;
use smallvec::{smallvec, SmallVec};

use crate::plain::Plain;

/// A DMA address: an IOVA in the address space of one attached process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Plain)]
#[repr(C)]
pub struct Addr {
    /// IOVA.
    pub iova: u64,
    /// DMA domain (the attached process).
    pub domain: u16,
}

impl Addr {
    /// The domain of no memory: it reads as zeros, and what is written to it is lost.
    pub const NOWHERE: u16 = u16::MAX;
    /// In a domain: the own memory of the card whose number the lower bits are.
    pub const ON_CARD: u16 = 1 << 15;
    /// In a domain: not what the process has mapped for DMA, but what it has at this address now.
    pub const ON_DEMAND: u16 = 1 << 14;

    /// The process whose memory it is; a number that no process has for memory of none.
    #[inline]
    pub fn process(self) -> u16 {
        self.domain & !Self::ON_DEMAND
    }

    /// The address `n` bytes further.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // Of bytes, like a pointer's.
    pub fn add(self, n: u64) -> Addr {
        Addr { iova: self.iova.wrapping_add(n), domain: self.domain }
    }
}

/// Bytes of a region that is a list of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Pages {
    /// IOVA of the list.
    pub list: u64,
    /// The first byte, counted from the beginning of the first page.
    pub from: u64,
    /// Domain of the list and of the pages.
    pub domain: u16,
    /// log2 of the bytes of a page.
    pub shift: u8,
}

impl Pages {
    /// Where byte `offset` is, and how many bytes follow in its page. `read` reads the list.
    pub fn at(
        &self,
        offset: u64,
        read: impl FnOnce(Addr, &mut [u8]) -> Result<(), DmaFault>,
    ) -> Result<(Addr, u64), DmaFault> {
        let at = self.from + offset;
        let (page, within) = (at >> self.shift, at & ((1 << self.shift) - 1));
        let mut entry = [0; 8];
        read(Addr { iova: self.list, domain: self.domain }.add(page * 8), &mut entry)?;
        let page = Addr { iova: u64::from_le_bytes(entry), domain: self.domain };
        Ok((page.add(within), (1 << self.shift) - within))
    }
}

/// Bytes of a card's own memory.
pub const CARD_MEMORY: usize = 256 << 10;

/// A DMA access failed: the address is not mapped, or its process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFault;

/// Most pieces: each SGE adds two ends to the pages of [`Env::GATHER_BYTES`](crate::env::Env::GATHER_BYTES).
const PIECES: usize = 2 * MAX_SGE + 64;
/// Pieces for which there is room without an allocation.
const FEW: usize = 4;

/// Pieces of memory, in order, that become one payload.
#[derive(Default)]
pub struct Pieces {
    pieces: SmallVec<[(Addr, u32); FEW]>,
    len: u32,
}

impl Pieces {
    /// One piece.
    #[inline]
    pub fn one(at: Addr, len: u32) -> Pieces {
        Pieces { pieces: smallvec![(at, len)], len }
    }

    /// Adds `len` bytes; fails if there are too many pieces.
    pub fn push(&mut self, at: Addr, len: u32) -> Result<(), DmaFault> {
        if self.pieces.len() == PIECES {
            return Err(DmaFault);
        }
        self.pieces.push((at, len));
        self.len += len;
        Ok(())
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Each piece: its place in the payload, its address and its length in bytes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Addr, usize)> + '_ {
        self.pieces.iter().scan(0, |end, &(at, len)| {
            let offset = *end;
            *end += len as usize;
            Some((offset, at, len as usize))
        })
    }
}

/// Why payload was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The source cannot be read.
    Unread,
    /// The target cannot be written.
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
