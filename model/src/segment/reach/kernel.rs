//! Copies by the kernel: memory that stays where the program has it.
//!
//! The program may unmap, protect or shorten such memory at any moment. The kernel (process_vm_readv,
//! process_vm_writev) reports that as an error; a copy by this process would end in a signal.
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use super::transfer::{Direction, Transfer};

/// Lets the other members reach this process's memory where the Yama security
/// module allows that to a process's ancestors only.
pub(in crate::segment) fn allow_access() {
    const PR_SET_PTRACER: libc::c_int = 0x5961_6d61;
    // SAFETY: no memory is involved. Without Yama the call fails and is not needed.
    unsafe { libc::prctl(PR_SET_PTRACER, libc::c_ulong::MAX, 0, 0, 0) };
}

/// Copies from or to memory of this process that the program may have unmapped, protected or shortened although it is
/// registered. A real card's pages are pinned; here the kernel checks every byte, so that missing memory is an
/// error and not a signal. A check before the copy is not enough: another thread may unmap the memory in between.
#[derive(Clone, Copy)]
pub(in crate::segment) struct OwnMemory {
    pub(in crate::segment) memfd: RawFd,
    pub(in crate::segment) base: u64,
    pub(in crate::segment) total_bytes: u64,
}

impl OwnMemory {
    /// `whole.iova` is an address of this process. The error is that of the system call.
    pub(in crate::segment) fn copy(self, whole: Transfer) -> Result<(), i32> {
        let offset = (whole.here as u64).wrapping_sub(self.base);
        if offset >= self.total_bytes || matches!(whole.direction, Direction::Read) {
            return process_vm(std::process::id(), whole);
        }
        // From the segment: reading its file takes less than half the time for short pieces.
        let mut left = whole;
        while left.len != 0 {
            let offset = left.here as u64 - self.base;
            // SAFETY: the kernel checks the address.
            let moved =
                unsafe { libc::pread(self.memfd, left.iova as *mut _, left.len, offset as libc::off_t) };
            left = left.after(advanced(moved)?);
        }
        Ok(())
    }
}

/// The result of a system call that copies: bytes, or an error number.
fn advanced(moved: isize) -> Result<usize, i32> {
    match moved {
        n if n > 0 => Ok(n as usize),
        0 => Err(libc::EFAULT),
        _ => match std::io::Error::last_os_error().raw_os_error().unwrap_or(0) {
            libc::EINTR => Ok(0),
            errno => Err(errno),
        },
    }
}

/// Lets the kernel copy from or to a process.
pub(in crate::segment) fn process_vm(pid: u32, whole: Transfer) -> Result<(), i32> {
    let pid = pid as libc::pid_t;
    let mut left = whole;
    while left.len != 0 {
        let local = libc::iovec { iov_base: left.here.cast(), iov_len: left.len };
        let remote = libc::iovec { iov_base: left.iova as *mut libc::c_void, iov_len: left.len };
        // SAFETY: both sides are checked by the kernel.
        let moved = unsafe {
            match left.direction {
                Direction::Read => libc::process_vm_readv(pid, &local, 1, &remote, 1, 0),
                Direction::Write => libc::process_vm_writev(pid, &local, 1, &remote, 1, 0),
            }
        };
        left = left.after(advanced(moved)?);
    }
    Ok(())
}
