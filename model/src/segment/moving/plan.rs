//! Which parts of a buffer can be moved into the segment.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;

use super::maps::{each_mapping, Mapping};
use crate::segment::error::SegmentError;
use crate::segment::extents::Pages;
use crate::segment::page::{page_ceil, page_floor, PAGE};
use crate::segment::reach::kernel::process_vm;
use crate::segment::reach::transfer::{Direction, Transfer};
use crate::segment::registry::{self, InProcess};
use crate::segment::Segment;

/// A part of a buffer that is treated as one.
#[derive(Clone, Copy, Debug)]
pub(in crate::segment) struct Piece {
    pub(in crate::segment) start: u64,
    pub(in crate::segment) len: u64,
    pub(in crate::segment) source: Source,
}

/// Where the bytes of a piece are, or are to go.
#[derive(Clone, Copy, Debug)]
pub(in crate::segment) enum Source {
    /// They stay in memory that is not the segment's.
    Stays,
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

/// Splits the buffer along the process's mappings. Also returns the mappings of
/// files that other processes can map.
pub(in crate::segment) fn plan(
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
        let ours = segment.local.is_mapped_by(mapping);
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
    if segment.local.is_mapped_by(mapping) {
        let base = registry::is_base(held, mapping.start);
        let offset = mapping.offset + (from - mapping.start);
        push(from, to, Source::InSegment { offset, base });
        return;
    }
    let anonymous = mapping.inode == 0 && mapping.private_writable && !mapping.special;
    if !anonymous || is_alone(segment, mapping) {
        push(from, to, Source::Stays);
        return;
    }
    // Whole pages inside the buffer: bytes that share their page with other data of
    // the program stay there.
    let first = page_ceil(start).unwrap_or(end).clamp(from, to);
    let last = page_floor(end).clamp(first, to);
    push(from, first, Source::Stays);
    // The mapping of a thread's stack may be one with its neighbours.
    let mut at = first;
    for stack in thread_stacks(mapping) {
        let below = stack.start.clamp(at, last);
        let above = stack.end.clamp(below, last);
        push(at, below, Source::Movable);
        push(below, above, Source::Stays);
        at = above;
    }
    push(at, last, Source::Movable);
    push(last, to, Source::Stays);
}

/// A page that is a mapping of its own: in the segment it could grow by mremap over what follows there, which `move_in`
/// prevents for more than a page. With other memory of this kind beside it, moved or not, it was a part of that.
fn is_alone(segment: &Segment, mapping: &Mapping) -> bool {
    let memory = |at: u64| {
        let mut memory = false;
        let _ = each_mapping(at, |other| {
            let ours = segment.local.is_mapped_by(other);
            memory = other.start <= at && (ours || other.inode == 0 && other.private_writable);
            false
        });
        memory
    };
    mapping.end - mapping.start == PAGE && !memory(mapping.start.wrapping_sub(1)) && !memory(mapping.end)
}

/// The stacks of all threads in this mapping, in order.
///
/// The C library announces a list of robust futexes for each thread, in its data at the upper end of the thread's
/// stack: the address of the list gives the place of the stack. (Threads of another library announce none.)
fn thread_stacks(mapping: &Mapping) -> Vec<Range<u64>> {
    let own = thread_stack();
    let mut stacks = vec![own.clone()];
    let list = |tid: libc::c_long| {
        let (mut head, mut length) = (0_u64, 0_usize);
        // SAFETY: both places are written.
        let code = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut length) };
        (code == 0 && head != 0).then_some(head)
    };
    // SAFETY: plain queries.
    let (me, main, handle) =
        unsafe { (libc::syscall(libc::SYS_gettid), libc::getpid(), libc::pthread_self()) };
    let Some(offset) = list(0).map(|head| head.wrapping_sub(handle)) else { return stacks };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse::<libc::c_long>().ok());
    for tid in tids.filter(|&tid| tid != me && tid != libc::c_long::from(main)) {
        let Some(head) = list(tid).filter(|head| (mapping.start..mapping.end).contains(head)) else {
            continue;
        };
        // The C library's data of that thread begins as far before its list as that of this thread, unless that thread
        // has announced a list of its own or has just ended.
        let thread = head.wrapping_sub(offset);
        if is_thread(thread) {
            // SAFETY: as was just seen; memory of threads that end is kept for others by the C library.
            stacks.push(unsafe { stack_of(thread) });
        }
    }
    stacks.sort_by_key(|stack| stack.start);
    stacks
}

/// Whether the C library's data of a thread is there: its first and third words are its own address (the ABI of
/// thread-local storage). The kernel reads them, since nothing may be mapped there.
fn is_thread(at: u64) -> bool {
    let mut words = [0_u64; 3];
    let (here, len) = (words.as_mut_ptr().cast(), size_of_val(&words));
    let whole = Transfer { member: 0, iova: at, here, len, direction: Direction::Read };
    process_vm(std::process::id(), whole).is_ok() && words[0] == at && words[2] == at
}

/// The stack of this thread; empty for the main thread, whose stack the kernel
/// names in the list of mappings.
fn thread_stack() -> Range<u64> {
    // SAFETY: plain queries about this thread.
    unsafe {
        match libc::getpid() == libc::gettid() {
            true => 0..0,
            false => stack_of(libc::pthread_self()),
        }
    }
}

/// # Safety
/// It is a thread of this process, which does not end meanwhile.
unsafe fn stack_of(thread: libc::pthread_t) -> Range<u64> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut base, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: plain queries about a thread that is there; the attributes are initialised by pthread_getattr_np when that
    // succeeds.
    unsafe {
        if libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &mut base, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    base as u64..base as u64 + size as u64
}
