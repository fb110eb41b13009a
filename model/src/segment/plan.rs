//! Which parts of a buffer can be moved into the segment.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;

use super::extents::Pages;
use super::layout::{page_ceil, page_floor, PAGE};
use super::maps::{each_mapping, Mapping};
use super::mover::SegmentError;
use super::registry::{self, InProcess};
use super::Segment;

/// A part of a buffer that is treated as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) source: Source,
}

/// Where the bytes of a piece are, or are to go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// They stay in memory that is not the segment's.
    Foreign,
    /// Whole pages that can be moved.
    Movable,
    /// An extent is waiting for them.
    Reserved(Pages),
    /// They were moved just now.
    Moved(Pages),
    /// They are in the segment already, at this offset: moved before, or
    /// (`base`) memory that was taken from the heap.
    InSegment { offset: u64, base: bool },
}

/// Takes the buffer apart along the process's mappings. Returns also those of
/// them that show files which others can map.
pub(super) fn plan(
    segment: &Segment,
    held: &InProcess<'_>,
    start: u64,
    len: u64,
    writable: bool,
) -> Result<(Vec<Piece>, Vec<Mapping>), SegmentError> {
    let end = start.checked_add(len).ok_or(SegmentError::BadAddress(start))?;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut files = Vec::new();
    let mut at = start;
    let mut denied = false;
    each_mapping(start, |mapping| {
        let accessible = mapping.readable && (mapping.writable || !writable);
        if mapping.start > at || !accessible {
            denied = true;
            return false;
        }
        let to = end.min(mapping.end);
        let ours = (mapping.device, mapping.inode) == segment.local().identity;
        if mapping.shared && mapping.inode != 0 && !ours {
            files.push(*mapping);
        }
        classify(segment, held, mapping, (at, to), (start, end), &mut pieces);
        at = to;
        at < end
    })?;
    if denied || at < end {
        return Err(SegmentError::BadAddress(at));
    }
    Ok((pieces, files))
}

fn classify(
    segment: &Segment,
    held: &InProcess<'_>,
    mapping: &Mapping,
    (from, to): (u64, u64),
    (start, end): (u64, u64),
    pieces: &mut Vec<Piece>,
) {
    let mut push = |from: u64, to: u64, source: Source| {
        if from < to {
            pieces.push(Piece { start: from, len: to - from, source });
        }
    };
    if (mapping.device, mapping.inode) == segment.local().identity {
        let base = registry::is_base(held, mapping.start);
        let offset = mapping.offset + (from - mapping.start);
        push(from, to, Source::InSegment { offset, base });
        return;
    }
    let anonymous = mapping.inode == 0 && mapping.private_writable && !mapping.special;
    if !anonymous || is_alone(segment, mapping) {
        push(from, to, Source::Foreign);
        return;
    }
    // Whole pages inside the buffer: what shares its page with other data of
    // the program stays there.
    let first = page_ceil(start).unwrap_or(end).clamp(from, to);
    let last = page_floor(end).clamp(first, to);
    // The mapping of a thread's stack may be one with its neighbours.
    let stack = thread_stack();
    let below = stack.start.clamp(first, last);
    let above = stack.end.clamp(below, last);
    push(from, first, Source::Foreign);
    push(first, below, Source::Movable);
    push(below, above, Source::Foreign);
    push(above, last, Source::Movable);
    push(last, to, Source::Foreign);
}

/// A page that is a mapping of its own: in the segment it could grow by mremap over what follows there, which `move_in`
/// prevents for more than a page. With other memory of this kind beside it, moved or not, it was a part of that.
fn is_alone(segment: &Segment, mapping: &Mapping) -> bool {
    let memory = |at: u64| {
        let mut memory = false;
        let _ = each_mapping(at, |other| {
            let ours = (other.device, other.inode) == segment.local().identity;
            memory = other.start <= at && (ours || other.inode == 0 && other.private_writable);
            false
        });
        memory
    };
    mapping.end - mapping.start == PAGE && !memory(mapping.start.wrapping_sub(1)) && !memory(mapping.end)
}

/// The stack of this thread; empty for the main thread, whose stack the kernel
/// names in the list of mappings.
fn thread_stack() -> Range<u64> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut base, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: plain queries about this thread; the attributes are initialised
    // by pthread_getattr_np when that succeeds.
    unsafe {
        let main = libc::getpid() == libc::gettid();
        if main || libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &mut base, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    base as u64..base as u64 + size as u64
}
