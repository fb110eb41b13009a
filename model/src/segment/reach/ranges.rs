//! Reference-counted address ranges: the algorithm of a DMA map.
//!
//! Ranges are sorted and disjoint; every byte has the number of regions that
//! cover it and one backing. A change is computed as a replacement for a window
//! of ranges first, so that it takes effect as a whole or not at all.

use crate::plain::Plain;

/// The backing of a range in its owner's memory, at the address that the range has.
pub const PRIVATE: u64 = u64::MAX;
/// In the backing: not an offset in the segment, but a [`Place`].
const PLACED: u64 = 1 << 63;

/// Where memory is whose address in its owner is not that of the range: memory that a client of a served
/// card has lent, as its server has mapped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    const NO_WRITE: u64 = 1 << 62;
    const NO_READ: u64 = 1 << 61;
    const ASK: u64 = 1 << 60;
    const ADDRESS: u64 = Self::ASK - 1;

    /// At this address of the owner, with these rights of the card.
    pub fn new(address: u64, readable: bool, writable: bool) -> Place {
        let right = |allowed: bool, bit: u64| if allowed { 0 } else { bit };
        Place(
            PLACED
                | right(writable, Self::NO_WRITE)
                | right(readable, Self::NO_READ)
                | address & Self::ADDRESS,
        )
    }

    /// Not in the owner's memory: the owner gets the bytes at this IOVA from its client
    /// ([`super::ask`]). `None` for an address of more than 60 bits.
    pub fn asked(iova: u64, readable: bool, writable: bool) -> Option<Place> {
        (iova <= Self::ADDRESS).then(|| Place(Self::new(iova, readable, writable).0 | Self::ASK))
    }

    /// The owner must be asked.
    pub fn is_asked(self) -> bool {
        self.0 & Self::ASK != 0
    }

    /// The address in the owner's memory, or the IOVA to ask for.
    pub fn address(self) -> u64 {
        self.0 & Self::ADDRESS
    }

    /// The card may read it.
    pub fn readable(self) -> bool {
        self.0 & Self::NO_READ == 0
    }

    /// The card may write to it.
    pub fn writable(self) -> bool {
        self.0 & Self::NO_WRITE == 0
    }

    /// As the backing of a range.
    pub fn backing(self) -> u64 {
        self.0
    }

    /// The place `bytes` further.
    pub fn after(self, bytes: u64) -> Place {
        Place(self.0 + bytes)
    }
}

/// One range of addresses in the segment.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Plain)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Number of bytes.
    pub len: u64,
    /// Offset in the segment file of the first byte, a [`Place`], or [`PRIVATE`].
    pub backing: u64,
    /// How many regions cover it.
    pub refs: u64,
}

impl Range {
    /// True if its bytes are in the segment file.
    pub fn in_segment(&self) -> bool {
        self.backing & PLACED == 0
    }

    /// Where its bytes are in its owner's memory, if not at its own addresses.
    pub fn place(&self) -> Option<Place> {
        (self.backing & PLACED != 0 && self.backing != PRIVATE).then_some(Place(self.backing))
    }

    /// One past the last address.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }

    /// The part from `start` to `end`, which are inside.
    fn part(&self, start: u64, end: u64) -> Range {
        Range {
            start,
            len: end - start,
            backing: match self.backing {
                PRIVATE => PRIVATE,
                offset => offset + (start - self.start),
            },
            refs: self.refs,
        }
    }

    /// True when `next` follows in addresses and in backing.
    fn joins(&self, next: &Range) -> bool {
        let backing = match self.backing {
            PRIVATE => PRIVATE,
            offset => offset + self.len,
        };
        self.end() == next.start && backing == next.backing
    }
}

/// A window `from..to` of the old ranges and what takes its place.
#[derive(Debug)]
pub struct Change {
    /// First range that is replaced.
    pub from: usize,
    /// One past the last range of the window.
    pub to: usize,
    /// The ranges that replace them.
    pub ranges: Vec<Range>,
    /// Backings that addresses of the window no longer have.
    pub dropped: Vec<Range>,
}

/// The address is not covered, so nothing can be released there.
#[derive(Debug, PartialEq, Eq)]
pub struct NotCovered(
    /// First such address.
    pub u64,
);

/// The range that contains `address`.
#[inline]
pub fn find(old: &[Range], address: u64) -> Option<usize> {
    let index = old.partition_point(|range| range.start <= address).checked_sub(1)?;
    (address < old[index].end()).then_some(index)
}

/// The range at `index` with the neighbours that continue it in addresses and
/// backing, whatever their references.
pub fn contiguous(all: &[Range], index: usize) -> Range {
    let mut whole = all[index];
    for next in &all[index + 1..] {
        if !whole.joins(next) {
            break;
        }
        whole.len += next.len;
    }
    for before in all[..index].iter().rev() {
        if !before.joins(&whole) {
            break;
        }
        whole = Range { len: before.len + whole.len, ..*before };
    }
    whole
}

/// Adds one region, given as adjacent pieces (their `refs` are ignored).
/// Where a range exists already, it gets the piece's backing.
pub fn insert(old: &[Range], pieces: &[Range]) -> Change {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
        return unchanged();
    };
    let mut change = window(old, first.start, last.end());
    let mut cursor = Cursor::new(&old[change.from..change.to]);
    cursor.keep_until(first.start, &mut change.ranges);
    for piece in pieces {
        let mut at = piece.start;
        while at < piece.end() {
            let (covering, end) = cursor.take(at, piece.end());
            let mut new = piece.part(at, end);
            new.refs = covering.map_or(0, |range| range.refs) + 1;
            if let Some(range) = covering {
                if range.backing != new.backing && range.in_segment() {
                    change.dropped.push(range);
                }
            }
            push(&mut change.ranges, new);
            at = end;
        }
    }
    cursor.keep_until(u64::MAX, &mut change.ranges);
    change
}

/// Removes one region.
pub fn remove(old: &[Range], start: u64, len: u64) -> Result<Change, NotCovered> {
    let end = start + len;
    if len == 0 {
        return Ok(unchanged());
    }
    let mut change = window(old, start, end);
    let mut cursor = Cursor::new(&old[change.from..change.to]);
    cursor.keep_until(start, &mut change.ranges);
    let mut at = start;
    while at < end {
        let (covering, to) = cursor.take(at, end);
        let mut range = covering.ok_or(NotCovered(at))?;
        range.refs -= 1;
        if range.refs > 0 {
            push(&mut change.ranges, range);
        } else if range.in_segment() {
            change.dropped.push(range);
        }
        at = to;
    }
    cursor.keep_until(u64::MAX, &mut change.ranges);
    Ok(change)
}

fn unchanged() -> Change {
    Change { from: 0, to: 0, ranges: Vec::new(), dropped: Vec::new() }
}

/// The ranges that overlap `start..end`, and those that touch it, since they
/// may merge with what is put there.
fn window(old: &[Range], start: u64, end: u64) -> Change {
    let from = old.partition_point(|range| range.end() < start);
    let to = old.partition_point(|range| range.start <= end);
    Change { from, to: to.max(from), ranges: Vec::new(), dropped: Vec::new() }
}

fn push(ranges: &mut Vec<Range>, next: Range) {
    match ranges.last_mut() {
        Some(last) if last.joins(&next) && last.refs == next.refs => last.len += next.len,
        _ => ranges.push(next),
    }
}

/// Walks old ranges in order, cutting them where asked.
struct Cursor<'a> {
    rest: &'a [Range],
    /// The remainder of the first of `rest`.
    head: Option<Range>,
}

impl<'a> Cursor<'a> {
    fn new(rest: &'a [Range]) -> Cursor<'a> {
        Cursor { rest, head: rest.first().copied() }
    }

    fn advance(&mut self, to: u64) {
        if let Some(head) = self.head {
            if to < head.end() {
                self.head = Some(head.part(to, head.end()));
            } else {
                self.rest = &self.rest[1..];
                self.head = self.rest.first().copied();
            }
        }
    }

    /// Moves everything below `address` to `out` as it is.
    fn keep_until(&mut self, address: u64, out: &mut Vec<Range>) {
        while let Some(head) = self.head.filter(|head| head.start < address) {
            let to = head.end().min(address);
            push(out, head.part(head.start, to));
            self.advance(to);
        }
    }

    /// The old range at `at` (or the gap: `None`), cut at `limit`, and where it
    /// ends.
    fn take(&mut self, at: u64, limit: u64) -> (Option<Range>, u64) {
        match self.head {
            Some(head) if head.start <= at => {
                let to = head.end().min(limit);
                self.advance(to);
                (Some(head.part(at, to)), to)
            }
            Some(head) => (None, head.start.min(limit)),
            None => (None, limit),
        }
    }
}
