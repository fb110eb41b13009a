//! Holding other threads' writes to some pages while those pages are replaced.
//!
//! Uses userfaultfd: a thread that writes (or touches a page that does not exist
//! yet) sleeps in its page fault until this is dropped, and then finds the new
//! mapping.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const UFFDIO_WAKE: libc::c_ulong = 0x8010_aa02;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const UFFD_API: u64 = 0xaa;
const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const FEATURE_WP: u64 = 1;
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 2;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

/// What kind of memory is to be protected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Private anonymous memory.
    Anonymous,
    /// A mapping of the segment.
    Shared,
}

/// Writes are held back until this is dropped.
pub struct Protected {
    fd: RawFd,
    range: Range,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    len: u64,
}

impl Drop for Protected {
    fn drop(&mut self) {
        let mut range = self.range;
        // A range that was replaced is no longer registered; threads that wait there have to be woken.
        let _ = ioctl(self.fd, UFFDIO_UNREGISTER, &mut range);
        let _ = ioctl(self.fd, UFFDIO_WAKE, &mut range);
    }
}

/// Why nothing is protected.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The system does not offer it (kernel, seccomp, sysctl).
    NotOffered,
    /// The program uses userfaultfd on this memory itself.
    InUse,
}

/// Holds writes to `start..start + len`, which must be page aligned and mapped. With the process's lock held.
///
/// The caller must not write there itself, nor read pages that do not exist.
pub fn protect(start: u64, len: u64, kind: Kind) -> Result<Protected, Refusal> {
    let mode = match kind {
        // A page that does not exist yet could not be write-protected on older
        // kernels, so the first touch of those is held as well.
        Kind::Anonymous => MODE_WP | MODE_MISSING,
        Kind::Shared => MODE_WP,
    };
    let fd = descriptor()?;
    let mut register = Register { start, len, mode, ioctls: 0 };
    ioctl(fd, UFFDIO_REGISTER, &mut register).map_err(|errno| match errno {
        libc::EBUSY => Refusal::InUse,
        _ => Refusal::NotOffered,
    })?;
    let protected = Protected { fd, range: Range { start, len } };
    let mut write_protect = WriteProtect { start, len, mode: 1 };
    ioctl(fd, UFFDIO_WRITEPROTECT, &mut write_protect).map_err(|_| Refusal::NotOffered)?;
    Ok(protected)
}

/// The process's descriptor; -1: none. Used with the process's lock held. When it is closed the kernel walks all
/// mappings of the process, so it stays open until the last segment is left.
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

fn descriptor() -> Result<RawFd, Refusal> {
    let known = DESCRIPTOR.load(Ordering::Relaxed);
    if known >= 0 {
        return Ok(known);
    }
    // The second is for kernels that cannot protect mappings of a file.
    for features in [FEATURE_WP | FEATURE_WP_SHMEM, FEATURE_WP] {
        let fd = open()?;
        let mut api = Api { api: UFFD_API, features, ioctls: 0 };
        if ioctl(fd.as_raw_fd(), UFFDIO_API, &mut api).is_ok() {
            let fd = fd.into_raw_fd();
            DESCRIPTOR.store(fd, Ordering::Relaxed);
            return Ok(fd);
        }
    }
    Err(Refusal::NotOffered)
}

/// The last segment was left, or this is a forked child, whose descriptor is its parent's.
pub(in crate::segment) fn end() {
    let fd = DESCRIPTOR.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        // SAFETY: our own descriptor.
        unsafe { libc::close(fd) };
    }
}

fn open() -> Result<OwnedFd, Refusal> {
    // With privilege, writes by system calls of other threads are held too;
    // without it, only those by their own instructions.
    for extra in [0, UFFD_USER_MODE_ONLY] {
        // SAFETY: the call has no memory arguments; a descriptor that it
        // returns is ours.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | extra);
            if fd >= 0 {
                return Ok(OwnedFd::from_raw_fd(fd as libc::c_int));
            }
        }
    }
    Err(Refusal::NotOffered)
}

fn ioctl<T>(fd: RawFd, request: libc::c_ulong, argument: &mut T) -> Result<(), libc::c_int> {
    // SAFETY: `T` is the structure that `request` expects (its size is in
    // the request's number).
    match unsafe { libc::ioctl(fd, request, argument as *mut T) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}
