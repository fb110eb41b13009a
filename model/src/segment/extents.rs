//! Who owns which pages of the heap.
//!
//! A sorted table of page ranges. It is changed one entry at a time in an order
//! that leaves nothing worse than a duplicate when the process dies between two
//! stores; [`Extents::repair`] removes duplicates.

use crate::plain::Plain;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::lock::Guard;
use super::page::PAGE;

/// Ranges that the table can hold.
pub const MAX_EXTENTS: usize = 65_536;

/// Set in `Slot::owner` while the pages are returned to the system.
const DYING: u64 = 1 << 32;

/// One range: start page and number of pages (32 bits each), then the owner.
#[derive(Plain)]
#[repr(C)]
struct Slot {
    place: AtomicU64,
    owner: AtomicU64,
}

/// The table in the segment.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct ExtentTable {
    count: AtomicU64,
    /// There is no gap before this slot.
    hint: AtomicU64,
    slots: [Slot; MAX_EXTENTS],
}

/// A range of heap pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pages {
    /// First page, counted from the start of the heap.
    pub start: u64,
    /// Number of pages.
    pub pages: u64,
}

impl Pages {
    /// One past the last page.
    pub fn end(&self) -> u64 {
        self.start + self.pages
    }

    /// Bytes of the range.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE
    }
}

#[derive(Clone, Copy)]
struct Entry {
    at: Pages,
    owner: u64,
}

impl Entry {
    fn place(&self) -> u64 {
        self.at.start | self.at.pages << 32
    }
}

/// The table, while the lock is held.
pub struct Extents<'g> {
    table: &'g ExtentTable,
    heap_pages: u64,
}

impl<'g> Extents<'g> {
    /// The extents of the segment that `guard` has locked.
    pub fn new(guard: &'g Guard<'_>) -> Extents<'g> {
        let tables = guard.segment().tables();
        Extents { table: &tables.extents, heap_pages: guard.segment().heap_bytes() / PAGE }
    }

    /// The lowest free range of `pages` pages, now owned by `member`. `None`
    /// when there is none or the table is full. Its content is zero.
    pub fn alloc(&self, member: u16, pages: u64) -> Option<Pages> {
        let count = self.count();
        if pages == 0 || pages > self.heap_pages || count == MAX_EXTENTS {
            return None;
        }
        let mut hint = (self.table.hint.load(Relaxed) as usize).min(count);
        let mut free_from = match hint {
            0 => 0,
            n => self.get(n - 1).at.end(),
        };
        let mut solid = true;
        let mut index = hint;
        while index < count {
            let at = self.get(index).at;
            if at.start.saturating_sub(free_from) >= pages {
                break;
            }
            solid &= at.start == free_from;
            free_from = at.end();
            index += 1;
            if solid {
                hint = index;
            }
        }
        self.table.hint.store(hint as u64, Relaxed);
        if self.heap_pages - free_from < pages {
            return None;
        }
        let at = Pages { start: free_from, pages };
        self.insert(index, Entry { at, owner: member.into() });
        Some(at)
    }

    /// The extent that contains a page, and its owner, if that is not just freeing it.
    pub fn containing(&self, page: u64) -> Option<(Pages, u16)> {
        let entry = self.get(self.find(page)?);
        (entry.owner & DYING == 0).then_some((entry.at, entry.owner as u16))
    }

    /// First half of freeing: cuts `range` out of what `member` owns and marks
    /// it as dying, so that its pages can be returned to the system without the
    /// lock. False when a piece is not the member's or the table is full.
    pub fn retire(&self, member: u16, range: Pages) -> bool {
        let mut page = range.start;
        while page < range.end() {
            let Some(index) = self.find(page) else {
                return false;
            };
            let entry = self.get(index);
            if entry.owner as u16 != member {
                return false;
            }
            let Some(index) = self.cut(index, page) else {
                return false;
            };
            if self.get(index).at.end() > range.end() && self.cut(index, range.end()).is_none() {
                return false;
            }
            let slot = &self.table.slots[index];
            slot.owner.store(u64::from(member) | DYING, Relaxed);
            page = self.get(index).at.end();
        }
        true
    }

    /// Second half of freeing: the dying extents of `member` inside `range` are
    /// free from now on.
    pub fn remove_retired(&self, member: u16, range: Pages) {
        let mut index = self.first_from(range.start);
        while index < self.count() {
            let entry = self.get(index);
            if entry.at.start >= range.end() {
                break;
            }
            if entry.owner == u64::from(member) | DYING && entry.at.end() <= range.end() {
                self.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Everything that `member` owns, retired (see [`Extents::retire`]).
    pub fn retire_all(&self, member: u16) -> Vec<Pages> {
        let mut found = Vec::new();
        for index in 0..self.count() {
            let entry = self.get(index);
            if entry.owner as u16 == member {
                let slot = &self.table.slots[index];
                slot.owner.store(u64::from(member) | DYING, Relaxed);
                found.push(entry.at);
            }
        }
        found
    }

    /// Pages owned by each member.
    #[cfg(test)]
    pub fn usage(&self) -> [u64; super::page::MAX_MEMBERS] {
        let mut usage = [0; super::page::MAX_MEMBERS];
        for index in 0..self.count() {
            let entry = self.get(index);
            if let Some(pages) = usage.get_mut(usize::from(entry.owner as u16)) {
                *pages += entry.at.pages;
            }
        }
        usage
    }

    /// Brings the table in order after its last user died while changing it.
    pub fn repair(&self) {
        let count = self.count();
        let mut kept = 0;
        for index in 0..count {
            let entry = self.get(index);
            // Of two entries with the same start the later is the true one: an
            // insertion writes the owner before the place, a removal after.
            let duplicate = index + 1 < count && self.get(index + 1).at.start == entry.at.start;
            let shadowed = kept > 0 && {
                let before: Entry = self.get(kept - 1);
                before.at.end() > entry.at.start
            };
            if duplicate || shadowed || entry.at.pages == 0 {
                continue;
            }
            self.set(kept, entry);
            kept += 1;
        }
        self.table.count.store(kept as u64, Relaxed);
        self.table.hint.store(0, Relaxed);
    }

    fn count(&self) -> usize {
        (self.table.count.load(Relaxed) as usize).min(MAX_EXTENTS)
    }

    /// Within the heap, whatever a program has written over the table.
    fn get(&self, index: usize) -> Entry {
        let slot = &self.table.slots[index];
        let place = slot.place.load(Relaxed);
        let start = (place & 0xffff_ffff).min(self.heap_pages);
        let pages = (place >> 32).min(self.heap_pages - start);
        Entry { at: Pages { start, pages }, owner: slot.owner.load(Relaxed) }
    }

    fn set(&self, index: usize, entry: Entry) {
        let slot = &self.table.slots[index];
        slot.owner.store(entry.owner, Release);
        slot.place.store(entry.place(), Release);
    }

    /// The first slot whose range starts at or after `page`.
    fn first_from(&self, page: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            if self.get(middle).at.start < page {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The slot whose range contains `page`.
    fn find(&self, page: u64) -> Option<usize> {
        let index = self.first_from(page + 1).checked_sub(1)?;
        (page < self.get(index).at.end()).then_some(index)
    }

    /// Splits a range at `page`; returns the slot that then starts there.
    fn cut(&self, index: usize, page: u64) -> Option<usize> {
        let entry = self.get(index);
        if page == entry.at.start {
            return Some(index);
        }
        if self.count() == MAX_EXTENTS {
            return None;
        }
        let head = Pages { start: entry.at.start, pages: page - entry.at.start };
        let tail = Pages { start: page, pages: entry.at.end() - page };
        // The head first: a death in between leaves the tail unowned and
        // nothing twice owned.
        self.set(index, Entry { at: head, owner: entry.owner });
        self.insert(index + 1, Entry { at: tail, owner: entry.owner });
        Some(index + 1)
    }

    fn insert(&self, index: usize, entry: Entry) {
        let count = self.count();
        let mut to = count;
        if to > index {
            // The last entry exists twice before the table grows.
            self.set(to, self.get(to - 1));
            self.table.count.store(count as u64 + 1, Release);
            to -= 1;
            while to > index {
                self.set(to, self.get(to - 1));
                to -= 1;
            }
            self.set(index, entry);
        } else {
            self.set(index, entry);
            self.table.count.store(count as u64 + 1, Release);
        }
    }

    fn remove(&self, index: usize) {
        let count = self.count();
        for to in index..count - 1 {
            let entry = self.get(to + 1);
            let slot = &self.table.slots[to];
            // In the reverse order of `set`, so that here too the later of
            // two equal starts has the true owner.
            slot.place.store(entry.place(), Release);
            slot.owner.store(entry.owner, Release);
        }
        self.table.count.store(count as u64 - 1, Release);
        if (index as u64) < self.table.hint.load(Relaxed) {
            self.table.hint.store(index as u64, Relaxed);
        }
    }
}
