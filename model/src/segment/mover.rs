//! Registering a program's buffer: its pages move into the segment.
//!
//! The program goes on using the same addresses and notices nothing. Only whole
//! pages of private anonymous memory inside the buffer are moved; the rest stays
//! where it is and is reached the slow way ([`super::foreign`]).
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::dma::{Dma, RemoveError};
use super::extents::{Extents, Pages};
use super::layout::PAGE;
use super::lock::{Guard, LockError};
use super::maps::{each_mapping, Mapping};
use super::pages::{move_in, move_out, punch, SegmentFile};
use super::plan::{plan, Piece, Source};
use super::ranges::Range;
use super::ranges::FOREIGN;
use super::registry::{self, InProcess};
use super::Segment;

/// How long a registration waits for the lock. Whoever runs the cards lets go
/// of it after each batch of work.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(20);

/// Why memory was not mapped or unmapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The lock was not to be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Part of the buffer is not mapped, or not accessible as asked.
    #[error("address {0:#x} is not mapped in this process with the access that was asked for")]
    BadAddress(u64),
    /// The heap has no contiguous free range of that size.
    #[error("the card's memory is full")]
    HeapFull,
    /// The member's DMA map is full.
    #[error("too many separate memory ranges are mapped for DMA")]
    TooManyRanges,
    /// Nothing is registered there.
    #[error("address {0:#x} is not mapped for DMA")]
    NotMapped(u64),
    /// The system refused something.
    #[error("reading this process's memory map failed: {0}")]
    System(#[from] std::io::Error),
}

impl Segment {
    /// Makes a buffer of this process reachable for the card and returns its
    /// IOVA, which is its address. `writable`: the card will write to it.
    ///
    /// Registrations may overlap; each is undone by its own [`Segment::unmap`].
    pub fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, SegmentError> {
        let iova = addr as u64;
        if len == 0 {
            return Ok(iova);
        }
        let held = registry::enter();
        if self.is_detached() {
            return Err(LockError::Detached.into());
        }
        let mut pieces = plan(self, &held, iova, len as u64, writable)?;
        self.reserve(&mut pieces)?;
        for piece in &mut pieces {
            if let Source::Reserved(pages) = piece.source {
                let offset = self.offset_of(pages.start);
                self.local().moved_pages.store(true, Ordering::Relaxed);
                // SAFETY: the plan found private anonymous memory there, and
                // the extent is ours.
                let moved = unsafe { move_in(self.file(), piece.start, piece.len, offset) };
                piece.source = match moved {
                    Ok(()) => Source::Moved(pages),
                    Err(_) => {
                        self.give_back(&[pages]);
                        Source::Foreign
                    }
                };
            }
        }
        let ranges: Vec<Range> = pieces.iter().map(|piece| self.range_of(piece)).collect();
        let inserted = match self.lock(LOCK_PATIENCE) {
            Ok(guard) => match Dma::new(&guard, self.member()) {
                Some(dma) => match dma.insert(&ranges) {
                    Ok(displaced) => Ok(self.unused(&dma, &displaced)),
                    Err(_) => Err(SegmentError::TooManyRanges),
                },
                None => Err(SegmentError::TooManyRanges),
            },
            Err(error) => Err(error.into()),
        };
        match inserted {
            Ok(stale) => {
                self.bring_home_and_free(&held, stale);
                Ok(iova)
            }
            Err(error) => {
                let moved = pieces.iter().filter_map(|piece| match piece.source {
                    Source::Moved(pages) => Some(pages),
                    _ => None,
                });
                self.bring_home_and_free(&held, moved.collect());
                Err(error)
            }
        }
    }

    /// Undoes one [`Segment::map`] of the same buffer.
    pub fn unmap(&self, addr: *mut u8, len: usize) -> Result<(), SegmentError> {
        release(self, addr as u64, len as u64)
    }

    /// Takes extents for what the plan wants to move, and checks that what lies
    /// in the segment already is ours.
    fn reserve(&self, pieces: &mut [Piece]) -> Result<(), SegmentError> {
        let guard = self.lock(LOCK_PATIENCE)?;
        let extents = Extents::new(&guard);
        for piece in pieces.iter_mut() {
            if let Source::InSegment { offset, base } = piece.source {
                if !self.owns(&extents, offset, piece.len) {
                    if base {
                        // The cards' own memory is no buffer.
                        return Err(SegmentError::BadAddress(piece.start));
                    }
                    piece.source = Source::Foreign;
                }
            }
        }
        for piece in pieces {
            if let Source::Movable = piece.source {
                piece.source = match extents.alloc(self.member(), piece.len / PAGE) {
                    Some(pages) => Source::Reserved(pages),
                    None => Source::Foreign,
                }
            }
        }
        Ok(())
    }

    fn owns(&self, extents: &Extents<'_>, offset: u64, len: u64) -> bool {
        let heap = self.tables().header.heap_offset;
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
                _ => FOREIGN,
            },
            refs: 1,
        }
    }

    /// Pages of `dropped` that no address of this member stands for any longer.
    fn unused(&self, dma: &Dma<'_>, dropped: &[Range]) -> Vec<Pages> {
        let heap = self.tables().header.heap_offset;
        let mut unused = Vec::new();
        for range in dropped {
            let mut page = (range.backing - heap) / PAGE;
            let end = (range.backing + range.len - heap).div_ceil(PAGE);
            // What is still in use cuts the run into smaller ones.
            let mut used: Vec<(u64, u64)> = dma
                .ranges()
                .iter()
                .filter(|other| other.backing != FOREIGN)
                .map(|other| {
                    let from = (other.backing - heap) / PAGE;
                    (from, (other.backing + other.len - heap).div_ceil(PAGE))
                })
                .filter(|&(from, to)| from < end && page < to)
                .collect();
            used.sort_unstable();
            used.push((end, end));
            for (from, to) in used {
                if page < from {
                    unused.push(Pages {
                        start: page,
                        pages: from - page,
                    });
                }
                page = page.max(to);
            }
        }
        merge(unused)
    }

    /// Makes private memory again of every buffer that maps these pages, then
    /// frees them. Pages that cannot be brought home stay as they are.
    fn bring_home_and_free(&self, held: &InProcess<'_>, pages: Vec<Pages>) {
        if pages.is_empty() {
            return;
        }
        let Ok(stuck) = self.bring_home(held, &pages) else {
            return;
        };
        let free: Vec<Pages> = pages
            .into_iter()
            .filter(|run| {
                !stuck
                    .iter()
                    .any(|left| left.start < run.end() && run.start < left.end())
            })
            .collect();
        self.give_back(&free);
    }

    /// Returns the pages that are still mapped somewhere because moving them
    /// failed.
    fn bring_home(&self, held: &InProcess<'_>, pages: &[Pages]) -> std::io::Result<Vec<Pages>> {
        let mut found: Vec<(u64, Pages)> = Vec::new();
        each_mapping(0, |mapping: &Mapping| {
            if (mapping.device, mapping.inode) == self.local().identity
                && !registry::is_base(held, mapping.start)
            {
                found.extend(self.overlaps(mapping, pages));
            }
            true
        })?;
        let mut stuck = Vec::new();
        for (address, run) in found {
            let offset = self.offset_of(run.start);
            // SAFETY: /proc/self/maps says that the segment is mapped there at
            // this offset, and it is no base mapping.
            let moved = unsafe { move_out(self.file(), address, run.bytes(), offset, true) };
            if moved.is_err() {
                stuck.push(run);
            }
        }
        Ok(stuck)
    }

    /// The parts of `mapping` that show some of `pages`.
    fn overlaps<'a>(
        &self,
        mapping: &Mapping,
        pages: &'a [Pages],
    ) -> impl Iterator<Item = (u64, Pages)> + 'a {
        let heap = self.tables().header.heap_offset;
        let first = mapping.offset.saturating_sub(heap) / PAGE;
        let last = first + (mapping.end - mapping.start) / PAGE;
        let address = mapping.start;
        let in_heap = mapping.offset >= heap;
        pages.iter().filter_map(move |run| {
            let (start, end) = (run.start.max(first), run.end().min(last));
            (in_heap && start < end).then(|| {
                (
                    address + (start - first) * PAGE,
                    Pages {
                        start,
                        pages: end - start,
                    },
                )
            })
        })
    }

    /// Frees extents of this member. If the lock is not to be had they stay
    /// until the process ends.
    pub(super) fn give_back(&self, pages: &[Pages]) {
        let me = self.member();
        let retired: Vec<Pages> = match self.lock(LOCK_PATIENCE) {
            Ok(guard) => {
                let extents = Extents::new(&guard);
                let retire = |run: &&Pages| extents.retire(me, **run);
                pages.iter().filter(retire).copied().collect()
            }
            Err(_) => return,
        };
        self.punch_and_remove(me, &retired, LOCK_PATIENCE);
    }

    /// Second half of freeing; false if the lock was not to be had (the extents
    /// stay retired).
    pub(super) fn punch_and_remove(&self, owner: u16, retired: &[Pages], wait: Duration) -> bool {
        if retired.is_empty() {
            return true;
        }
        // SAFETY: our descriptor, open as long as `self` is.
        let memfd = unsafe { BorrowedFd::borrow_raw(self.local().memfd) };
        let mut empty = Vec::with_capacity(retired.len());
        for run in retired {
            // Without the lock: returning many pages takes long. What could not
            // be emptied must not be handed out as zeroes.
            if punch(memfd, self.offset_of(run.start), run.bytes()).is_ok() {
                empty.push(*run);
            }
        }
        match self.lock(wait) {
            Ok(guard) => {
                let extents = Extents::new(&guard);
                for run in empty {
                    extents.remove_retired(owner, run);
                }
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn offset_of(&self, page: u64) -> u64 {
        self.tables().header.heap_offset + page * PAGE
    }

    fn file(&self) -> SegmentFile {
        SegmentFile {
            fd: self.local().memfd,
        }
    }
}

/// Takes one registration (or an area) away and frees what nobody needs then.
pub(super) fn release(segment: &Segment, start: u64, len: u64) -> Result<(), SegmentError> {
    if len == 0 {
        return Ok(());
    }
    let held = registry::enter();
    let guard = segment.lock(LOCK_PATIENCE)?;
    let dma = Dma::new(&guard, segment.member()).ok_or(SegmentError::NotMapped(start))?;
    let dropped = dma.remove(start, len).map_err(|error| match error {
        RemoveError::NotCovered(at) => SegmentError::NotMapped(at),
        RemoveError::Full => SegmentError::TooManyRanges,
    })?;
    let unused = segment.unused(&dma, &dropped);
    drop(guard);
    let only_in_base = dropped
        .iter()
        .all(|range| range.start.wrapping_sub(segment.local().base) < segment.local().total_bytes);
    if only_in_base {
        // An area: nothing else maps it, no need to search.
        segment.give_back(&unused);
    } else {
        segment.bring_home_and_free(&held, unused);
    }
    Ok(())
}

/// The segment is about to be left: moved buffers become private memory.
pub(super) fn bring_all_home(segment: &Segment) {
    let held = registry::enter();
    if segment.is_detached() || !segment.local().moved_pages.load(Ordering::Relaxed) {
        return;
    }
    let all = match segment.lock(Duration::from_secs(2)) {
        Ok(guard) => match Dma::new(&guard, segment.member()) {
            Some(dma) => {
                let ranges = dma.ranges().to_vec();
                dma.clear();
                segment.unused(&dma, &backed(&ranges))
            }
            None => Vec::new(),
        },
        // Whatever holds the lock, the program must keep its data.
        Err(_) => vec![Pages {
            start: 0,
            pages: segment.tables().header.heap_bytes / PAGE,
        }],
    };
    let _ = segment.bring_home(&held, &all);
}

fn backed(ranges: &[Range]) -> Vec<Range> {
    let backed = ranges.iter().filter(|range| range.backing != FOREIGN);
    backed.copied().collect()
}

/// Sorts runs and makes one of those that touch or overlap.
fn merge(mut runs: Vec<Pages>) -> Vec<Pages> {
    runs.sort_unstable();
    let mut merged: Vec<Pages> = Vec::with_capacity(runs.len());
    for run in runs {
        match merged.last_mut() {
            Some(last) if run.start <= last.end() => {
                last.pages = last.end().max(run.end()) - last.start;
            }
            _ => merged.push(run),
        }
    }
    merged
}

/// Frees everything of a member that is gone. False when the lock was not to be
/// had; then it has to be tried again.
pub(super) fn free_member(segment: &Segment, member: u16, wait: Duration) -> bool {
    let retired = match segment.lock(wait) {
        Ok(guard) => retire_member(&guard, member),
        Err(_) => return false,
    };
    segment.punch_and_remove(member, &retired, wait)
}

fn retire_member(guard: &Guard<'_>, member: u16) -> Vec<Pages> {
    if let Some(dma) = Dma::new(guard, member) {
        dma.clear();
    }
    Extents::new(guard).retire_all(member)
}
