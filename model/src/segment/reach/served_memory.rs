//! Memory that others lend to this process for its card's use: what a client of a served card shares.
//!
//! Its addresses on the card's side are the client's choice (IOVAs), its bytes are a shared mapping that
//! this process has made of the client's file. Other processes that run the cards map the same file, as
//! they do with any shared mapping ([`super::offered_files`]). A client that shortens its file must not kill the
//! processes that have mapped it: only a file that is sealed against that is accessed directly, any other
//! by the kernel.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use super::dma::Dma;
use super::file_views::keeps_size;
use super::ranges::{find, Place, Range};
use super::Reach;
use crate::segment::error::{SegmentError, LOCK_PATIENCE};
use crate::segment::moving::maps::Mapping;
use crate::segment::registry;
use crate::segment::Segment;

impl Segment {
    /// Lets the other members map `len` bytes of `file` from `offset` on, which this process has mapped at
    /// `ptr` and leaves there until [`Segment::withdraw`].
    pub fn offer(
        &self,
        ptr: *mut u8,
        len: usize,
        file: OwnedFd,
        offset: u64,
        writable: bool,
    ) -> Result<(), SegmentError> {
        let stat = rustix::fs::fstat(&file).map_err(|error| SegmentError::System(error.into()))?;
        let start = ptr as u64;
        let mapping = Mapping {
            start,
            end: start + len as u64,
            offset,
            device: (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)),
            inode: stat.st_ino,
            shared: true,
            readable: true,
            writable,
            private_writable: false,
            special: false,
        };
        let keeps_size = keeps_size(&file);
        let _held = registry::enter();
        let guard = self.lock(LOCK_PATIENCE)?;
        // SAFETY: the process's lock is held.
        unsafe { self.offers() }.lend(&guard, mapping, file);
        if keeps_size {
            guard.lent().push((mapping.start, mapping.end));
        }
        Ok(())
    }

    /// Takes an offer back. No process uses the memory after this returns.
    pub fn withdraw(&self, ptr: *mut u8, len: usize) -> Result<(), SegmentError> {
        let _held = registry::enter();
        let guard = self.lock(LOCK_PATIENCE)?;
        // SAFETY: the process's lock is held.
        unsafe { self.offers() }.withdraw(&guard, ptr as u64, len as u64);
        let lent = guard.lent();
        if let Some(at) = lent.iter().position(|&one| one == (ptr as u64, ptr as u64 + len as u64)) {
            lent.swap_remove(at);
        }
        Ok(())
    }

    /// Lets the card reach `len` bytes of lent memory at IOVA `iova`. Nothing may be mapped there yet.
    pub fn map_at(&self, iova: u64, len: u64, place: Place) -> Result<(), SegmentError> {
        let guard = self.lock(LOCK_PATIENCE)?;
        let dma = Dma::own(&guard);
        let all = dma.ranges();
        let next = all.partition_point(|range| range.start < iova);
        let taken = find(all, iova).is_some() || all.get(next).is_some_and(|range| range.start - iova < len);
        if taken {
            return Err(SegmentError::AlreadyMapped(iova));
        }
        let range = Range { start: iova, len, backing: place.backing(), refs: 1 };
        dma.insert(&[range]).map(drop)
    }

    /// Takes that back. No DMA touches the memory after this returns.
    pub fn unmap_at(&self, iova: u64, len: u64) -> Result<(), SegmentError> {
        let guard = self.lock(LOCK_PATIENCE)?;
        Dma::own(&guard).remove(iova, len).map(drop)
    }
}

impl Reach<'_> {
    /// The memory that this process has been lent and that stays mapped: start and end.
    #[allow(clippy::mut_from_ref)]
    fn lent(&self) -> &mut Vec<(u64, u64)> {
        // SAFETY: changed with the lock of all cards only, and used by no caller twice at a time.
        unsafe { &mut *self.segment().local.lent.get() }
    }

    /// Whether all of these bytes are lent memory of this process that stays mapped.
    pub(in crate::segment) fn is_lent(&self, start: u64, len: u64) -> bool {
        let Some(end) = start.checked_add(len) else { return false };
        // SAFETY: a lock is held, so that nobody changes it.
        let lent = unsafe { &*self.segment().local.lent.get() };
        lent.iter().any(|&(from, to)| from <= start && end <= to)
    }
}
