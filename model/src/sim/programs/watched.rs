//! The memory that an actor watches while it waits.

use crate::plain::Plain;

/// Ranges that one actor watches.
pub const RANGES: usize = 8;

/// The memory that an actor watches while it waits.
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub struct Watched {
    count: u32,
    /// First address, and one past the end.
    ranges: [(u64, u64); RANGES],
}

impl Watched {
    /// Adds a range of addresses of the process; what finds no room widens the last one.
    pub fn add(&mut self, range: std::ops::Range<u64>) {
        match self.ranges.get_mut(self.count as usize) {
            Some(place) => {
                *place = (range.start, range.end);
                self.count += 1;
            }
            None => {
                let last = &mut self.ranges[RANGES - 1];
                *last = (last.0.min(range.start), last.1.max(range.end));
            }
        }
    }

    /// All memory.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Whether a write of `len` bytes at `at` is to some of it. With no range all memory is watched.
    pub fn sees(&self, at: u64, len: u64) -> bool {
        let ranges = &self.ranges[..self.count as usize];
        ranges.is_empty() || ranges.iter().any(|&(first, end)| at < end && first < at + len)
    }
}
