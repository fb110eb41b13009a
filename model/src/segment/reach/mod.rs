//! Reaching memory: where the bytes of an IOVA are, and how the lock holder copies them.
//!
//! | file | idea |
//! |---|---|
//! | [`dma`] | one map of ranges for each member, and a cache of look-ups |
//! | [`ranges`] | the arithmetic of such a map: ranges that count their regions |
//! | [`copy`] | copies between IOVAs: finds a way for each piece |
//! | [`kernel`] | copies by the kernel, of memory that stays where the program has it |
//! | [`offered_files`] | shared mappings of files that a member offers |
//! | [`file_views`] | such files, as the lock holder has mapped them |
//! | [`served_memory`] | what the client of a served card shares with its server |
//! | [`ask`] | what it does not share: read and written by messages |
//! | [`transfer`] | one copy, and how it fails |

#![allow(unsafe_code)]

pub mod ask;
mod copy;
pub mod dma;
pub(super) mod file_views;
pub(super) mod kernel;
pub mod offered_files;
pub mod ranges;
mod served_memory;
pub mod transfer;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use super::Segment;

/// What the holders of a lock in this process have found out about memory. They alone use it.
pub(super) struct Found {
    cache: dma::Cache,
    views: file_views::Views,
}

impl Found {
    /// What belongs to the lock of an island, which the caller holds.
    #[inline(always)]
    fn of(segment: &Segment, island: u16) -> NonNull<Found> {
        let place = &segment.local.found[usize::from(island) % super::ISLANDS];
        // Only lock holders write it.
        match NonNull::new(place.load(Relaxed)) {
            Some(found) => found,
            None => {
                let found = Found::new();
                place.store(found.as_ptr(), Relaxed);
                found
            }
        }
    }

    /// Freed with the segment.
    #[cold]
    pub(super) fn new() -> NonNull<Found> {
        let mut found = Box::<Found>::new_uninit();
        let place = found.as_mut_ptr();
        // SAFETY: both fields are written in their places, which nobody else has.
        let found = unsafe {
            dma::Cache::new_in(&mut *(&raw mut (*place).cache).cast());
            (&raw mut (*place).views).write(file_views::Views::default());
            found.assume_init()
        };
        NonNull::from(Box::leak(found))
    }

    /// In a forked child, whose mappings and descriptors are not its own.
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.views));
    }
}

/// Memory of members, for the holder of a lock.
pub struct Reach<'a> {
    segment: &'a Segment,
    island: u16,
    found: NonNull<Found>,
    // The lock is given back by the thread that took it.
    not_send: PhantomData<*mut ()>,
}

impl<'a> Reach<'a> {
    /// # Safety
    /// The calling thread has the lock of the island, or all the cards (number 0), for as long as the result lives, and
    /// uses no other `Reach` of it at the same time.
    #[inline(always)]
    pub(super) unsafe fn new(segment: &'a Segment, island: u16) -> Reach<'a> {
        Reach { segment, island, found: Found::of(segment, island), not_send: PhantomData }
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &'a Segment {
        self.segment
    }

    /// The island that is locked; 0: all the cards.
    #[inline]
    pub fn island(&self) -> u16 {
        self.island
    }

    /// The lock's own line.
    #[inline(always)]
    pub fn control(&self) -> &'a super::layout::Control {
        self.segment.control(self.island)
    }

    /// # Safety
    /// No other result is in use.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn found(&self) -> &mut Found {
        // SAFETY: as `new` and the caller promise.
        unsafe { &mut *self.found.as_ptr() }
    }
}
