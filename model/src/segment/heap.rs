//! Memory of the segment for the card's rings, and who uses how much.
#![allow(unsafe_code)]

use super::error::{SegmentError, LOCK_PATIENCE};
use super::extents::Extents;
use super::keeper::{create, KeeperError};
use super::moving::mover;
use super::page::{page_ceil, PAGE};
use super::Segment;
use crate::segment::reach::dma::Dma;
use crate::segment::reach::ranges::Range;

/// Zeroed, page-aligned memory of the segment, mapped for DMA: its IOVA is its
/// address.
#[derive(Debug, PartialEq, Eq)]
pub struct Area {
    /// Address in this process.
    pub ptr: *mut u8,
    /// Offset in the segment.
    pub offset: u64,
    /// Size in bytes, whole pages.
    pub len: usize,
}

// SAFETY: an address range that its owner alone frees; sharing the numbers is
// harmless.
unsafe impl Send for Area {}
// SAFETY: as above.
unsafe impl Sync for Area {}

impl Segment {
    /// Takes at least `bytes` bytes of the heap.
    pub fn alloc(&self, bytes: usize) -> Result<Area, SegmentError> {
        self.take(bytes as u64, None)
    }

    /// The same, at another IOVA.
    fn take(&self, bytes: u64, iova: Option<u64>) -> Result<Area, SegmentError> {
        let bytes = page_ceil(bytes.max(1)).ok_or(SegmentError::HeapFull)?;
        let guard = self.lock(LOCK_PATIENCE)?;
        let extents = Extents::new(&guard);
        let pages = extents.alloc(self.member(), bytes / PAGE).ok_or(SegmentError::HeapFull)?;
        let offset = self.heap_offset() + pages.start * PAGE;
        let ptr = self.ptr_at(offset);
        let range = Range { start: iova.unwrap_or(ptr as u64), len: bytes, backing: offset, refs: 1 };
        if let Err(error) = Dma::own(&guard).insert(&[range]) {
            extents.retire(self.member(), pages);
            extents.remove_retired(self.member(), pages);
            return Err(error);
        }
        Ok(Area { ptr, offset, len: bytes as usize })
    }

    /// A segment of this process alone whose whole heap, of about `bytes`, is one area that cards see at `iova`.
    pub(crate) fn private(bytes: u64, iova: u64) -> Result<(Segment, Area), KeeperError> {
        let (segment, _) = create::segment(0, bytes, Vec::new())?;
        let area = segment.take(bytes, Some(iova)).map_err(|error| KeeperError::System {
            what: "taking the cards' memory",
            error: std::io::Error::other(error),
        })?;
        Ok((segment, area))
    }

    /// Gives an area back; only address and length matter. Pages of it that are still registered stay until
    /// they are not.
    pub fn free(&self, area: Area) -> Result<(), SegmentError> {
        mover::release(self, area.ptr as u64, area.len as u64)
    }
}
