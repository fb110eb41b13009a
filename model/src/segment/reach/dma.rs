//! What the card can reach: one map of address ranges for each member.
//!
//! The address on the card's side (IOVA) is the member's own virtual address.
//! Only its owner changes a map, and the keeper after the owner has ended; both
//! hold the lock. A map whose owner died while changing it resolves nothing.
#![allow(unsafe_code)]

use crate::dma::{Addr, CARD_MEMORY};
use crate::packet::MAX_CARDS;
use crate::plain::Plain;
use std::cell::UnsafeCell;
use std::mem::{offset_of, MaybeUninit};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::ranges::{self, Change, Place, Range, PRIVATE};
use super::Reach;
use crate::segment::error::SegmentError;
use crate::segment::layout::Tables;
use crate::segment::Segment;

/// Ranges that one member can have.
pub const MAX_RANGES: usize = 65536;

/// The map of one member in the segment.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct DmaMap {
    count: AtomicU32,
    /// 1 while the ranges are being changed.
    changing: AtomicU32,
    ranges: UnsafeCell<[Range; MAX_RANGES]>,
}

/// Where the bytes of an IOVA are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// At this offset of the segment: every member reaches them.
    Extent(u64),
    /// In memory private to the member, at the address that the IOVA is.
    Private,
    /// In memory private to the member, there.
    Placed(Place),
}

/// One member's map, while the lock is held.
pub struct Dma<'g> {
    map: &'g DmaMap,
    segment: &'g Segment,
}

impl<'g> Dma<'g> {
    /// The map of `member`; `None` for an index that does not exist.
    pub fn new(guard: &'g Reach<'_>, member: u16) -> Option<Dma<'g>> {
        let map = guard.segment().tables().dma.get(usize::from(member))?;
        Some(Dma { map, segment: guard.segment() })
    }

    /// This process's own.
    pub fn own(guard: &'g Reach<'_>) -> Dma<'g> {
        let segment = guard.segment();
        Dma { map: &segment.tables().dma[usize::from(segment.member())], segment }
    }

    /// All ranges, sorted; none while a change was left unfinished.
    pub fn ranges(&self) -> &[Range] {
        if self.map.changing.load(Acquire) != 0 {
            return &[];
        }
        let count = (self.map.count.load(Relaxed) as usize).min(MAX_RANGES);
        // SAFETY: the lock is held (`new` and `own` take the guard), so no other thread
        // changes the ranges, and any bytes are a valid `Range`.
        unsafe { &(&*self.map.ranges.get())[..count] }
    }

    /// Adds a region made of adjacent pieces. Returns the backings that it
    /// displaced: memory that those addresses no longer map.
    pub fn insert(&self, pieces: &[Range]) -> Result<Vec<Range>, SegmentError> {
        self.apply(ranges::insert(self.ranges(), pieces))
    }

    /// Removes a region. Returns the backings of bytes that no region covers
    /// any longer; an error, without any change, if a byte was not covered.
    pub fn remove(&self, start: u64, len: u64) -> Result<Vec<Range>, SegmentError> {
        let change = ranges::remove(self.ranges(), start, len)
            .map_err(|missing| SegmentError::NotMapped(missing.0))?;
        self.apply(change)
    }

    /// True when some of these addresses are mapped already.
    pub fn touches(&self, start: u64, len: u64) -> bool {
        let all = self.ranges();
        let next = all.partition_point(|range| range.end() <= start);
        all.get(next).is_some_and(|range| range.start < start + len)
    }

    /// Removes all ranges.
    pub fn clear(&self) {
        self.segment.new_generation();
        self.changed();
        self.map.count.store(0, Release);
        self.map.changing.store(0, Release);
        self.changed();
    }

    /// What was looked up before is looked up again.
    fn changed(&self) {
        self.segment.tables().header.steady.dma_generation.fetch_add(1, Release);
    }

    fn apply(&self, change: Change) -> Result<Vec<Range>, SegmentError> {
        let count = self.ranges().len();
        let new_count = count - (change.to - change.from) + change.ranges.len();
        if new_count > MAX_RANGES {
            return Err(SegmentError::TooManyRanges);
        }
        self.segment.new_generation();
        self.changed();
        self.map.changing.store(1, Release);
        // SAFETY: the lock is held and no slice from `ranges` is alive.
        let all = unsafe { &mut *self.map.ranges.get() };
        let new_to = change.from + change.ranges.len();
        all.copy_within(change.to..count, new_to);
        all[change.from..new_to].copy_from_slice(&change.ranges);
        self.map.count.store(new_count as u32, Release);
        self.map.changing.store(0, Release);
        self.changed();
        Ok(change.dropped)
    }
}

/// Slots of the look-up cache, a power of two: enough that the dozen buffers and rings of two busy queue pairs
/// rarely share one.
const CACHE_SLOTS: usize = 1024;

/// What recent look-ups found, private to a process. Valid while the DMA
/// generation stays the same.
#[repr(transparent)]
pub(in crate::segment) struct Cache([CacheSlot; CACHE_SLOTS]);

#[derive(Clone, Copy)]
struct CacheSlot {
    /// Generation and member.
    tag: u64,
    range: Range,
    /// Bytes of the range if it is in the segment, else 0.
    direct: u64,
    /// Its address in this process then.
    here: *mut u8,
}

impl Cache {
    /// An empty one, in its place: on the stack of a thread that has little of that there may be no room for it.
    pub(in crate::segment) fn new_in(place: &mut MaybeUninit<Cache>) {
        let range = Range { start: 0, len: 0, backing: PRIVATE, refs: 0 };
        let empty = CacheSlot { tag: u64::MAX, range, direct: 0, here: std::ptr::null_mut() };
        let slots = place.as_mut_ptr().cast::<CacheSlot>();
        for n in 0..CACHE_SLOTS {
            // SAFETY: the cache is an array of that many slots.
            unsafe { slots.add(n).write(empty) };
        }
    }
}

impl Reach<'_> {
    /// The slot for an address, and the tag that it has if it is valid.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn slot(&self, member: u16, iova: u64) -> (&mut CacheSlot, u64) {
        let generation: &AtomicU64 = &self.segment().tables().header.steady.dma_generation;
        let tag = generation.load(Relaxed) << 16 | u64::from(member);
        // Different buffers should meet in different slots; one large buffer
        // may fill several.
        let key = (iova >> 16) ^ u64::from(member).wrapping_mul(0x9e5);
        // SAFETY: no reference outlives the caller, none of which calls another.
        let cache = unsafe { &mut self.found().cache };
        (&mut cache.0[key as usize % CACHE_SLOTS], tag)
    }

    /// The address, in this process, of `len` bytes at `iova`, if they are in
    /// the segment in one piece.
    #[inline(always)]
    pub fn direct(&self, member: u16, iova: u64, len: u64) -> Option<*mut u8> {
        let (slot, tag) = self.slot(member, iova);
        let into = iova.wrapping_sub(slot.range.start);
        if slot.tag == tag && into < slot.direct && len <= slot.direct - into {
            return Some(slot.here.wrapping_add(into as usize));
        }
        self.direct_slowly(member, iova, len)
    }

    #[inline(never)]
    fn direct_slowly(&self, member: u16, iova: u64, len: u64) -> Option<*mut u8> {
        if member & Addr::ON_DEMAND != 0 {
            return None;
        }
        match self.resolve(member, iova)? {
            (Backing::Extent(offset), contiguous) if len <= contiguous => Some(self.segment().ptr_at(offset)),
            _ => None,
        }
    }

    /// Where `iova` of `member` is, and how many bytes from there on are
    /// contiguous. `None` when the member has not mapped it.
    pub fn resolve(&self, member: u16, iova: u64) -> Option<(Backing, u64)> {
        let (slot, tag) = self.slot(member, iova);
        if slot.tag != tag || iova.wrapping_sub(slot.range.start) >= slot.range.len {
            let range = self.look_up(member, iova)?;
            let (direct, here) = match range.in_segment() {
                true => (range.len, self.segment().ptr_at(range.backing)),
                false => (0, std::ptr::null_mut()),
            };
            *slot = CacheSlot { tag, range, direct, here };
        }
        let range = slot.range;
        let into = iova - range.start;
        let backing = match range.place() {
            None if range.in_segment() => Backing::Extent(range.backing + into),
            None => Backing::Private,
            Some(place) => Backing::Placed(place.after(into)),
        };
        Some((backing, range.len - into))
    }

    #[cold]
    fn look_up(&self, member: u16, iova: u64) -> Option<Range> {
        if member & Addr::ON_CARD != 0 {
            let card = usize::from(member & !Addr::ON_CARD);
            let holds = card < MAX_CARDS && iova < CARD_MEMORY as u64;
            let backing = (offset_of!(Tables, card_memory) + card * CARD_MEMORY) as u64;
            return holds.then_some(Range { start: 0, len: CARD_MEMORY as u64, backing, refs: 1 });
        }
        self.prune_file_views();
        let dma = Dma::new(self, member)?;
        let all = dma.ranges();
        // Neighbours may differ only in how many regions cover them.
        let range = ranges::contiguous(all, ranges::find(all, iova)?);
        // Another process can write the map: an offset outside the heap is not
        // followed.
        let segment = self.segment();
        let holds = iova.wrapping_sub(range.start) < range.len;
        let inside = !range.in_segment()
            || range.backing >= segment.heap_offset()
                && range.backing.checked_add(range.len).is_some_and(|end| end <= segment.local.total_bytes);
        (holds && inside).then_some(range)
    }
}
