//! Owned DMA memory, and records of one cache line each cut from shared pages.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use crate::card::{Card, CardError, DmaMemory};
use crate::error::Error;
use crate::lock;
use crate::rings::Rings;

/// A program that gives the memory for rings.
pub trait Lender: Send + Sync {
    /// Memory of `bytes` bytes, aligned to 4096, or none, for which the card's own is to be used.
    fn lend(&self, bytes: usize) -> Result<Option<NonNull<u8>>, CardError>;
    /// Takes it back.
    fn take_back(&self, ptr: *mut u8);
}

/// DMA memory that returns to its allocator when dropped.
pub(crate) struct Dma<C: Card> {
    owner: Owner<C>,
    ptr: *mut u8,
    iova: u64,
    len: usize,
    card: Arc<C>,
}

/// Where memory came from.
enum Owner<C: Card> {
    /// The card's allocator.
    Card(DmaMemory),
    /// A block of rings.
    Rings(Arc<Rings<C>>),
    /// A program.
    Lender(Arc<dyn Lender>),
    /// Leaked.
    Leaked,
}

// SAFETY: Dma only owns the range; each access to the bytes is justified in its place.
unsafe impl<C: Card> Send for Dma<C> {}
// SAFETY: as above, a shared Dma gives out only addresses, or bytes through `read` and `write`,
// whose callers own the range at that time.
unsafe impl<C: Card> Sync for Dma<C> {}

impl<C: Card> Dma<C> {
    /// Zeroed memory.
    pub fn alloc(card: &Arc<C>, bytes: usize) -> Result<Self, CardError> {
        let memory = card.alloc(bytes)?;
        Ok(Dma {
            ptr: memory.ptr,
            iova: memory.iova,
            len: bytes,
            owner: Owner::Card(memory),
            card: card.clone(),
        })
    }

    /// Zeroed memory of a lender; where there is none, or it gives none, what `own` gives.
    pub fn lent(
        card: &Arc<C>,
        lender: Option<&Arc<dyn Lender>>,
        bytes: usize,
        own: impl FnOnce() -> Result<Self, CardError>,
    ) -> Result<Self, CardError> {
        // Whole pages, which hold nothing else.
        let len = bytes.next_multiple_of(PAGE);
        let Some(lender) = lender else { return own() };
        let Some(ptr) = lender.lend(len)?.map(NonNull::as_ptr) else { return own() };
        // SAFETY: memory of this length, given for nothing else.
        unsafe { ptr.write_bytes(0, len) };
        match card.map(ptr, len, true) {
            Ok(iova) => Ok(Dma { ptr, iova, len, owner: Owner::Lender(lender.clone()), card: card.clone() }),
            Err(error) => {
                lender.take_back(ptr);
                Err(error)
            }
        }
    }

    /// A piece of a block of rings.
    pub fn piece(rings: Arc<Rings<C>>, ptr: *mut u8, iova: u64, len: usize) -> Self {
        Dma { ptr, iova, len, card: rings.card.clone(), owner: Owner::Rings(rings) }
    }

    /// Where this process sees it.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Where the card sees it.
    pub fn iova(&self) -> u64 {
        self.iova
    }

    /// Copies bytes in.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len);
        // SAFETY: the range was just checked; the caller owns this part of the memory now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.add(at), bytes.len()) }
    }

    /// Copies bytes out.
    pub fn read(&self, at: usize, bytes: &mut [u8]) {
        assert!(at + bytes.len() <= self.len);
        // SAFETY: the range was just checked; the caller knows that the card has written it.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(at), bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Never frees the memory: the card may still be using it.
    pub fn leak(mut self) {
        self.owner = Owner::Leaked;
    }

    /// After a command that uses the memory: if it has failed, the memory is freed, or leaked where the card may still execute it.
    pub fn after<T>(self, done: Result<T, Error>) -> Result<(Self, T), Error> {
        match done {
            Ok(done) => Ok((self, done)),
            Err(error) => {
                if error.may_execute() {
                    self.leak();
                }
                Err(error)
            }
        }
    }
}

impl<C: Card> Drop for Dma<C> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.owner, Owner::Leaked) {
            Owner::Card(memory) => self.card.free(memory),
            Owner::Rings(rings) => rings.give(self.ptr, self.iova, self.len),
            Owner::Lender(lender) => {
                self.card.unmap(self.iova, self.ptr, self.len);
                lender.take_back(self.ptr);
            }
            Owner::Leaked => (),
        }
    }
}

/// Bytes of a record: a cache line, so that two queues never share one.
const RECORD: usize = 64;
/// Bytes of a page, as of records, or of what is lent.
pub(crate) const PAGE: usize = 4096;

/// Hands out 32-bit records in DMA memory; pages are freed with the pool.
pub(crate) struct Records<C: Card> {
    card: Arc<C>,
    pool: Mutex<Pool<C>>,
}

struct Pool<C: Card> {
    free: Vec<Record>,
    pages: Vec<Dma<C>>,
}

/// A record of 32 bits that the card can read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// Where this process sees it.
    pub cell: *const AtomicU32,
    /// Where the card sees it.
    pub iova: u64,
}

// SAFETY: a Record is the address of an atomic.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl<C: Card> Records<C> {
    /// An empty pool.
    pub fn new(card: &Arc<C>) -> Self {
        Records { card: card.clone(), pool: Mutex::new(Pool { free: Vec::new(), pages: Vec::new() }) }
    }

    /// A zeroed record.
    pub fn alloc(&self) -> Result<Record, CardError> {
        let mut pool = lock(&self.pool);
        if pool.free.is_empty() {
            let page = Dma::alloc(&self.card, PAGE)?;
            for at in (0..PAGE).step_by(RECORD).rev() {
                let cell = page.ptr().wrapping_add(at).cast::<AtomicU32>();
                pool.free.push(Record { cell, iova: page.iova() + at as u64 });
            }
            pool.pages.push(page);
        }
        let record = pool.free.pop().ok_or(CardError::NoMemory { bytes: PAGE })?;
        // SAFETY: the record is in a page of this pool, which outlives it, and is aligned.
        unsafe { (*record.cell).store(0, std::sync::atomic::Ordering::Relaxed) };
        Ok(record)
    }

    /// Frees a record.
    pub fn free(&self, record: Record) {
        lock(&self.pool).free.push(record);
    }
}
