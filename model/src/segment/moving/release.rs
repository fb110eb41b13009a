//! Returning pages of the segment: to the program, if its buffer is still
//! there, and to the system.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::maps::{each_mapping, Mapping};
use super::pages::{move_out, punch};
use crate::segment::error::LOCK_PATIENCE;
use crate::segment::extents::{Extents, Pages};
use crate::segment::lock::Guard;
use crate::segment::page::PAGE;
use crate::segment::reach::dma::Dma;
use crate::segment::reach::ranges::Range;
use crate::segment::registry::{self, InProcess};
use crate::segment::Segment;

impl Segment {
    /// Pages of `dropped` that no address of this member maps any longer.
    pub(in crate::segment) fn unused(&self, dma: &Dma<'_>, dropped: &[Range]) -> Vec<Leaving> {
        let heap = self.heap_offset();
        let mut unused = Vec::new();
        // Where nothing was registered twice there is nothing to search.
        let others = match self.local.overlapped.load(Ordering::Relaxed) {
            true => dma.ranges(),
            false => &[],
        };
        for range in dropped {
            let mut page = (range.backing - heap) / PAGE;
            let end = (range.backing + range.len - heap).div_ceil(PAGE);
            // Pages still in use cut the run into smaller ones.
            let mut used: Vec<(u64, u64)> = others
                .iter()
                .filter(|other| other.in_segment())
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
                    let address = range.start.wrapping_add((heap + page * PAGE).wrapping_sub(range.backing));
                    unused.push(Leaving { pages: Pages { start: page, pages: from - page }, address });
                }
                page = page.max(to);
            }
        }
        unused
    }

    /// Turns every buffer that maps these pages into private memory again, then
    /// frees them. Pages that cannot be moved out stay as they are.
    pub(in crate::segment) fn bring_home_and_free(&self, held: &InProcess<'_>, leaving: &[Leaving]) {
        if leaving.is_empty() {
            return;
        }
        let pages = pages_of(leaving);
        let Ok(stuck) = self.bring_home(held, &pages, leaving) else {
            return;
        };
        let free: Vec<Pages> = pages
            .into_iter()
            .filter(|run| !stuck.iter().any(|left| left.start < run.end() && run.start < left.end()))
            .collect();
        self.give_back(&free);
    }

    /// Returns the pages that are still mapped somewhere because moving them
    /// failed. `leaving`: where they are, unless the program has moved or unmapped them.
    pub(in crate::segment) fn bring_home(
        &self,
        held: &InProcess<'_>,
        pages: &[Pages],
        leaving: &[Leaving],
    ) -> std::io::Result<Vec<Pages>> {
        let mut found = match self.in_their_places(held, leaving)? {
            Some(found) => found,
            None => self.everywhere(held, pages)?,
        };
        join(&mut found);
        let mut stuck = Vec::new();
        for (address, run) in found {
            let offset = self.offset_of(run.start);
            // SAFETY: by the kernel's list the segment is mapped there at this offset, and it is no base mapping.
            let moved = unsafe { move_out(self.local.file(), address, run.bytes(), offset, true) };
            if moved.is_err() {
                stuck.push(run);
            }
        }
        Ok(stuck)
    }

    /// Where these pages are, if each is at its place; then the other mappings of the process need no search.
    /// (There is no second mapping of them: the program takes this memory for private and cannot ask for one.)
    fn in_their_places(
        &self,
        held: &InProcess<'_>,
        leaving: &[Leaving],
    ) -> std::io::Result<Option<Vec<(u64, Pages)>>> {
        let mut found = Vec::new();
        // An area stays where it is.
        for one in leaving.iter().filter(|one| !registry::is_base(held, one.address)) {
            let (mut at, end) = (one.address, one.address + one.pages.bytes());
            each_mapping(at, |mapping: &Mapping| {
                let offset = mapping.offset.wrapping_add(at.wrapping_sub(mapping.start));
                let shown = self.local.is_mapped_by(mapping)
                    && mapping.start <= at
                    && offset == self.offset_of(one.pages.start) + (at - one.address);
                if shown {
                    at = mapping.end.min(end);
                }
                shown && at < end
            })?;
            if at < end {
                return Ok(None);
            }
            found.push((one.address, one.pages));
        }
        Ok((!leaving.is_empty()).then_some(found))
    }

    /// Wherever these pages are mapped: searches all mappings of the process.
    fn everywhere(&self, held: &InProcess<'_>, pages: &[Pages]) -> std::io::Result<Vec<(u64, Pages)>> {
        let mut found = Vec::new();
        each_mapping(0, |mapping: &Mapping| {
            if self.local.is_mapped_by(mapping) && !registry::is_base(held, mapping.start) {
                found.extend(self.overlaps(mapping, pages));
            }
            true
        })?;
        Ok(found)
    }

    /// The parts of `mapping` that map some of `pages`.
    fn overlaps<'a>(&self, mapping: &Mapping, pages: &'a [Pages]) -> impl Iterator<Item = (u64, Pages)> + 'a {
        let heap = self.heap_offset();
        let first = mapping.offset.saturating_sub(heap) / PAGE;
        let last = first + (mapping.end - mapping.start) / PAGE;
        let address = mapping.start;
        let in_heap = mapping.offset >= heap;
        pages.iter().filter_map(move |run| {
            let (start, end) = (run.start.max(first), run.end().min(last));
            (in_heap && start < end)
                .then(|| (address + (start - first) * PAGE, Pages { start, pages: end - start }))
        })
    }

    /// Frees extents of this member. If the lock cannot be had they stay
    /// until the process ends.
    pub(in crate::segment) fn give_back(&self, pages: &[Pages]) {
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

    /// Second half of freeing; false if the lock could not be had (the extents
    /// stay retired).
    fn punch_and_remove(&self, owner: u16, retired: &[Pages], wait: Duration) -> bool {
        if retired.is_empty() {
            return true;
        }
        let mut empty = Vec::with_capacity(retired.len());
        for run in retired {
            // Without the lock: returning many pages takes long. Pages that could not
            // be emptied must not be allocated as zeroes.
            if punch(self.local.file(), self.offset_of(run.start), run.bytes()).is_ok() {
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
}

/// Pages that are to leave the segment, and the address at which the program should have them.
pub(in crate::segment) struct Leaving {
    pub(in crate::segment) pages: Pages,
    pub(in crate::segment) address: u64,
}

pub(in crate::segment) fn pages_of(leaving: &[Leaving]) -> Vec<Pages> {
    merge(leaving.iter().map(|one| one.pages).collect())
}

/// Merges neighbours that continue each other: a buffer becomes one mapping again.
fn join(found: &mut Vec<(u64, Pages)>) {
    found.sort_unstable();
    found.dedup_by(|next, last| {
        let joined = last.0 + last.1.bytes() == next.0 && last.1.end() == next.1.start;
        if joined {
            last.1.pages += next.1.pages;
        }
        joined
    });
}

/// Sorts runs and merges those that touch or overlap.
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

/// Frees everything of a member that has ended. False if the lock could not be
/// had; then the caller tries again.
pub(in crate::segment) fn free_member(segment: &Segment, member: u16, wait: Duration) -> bool {
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
    guard.clear_files(member);
    if let Some(mailbox) = guard.segment().tables().mailboxes.get(usize::from(member)) {
        mailbox.close();
    }
    Extents::new(guard).retire_all(member)
}
