//! Memory that a message or a frame may use, and where it is.

use std::ptr::null_mut;

use crate::here::Here;

/// A part of a region or window, checked for one use.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) key: u32,
    pub(super) va: u64,
    pub(super) length: u64,
    pub(super) here: Here,
}

impl Piece {
    pub(super) const NONE: Piece = Piece { key: 0, va: 0, length: 0, here: Here::new(null_mut()) };

    /// Where the bytes are for which it was found.
    pub(super) fn start(&self) -> Here {
        self.here
    }

    /// Where `length` bytes at `va` are, if they are of this piece.
    #[inline(always)]
    pub(super) fn find(&self, key: u32, va: u64, length: u32) -> Option<Here> {
        let offset = va.wrapping_sub(self.va);
        let inside = offset < self.length && u64::from(length) <= self.length - offset;
        (key == self.key && inside).then(|| self.here.add(offset))
    }
}
