//! Moving pages between a process's private memory and the segment.
//!
//! Without libc, whose functions the program may have replaced: UCX takes a mapping over another one for the end of the
//! memory there, which ends its own registrations, and its `mremap` (up to 1.13) has no place for the new address.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::mm::{madvise, mmap, mmap_anonymous, mremap_fixed, munmap, Advice};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

use super::present_pages::each_populated;
use super::protect::{protect, Kind, Refusal};
use crate::segment::page::PAGE;
use crate::segment::signals::SignalsBlocked;

/// Replaces the private pages `start..start + len` by those at `offset` of the
/// segment (which are zero), with the same content. On an error the private
/// pages are as before.
///
/// # Safety
/// The range is page aligned private anonymous memory of this process, and the
/// range of the segment belongs to this process.
pub(in crate::segment) unsafe fn move_in(
    file: BorrowedFd<'_>,
    start: u64,
    len: u64,
    offset: u64,
) -> io::Result<()> {
    let _signals = SignalsBlocked::new();
    let protected = match protect(start, len, Kind::Anonymous) {
        Ok(protected) => Some(protected),
        Err(Refusal::NotOffered) => None,
        Err(Refusal::InUse) => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
    };
    each_populated(start, start + len, |at, bytes| {
        write_all(file.as_raw_fd(), at, bytes, offset + (at - start))
    })?;
    // SAFETY: the caller vouches for the range; what is there is replaced in
    // one step by memory of the same content.
    let result = unsafe {
        mmap(
            start as *mut libc::c_void,
            len as usize,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
            file,
            offset,
        )
    };
    if result.is_ok() && len > PAGE {
        // What follows in the segment belongs to others: the program's mremap must not make it a part of the buffer.
        // The kernel does not grow a range of two mappings, and it does not merge mappings with different advice.
        // SAFETY: read-ahead advice, without effect on memory, about a page that was mapped just now.
        let _ = unsafe { madvise((start + len - PAGE) as *mut libc::c_void, PAGE as usize, Advice::Random) };
    }
    drop(protected);
    Ok(result.map(drop)?)
}

/// The way back: replaces a mapping of the segment by private memory of the
/// same content. On an error the mapping is as before.
///
/// # Safety
/// The range is page aligned and maps the segment at `offset`, and is no
/// process's base mapping.
pub(in crate::segment) unsafe fn move_out(
    file: BorrowedFd<'_>,
    start: u64,
    len: u64,
    offset: u64,
    hold_writers: bool,
) -> io::Result<()> {
    let _signals = SignalsBlocked::new();
    let private = PrivateMemory::new(len)?;
    let protected = hold_writers.then(|| protect(start, len, Kind::Shared));
    each_data(file.as_raw_fd(), offset, len, |at, bytes| {
        read_all(file.as_raw_fd(), private.start + (at - offset), bytes, at)
    })?;
    let moved = private.move_over(start);
    drop(protected);
    moved
}

/// New private memory that is not in its place yet.
struct PrivateMemory {
    start: u64,
    len: u64,
}

impl PrivateMemory {
    fn new(len: u64) -> io::Result<PrivateMemory> {
        // The first try is accounted as the program's own memory was; a sparse
        // giant may only be had without reservation.
        let mut last = io::ErrorKind::OutOfMemory.into();
        for extra in [MapFlags::empty(), MapFlags::NORESERVE] {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | extra);
            // SAFETY: a new mapping at an address of the kernel's choice.
            match unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize, access, flags) } {
                Ok(at) => return Ok(PrivateMemory { start: at as u64, len }),
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    fn move_over(self, target: u64) -> io::Result<()> {
        let (from, len, to) =
            (self.start as *mut libc::c_void, self.len as usize, target as *mut libc::c_void);
        // SAFETY: our own mapping replaces a mapping that the caller of
        // `move_out` vouches for.
        unsafe { mremap_fixed(from, len, len, MremapFlags::MAYMOVE, to) }?;
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for PrivateMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it.
        let _ = unsafe { munmap(self.start as *mut libc::c_void, self.len as usize) };
    }
}

/// Calls `visit(offset, len)` for each part of the file's range that has pages.
fn each_data(
    fd: RawFd,
    offset: u64,
    len: u64,
    mut visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let end = offset + len;
    let mut at = offset;
    while at < end {
        let data = match seek(fd, at, libc::SEEK_DATA) {
            Ok(data) => data,
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => return Ok(()),
            Err(error) => return Err(error),
        };
        if data >= end {
            return Ok(());
        }
        let hole = seek(fd, data, libc::SEEK_HOLE)?.min(end);
        visit(data, hole - data)?;
        at = hole;
    }
    Ok(())
}

fn seek(fd: RawFd, at: u64, whence: libc::c_int) -> io::Result<u64> {
    // SAFETY: no memory is involved. The file position is shared with others,
    // but only the returned value is used.
    match unsafe { libc::lseek(fd, at as libc::off_t, whence) } {
        -1 => Err(io::Error::last_os_error()),
        found => Ok(found as u64),
    }
}

fn write_all(fd: RawFd, address: u64, len: u64, offset: u64) -> io::Result<()> {
    transfer(len, |done, left| {
        // SAFETY: the kernel checks the addresses and reports EFAULT.
        unsafe {
            libc::pwrite(fd, (address + done) as *const libc::c_void, left, (offset + done) as libc::off_t)
        }
    })
}

fn read_all(fd: RawFd, address: u64, len: u64, offset: u64) -> io::Result<()> {
    transfer(len, |done, left| {
        // SAFETY: `address` is memory that only this thread knows yet.
        unsafe {
            libc::pread(fd, (address + done) as *mut libc::c_void, left, (offset + done) as libc::off_t)
        }
    })
}

fn transfer(len: u64, mut step: impl FnMut(u64, usize) -> isize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match step(done, (len - done) as usize) {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n if n > 0 => done += n as u64,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Returns pages of the segment to the system; they read zero afterwards.
pub(in crate::segment) fn punch(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    debug_assert!(offset % PAGE == 0 && len % PAGE == 0);
    // SAFETY: changes the file only; the caller owns the range.
    let result = unsafe {
        libc::fallocate(
            fd.as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            offset as libc::off_t,
            len as libc::off_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
