//! The units of a segment: pages and members.

/// Unit of the heap, in bytes.
pub const PAGE: u64 = 4096;
/// Processes in one segment, including the keeper (member 0).
pub const MAX_MEMBERS: usize = 256;

/// Rounds down to a page.
pub const fn page_floor(x: u64) -> u64 {
    x & !(PAGE - 1)
}

/// Rounds up to a page, `None` on overflow.
pub const fn page_ceil(x: u64) -> Option<u64> {
    match x.checked_add(PAGE - 1) {
        Some(sum) => Some(page_floor(sum)),
        None => None,
    }
}
