//! The segments that this process has mapped, for the fork handlers and to
//! distinguish a base mapping from a moved buffer.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use super::layout::ISLANDS;
use super::local_lock::{Entered, LocalLock};
use super::moving::protect;
use super::{fork, Local, Segment};

/// Held while segments are mapped or unmapped, while pages are moved, and
/// across `fork`.
pub(super) static PROCESS: LocalLock = LocalLock::new();

struct Registry(UnsafeCell<Vec<*const Local>>);

// SAFETY: used only with PROCESS held.
unsafe impl Sync for Registry {}

static SEGMENTS: Registry = Registry(UnsafeCell::new(Vec::new()));

/// Proof that PROCESS is held.
pub(super) struct InProcess<'a>(#[allow(dead_code)] Entered<'a>);

pub(super) fn enter() -> InProcess<'static> {
    InProcess(PROCESS.enter())
}

/// # Safety
/// PROCESS is held for as long as the result is used.
pub(super) unsafe fn segments<'a>() -> &'a [*const Local] {
    // SAFETY: the list does not change while PROCESS is held.
    unsafe { &*SEGMENTS.0.get() }
}

/// # Safety
/// PROCESS is held and no result of [`segments`] is in use.
pub(super) unsafe fn forget_all() {
    // SAFETY: by contract. `clear` keeps the memory: no allocator call, as the
    // child of a fork may not make one yet.
    unsafe { (*SEGMENTS.0.get()).clear() };
}

/// The base mapping (first and last address) that contains `address`.
pub(super) fn is_base(_held: &InProcess<'_>, address: u64) -> bool {
    // SAFETY: PROCESS is held, so each entry is alive.
    unsafe { in_base(address) }
}

/// # Safety
/// PROCESS is held.
pub(super) unsafe fn in_base(address: u64) -> bool {
    // SAFETY: each entry is removed before its `Local` dies, under PROCESS.
    unsafe { segments() }.iter().any(|&local| unsafe {
        let local = &*local;
        address.wrapping_sub(local.base) < local.total_bytes
    })
}

/// Maps the segment file and registers it for the fork handlers.
pub(super) fn enter_segment(
    memfd: OwnedFd,
    wake: OwnedFd,
    connection: Option<OwnedFd>,
    sockets: Vec<OwnedFd>,
    total_bytes: u64,
    member: u16,
) -> io::Result<Segment> {
    let held = enter();
    fork::install()?;
    let stat = rustix::fs::fstat(&memfd)?;
    check_file_limit(total_bytes)?;
    if stat.st_size as u64 != total_bytes {
        return Err(io::Error::other("the segment file has another size"));
    }
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            null_mut(),
            total_bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            memfd.as_fd().as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // A core dump need not contain the cards of all processes.
    // SAFETY: advice about our own mapping.
    unsafe { libc::madvise(base, total_bytes as usize, libc::MADV_DONTDUMP) };
    let local = Box::new(Local {
        base: base as u64,
        total_bytes,
        memfd: memfd.into_raw_fd(),
        wake: wake.into_raw_fd(),
        connection: connection.map(IntoRawFd::into_raw_fd),
        sockets: sockets.into_iter().map(IntoRawFd::into_raw_fd).collect(),
        identity: ((rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)), stat.st_ino),
        detached: AtomicBool::new(false),
        moved_pages: AtomicBool::new(false),
        repairing: AtomicBool::new(false),
        overlapped: AtomicBool::new(false),
        world_bytes: AtomicU64::new(0),
        found: [const { AtomicPtr::new(null_mut()) }; ISLANDS],
        lent: UnsafeCell::default(),
        offers: UnsafeCell::default(),
        answerer: UnsafeCell::default(),
        asked: std::sync::OnceLock::new(),
    });
    // SAFETY: PROCESS is held.
    unsafe { (*SEGMENTS.0.get()).push(&raw const *local) };
    drop(held);
    Ok(Segment { base: base.cast(), member, local })
}

/// Writing beyond the limit on file sizes would kill the program (SIGXFSZ).
pub(super) fn check_file_limit(total_bytes: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    match limit.current {
        Some(limit) if limit < total_bytes => Err(io::Error::other(
            "the limit on file sizes is below the size of the cards' memory: ulimit -f unlimited",
        )),
        _ => Ok(()),
    }
}

/// The opposite of [`enter_segment`].
pub(super) fn leave(local: &Local) {
    let _held = enter();
    // SAFETY: PROCESS is held.
    unsafe { (*SEGMENTS.0.get()).retain(|&entry| !std::ptr::eq(entry, local)) };
    // SAFETY: as above.
    if unsafe { segments() }.is_empty() {
        protect::end();
    }
    // SAFETY: the mapping is ours and its owner is being dropped. In a forked
    // child it is the empty memory that took the segment's place.
    unsafe { libc::munmap(local.base as *mut libc::c_void, local.total_bytes as usize) };
    if !local.detached.load(Ordering::Relaxed) {
        close_descriptors(local);
    }
}

/// Closes a segment's descriptors; the caller makes sure that this happens once.
pub(super) fn close_descriptors(local: &Local) {
    let sockets = local.sockets.iter().copied();
    for fd in [local.memfd, local.wake].into_iter().chain(local.connection).chain(sockets) {
        // SAFETY: the descriptors are this segment's own.
        unsafe { libc::close(fd) };
    }
}
