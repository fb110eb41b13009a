//! Ring memory for QPs, packed into large blocks.
//!
//! Rings that each start on a page would compete for the same few cache sets, because QPs that are used
//! in turn are at the same index of their rings. Packed one after the other they do not, and a
//! thousand QPs take less memory.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::card::{Card, CardError};
use crate::dma::Dma;
use crate::lock;

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Rings of this size or larger get memory of their own.
const LARGE: usize = 64 << 10;
/// Pieces start and end on cache lines.
const LINE: usize = 64;

/// Memory for small rings; blocks are freed with the pool.
pub(crate) struct Rings<C: Card> {
    /// The card that gave the memory.
    pub card: Arc<C>,
    state: Mutex<State<C>>,
}

struct State<C: Card> {
    blocks: Vec<Dma<C>>,
    /// Bytes used of the last block.
    used: usize,
    /// Free pieces by size.
    free: HashMap<usize, Vec<(*mut u8, u64)>>,
}

// SAFETY: the pointers are into the blocks, and a free piece has no other user.
unsafe impl<C: Card> Send for State<C> {}

impl<C: Card> Rings<C> {
    /// An empty pool.
    pub fn new(card: &Arc<C>) -> Arc<Self> {
        let state = State { blocks: Vec::new(), used: BLOCK, free: HashMap::new() };
        Arc::new(Rings { card: card.clone(), state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State<C>> {
        lock(&self.state)
    }

    /// Zeroed memory, aligned to a cache line.
    pub fn alloc(self: &Arc<Self>, bytes: usize) -> Result<Dma<C>, CardError> {
        let len = bytes.next_multiple_of(LINE);
        if len >= LARGE {
            return Dma::alloc(&self.card, bytes);
        }
        let mut state = self.state();
        if let Some((ptr, iova)) = state.free.get_mut(&len).and_then(Vec::pop) {
            // SAFETY: a free piece of this size, see `give`.
            unsafe { ptr.write_bytes(0, len) };
            return Ok(Dma::piece(self.clone(), ptr, iova, len));
        }
        if BLOCK - state.used < len {
            let block = Dma::alloc(&self.card, BLOCK)?;
            state.blocks.push(block);
            state.used = 0;
        }
        let at = state.used;
        state.used += len;
        let block = state.blocks.last().ok_or(CardError::NoMemory { bytes })?;
        Ok(Dma::piece(self.clone(), block.ptr().wrapping_add(at), block.iova() + at as u64, len))
    }

    /// Takes a piece back.
    pub fn give(&self, ptr: *mut u8, iova: u64, len: usize) {
        self.state().free.entry(len).or_default().push((ptr, iova));
    }
}
