//! A forked child gets a private copy of every moved buffer and loses the cards.
//!
//! Moved buffers are shared mappings, which `fork` would share between parent
//! and child although the program thinks of them as ordinary memory. The child
//! copies them before `fork` returns in it, and the parent's `fork` returns only
//! after that, so that the child sees them as they were.
//!
//! A process made by the bare `clone` system call runs no handlers and keeps
//! sharing; nothing in user space can see it.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::announced::forget_thread;
use super::registry::{close_descriptors, forget_all, in_base, segments, PROCESS};
use super::Local;
use crate::segment::moving::maps::{each_mapping, Mapping};
use crate::segment::moving::pages::move_out;
use crate::segment::moving::protect;

/// The longest that a parent waits for its child to have copied.
const LONGEST_COPY_MS: i32 = 60_000;
/// Mappings read before they are changed.
const BATCH: usize = 64;

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// A pipe that the child closes when it has copied (or dies): -1 when unused.
static DONE_READ: AtomicI32 = AtomicI32::new(-1);
static DONE_WRITE: AtomicI32 = AtomicI32::new(-1);

extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// Registers the handlers, once in a process. PROCESS is held.
pub(super) fn install() -> io::Result<()> {
    if !INSTALLED.load(Ordering::Relaxed) {
        // SAFETY: the handlers are functions of this library; glibc drops them
        // if the library is ever unloaded.
        match unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) } {
            0 => INSTALLED.store(true, Ordering::Relaxed),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
    Ok(())
}

extern "C" fn prepare() {
    PROCESS.acquire();
    // SAFETY: PROCESS is held, so the entries are alive.
    let moved = unsafe {
        let mut all = segments().iter();
        all.any(|&local| (*local).moved_pages.load(Ordering::Relaxed))
    };
    let mut ends = [-1; 2];
    if moved {
        // SAFETY: `ends` has room for two descriptors. Without a pipe (no
        // descriptors left) the parent does not wait.
        unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    }
    DONE_READ.store(ends[0], Ordering::Relaxed);
    DONE_WRITE.store(ends[1], Ordering::Relaxed);
}

extern "C" fn parent() {
    close(&DONE_WRITE);
    let mut wait = libc::pollfd { fd: DONE_READ.load(Ordering::Relaxed), events: libc::POLLIN, revents: 0 };
    if wait.fd >= 0 {
        // The end of the pipe: the child has copied, has died, or was never made.
        // SAFETY: one valid entry.
        while unsafe { libc::poll(&mut wait, 1, LONGEST_COPY_MS) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    close(&DONE_READ);
    PROCESS.release();
}

extern "C" fn child() {
    forget_thread();
    // SAFETY: PROCESS is held since `prepare`, and only this thread exists.
    unsafe {
        for &local in segments() {
            if (*local).moved_pages.load(Ordering::Relaxed) {
                privatise(&*local);
            }
        }
        for &local in segments() {
            detach(&*local);
        }
        forget_all();
    }
    protect::end();
    close(&DONE_WRITE);
    close(&DONE_READ);
    PROCESS.release();
}

/// Replaces every moved buffer by a private copy.
///
/// # Safety
/// PROCESS is held.
unsafe fn privatise(local: &Local) {
    let mut from = 0;
    loop {
        let mut batch = [Mapping::default(); BATCH];
        let mut found = 0;
        let complete = each_mapping(from, |mapping| {
            // SAFETY: PROCESS is held.
            let base = unsafe { in_base(mapping.start) };
            if local.is_mapped_by(mapping) && !base {
                batch[found] = *mapping;
                found += 1;
            }
            found < BATCH
        });
        for mapping in &batch[..found] {
            let len = mapping.end - mapping.start;
            // SAFETY: a mapping of the segment that is no base mapping. On an
            // error (no memory) the buffer must at least not stay shared.
            unsafe {
                if move_out(local.file(), mapping.start, len, mapping.offset, false).is_err() {
                    libc::munmap(mapping.start as *mut libc::c_void, len as usize);
                }
            }
            from = mapping.end;
        }
        if complete.is_err() || found < BATCH {
            return;
        }
    }
}

/// The child has no cards: empty memory takes the segment's place.
///
/// # Safety
/// Runs in the child of a fork, with PROCESS held.
unsafe fn detach(local: &Local) {
    local.detached.store(true, Ordering::Relaxed);
    // SAFETY: replaces our own base mapping. If that fails it must not stay.
    unsafe {
        let at = libc::mmap(
            local.base as *mut libc::c_void,
            local.total_bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if at == libc::MAP_FAILED {
            libc::munmap(local.base as *mut libc::c_void, local.total_bytes as usize);
        }
    }
    // The keeper must see the end of the parent's connection when the parent
    // ends, not when this child does.
    close_descriptors(local);
}

fn close(descriptor: &AtomicI32) {
    let fd = descriptor.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: the descriptor is one end of our pipe.
        unsafe { libc::close(fd) };
    }
}
