//! Registering a program's buffer: its pages move into the segment.
//!
//! The program keeps the same addresses and notices nothing. Only whole
//! pages of private anonymous memory inside the buffer are moved; the rest stays
//! where it is, and the kernel copies it ([`crate::segment::reach::kernel`]).
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pages::move_in;
use super::plan::{plan, Piece, Source};
use super::release::{pages_of, Leaving};
use crate::segment::error::{SegmentError, LOCK_PATIENCE};
use crate::segment::extents::{Extents, Pages};
use crate::segment::lock::LockError;
use crate::segment::page::PAGE;
use crate::segment::reach::dma::Dma;
use crate::segment::reach::ranges::{Range, PRIVATE};
use crate::segment::registry;
use crate::segment::Segment;

impl Segment {
    /// Makes a buffer of this process reachable for the card and returns its
    /// IOVA, which is its address. `writable`: the card will write to it.
    ///
    /// Registrations may overlap; each is undone by its own [`Segment::unmap`].
    /// Like every call that takes the lock itself, it must not be made with the
    /// lock held ([`LockError::Recursive`]).
    pub fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, SegmentError> {
        let iova = addr as u64;
        if len == 0 {
            return Ok(iova);
        }
        let held = registry::enter();
        if self.is_detached() {
            return Err(LockError::Detached.into());
        }
        let (mut pieces, files) = plan(self, &held, iova, len as u64, writable)?;
        self.reserve(&mut pieces)?;
        for piece in &mut pieces {
            if let Source::Reserved(pages) = piece.source {
                let offset = self.offset_of(pages.start);
                self.local.moved_pages.store(true, Ordering::Relaxed);
                // SAFETY: the plan found private anonymous memory there, and
                // the extent is ours.
                let moved = unsafe { move_in(self.local.file(), piece.start, piece.len, offset) };
                piece.source = match moved {
                    Ok(()) => Source::Moved(pages),
                    Err(_) => {
                        self.give_back(&[pages]);
                        Source::Stays
                    }
                };
            }
        }
        // SAFETY: the process's lock is held.
        let offers = unsafe { self.offers() };
        offers.prepare(&files, iova, len as u64, writable);
        let ranges: Vec<Range> = pieces.iter().map(|piece| self.range_of(piece)).collect();
        let inserted = self.lock(LOCK_PATIENCE).map_err(SegmentError::from).and_then(|guard| {
            let dma = Dma::own(&guard);
            let displaced = self.insert(&dma, &ranges)?;
            offers.publish(&guard, &files, iova, len as u64);
            Ok(self.unused(&dma, &displaced))
        });
        match inserted {
            Ok(stale) => {
                self.bring_home_and_free(&held, &stale);
                Ok(iova)
            }
            Err(error) => {
                offers.undo(iova, len as u64);
                let moved = pieces.iter().filter_map(|piece| match piece.source {
                    Source::Moved(pages) => Some(Leaving { pages, address: piece.start }),
                    _ => None,
                });
                self.bring_home_and_free(&held, &moved.collect::<Vec<_>>());
                Err(error)
            }
        }
    }

    fn insert(&self, dma: &Dma<'_>, ranges: &[Range]) -> Result<Vec<Range>, SegmentError> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(Vec::new()) };
        if dma.touches(first.start, last.end() - first.start) {
            self.local.overlapped.store(true, Ordering::Relaxed);
        }
        dma.insert(ranges)
    }

    /// Undoes one [`Segment::map`] of the same buffer.
    pub fn unmap(&self, addr: *mut u8, len: usize) -> Result<(), SegmentError> {
        release(self, addr as u64, len as u64)
    }

    /// Takes extents for what the plan wants to move, and checks that pages that are
    /// in the segment already are ours.
    fn reserve(&self, pieces: &mut [Piece]) -> Result<(), SegmentError> {
        let guard = self.lock(LOCK_PATIENCE)?;
        let extents = Extents::new(&guard);
        for piece in pieces.iter_mut() {
            if let Source::InSegment { offset, base } = piece.source {
                self.local.overlapped.store(true, Ordering::Relaxed);
                if !self.owns(&extents, offset, piece.len) {
                    if base {
                        // The cards' own memory is no buffer.
                        return Err(SegmentError::BadAddress(piece.start));
                    }
                    piece.source = Source::Stays;
                }
            }
        }
        for piece in pieces {
            if let Source::Movable = piece.source {
                piece.source = match extents.alloc(self.member(), piece.len / PAGE) {
                    Some(pages) => Source::Reserved(pages),
                    None => Source::Stays,
                }
            }
        }
        Ok(())
    }

    fn owns(&self, extents: &Extents<'_>, offset: u64, len: u64) -> bool {
        let heap = self.heap_offset();
        let Some(first) = offset.checked_sub(heap) else {
            return false;
        };
        let (mut page, end) = (first / PAGE, (first + len).div_ceil(PAGE));
        while page < end {
            match extents.containing(page) {
                Some((extent, owner)) if owner == self.member() => page = extent.end(),
                _ => return false,
            }
        }
        true
    }

    fn range_of(&self, piece: &Piece) -> Range {
        Range {
            start: piece.start,
            len: piece.len,
            backing: match piece.source {
                Source::Moved(pages) => self.offset_of(pages.start),
                Source::InSegment { offset, .. } => offset,
                _ => PRIVATE,
            },
            refs: 1,
        }
    }

    pub(in crate::segment) fn offset_of(&self, page: u64) -> u64 {
        self.heap_offset() + page * PAGE
    }
}

/// Removes one registration (or an area) and frees the pages that no other one uses.
pub(in crate::segment) fn release(segment: &Segment, start: u64, len: u64) -> Result<(), SegmentError> {
    if len == 0 {
        return Ok(());
    }
    let held = registry::enter();
    let guard = segment.lock(LOCK_PATIENCE)?;
    let dma = Dma::own(&guard);
    let dropped = dma.remove(start, len)?;
    let unused = segment.unused(&dma, &dropped);
    // SAFETY: the process's lock is held.
    unsafe { segment.offers() }.withdraw(&guard, start, len);
    drop(guard);
    let only_in_base =
        dropped.iter().all(|range| range.start.wrapping_sub(segment.local.base) < segment.local.total_bytes);
    if only_in_base {
        // An area: nothing else maps it, no need to search.
        segment.give_back(&pages_of(&unused));
    } else {
        segment.bring_home_and_free(&held, &unused);
    }
    Ok(())
}

/// The segment is about to be left: moved buffers become private memory.
pub(in crate::segment) fn bring_all_home(segment: &Segment) {
    let held = registry::enter();
    if segment.is_detached() || !segment.local.moved_pages.load(Ordering::Relaxed) {
        return;
    }
    let all = match segment.lock(Duration::from_secs(2)) {
        Ok(guard) => {
            let dma = Dma::own(&guard);
            let ranges = dma.ranges().to_vec();
            dma.clear();
            pages_of(&segment.unused(&dma, &backed(&ranges)))
        }
        // Even if the lock cannot be had, the program must keep its data.
        Err(_) => vec![Pages { start: 0, pages: segment.heap_bytes() / PAGE }],
    };
    let _ = segment.bring_home(&held, &all, &[]);
}

fn backed(ranges: &[Range]) -> Vec<Range> {
    let backed = ranges.iter().filter(|range| range.in_segment());
    backed.copied().collect()
}
