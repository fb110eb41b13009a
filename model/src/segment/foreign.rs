//! Moving bytes between IOVAs, wherever they are.
//!
//! Bytes in the segment are copied directly. Memory that stays private to a
//! process is ours to copy if the process is this one, or if it is a file that
//! can be mapped here too ([`super::windows`]). Else the kernel does it
//! (process_vm_readv, process_vm_writev), or, when it is much, the other process
//! itself ([`super::bounce`]).
#![allow(unsafe_code)]

use super::bounce::{Transfer, LEAST};
use super::dma::Backing;
use super::lock::Guard;
use crate::here::Here;

/// A DMA access that failed, as a card's would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DmaFault {
    /// The member has not mapped this address.
    #[error("address {iova:#x} of member {member} is not mapped for DMA")]
    NotMapped {
        /// Whose address.
        member: u16,
        /// The address.
        iova: u64,
    },
    /// It is mapped, but not for this.
    #[error("address {iova:#x} of member {member} may not be accessed so")]
    Forbidden {
        /// Whose address.
        member: u16,
        /// The address.
        iova: u64,
    },
    /// It is mapped, but stays in a process that this one cannot reach: it has
    /// unmapped it, has gone, or the system forbids it (EPERM).
    #[error("memory of member {member} at {iova:#x} cannot be reached: error {errno}")]
    Unreachable {
        /// Whose address.
        member: u16,
        /// The address.
        iova: u64,
        /// What the system said.
        errno: i32,
    },
}

/// Lets the other members reach this process's memory where the Yama security
/// module restricts that to a process's ancestors.
pub(super) fn allow_access() {
    const PR_SET_PTRACER: libc::c_int = 0x5961_6d61;
    // SAFETY: no memory is involved. Without Yama it fails, and is not needed.
    unsafe { libc::prctl(PR_SET_PTRACER, libc::c_ulong::MAX, 0, 0, 0) };
}

/// Bytes for copies between two processes neither of which is this one.
const BOUNCE: usize = 16 * 1024;

/// Which way another process's bytes go.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Where bytes are.
#[derive(Clone, Copy)]
enum Spot {
    /// At this offset of the segment.
    Segment(u64),
    /// At this address of their owner.
    Owner(u64),
    /// The owner must be asked for this IOVA.
    Asked(u64),
}

impl DmaFault {
    /// Whose memory it is.
    pub fn member(&self) -> u16 {
        let (Self::NotMapped { member, .. }
        | Self::Forbidden { member, .. }
        | Self::Unreachable { member, .. }) = *self;
        member
    }
}

impl Guard<'_> {
    /// Copies `len` bytes from `src` to `dst`, each a member and its address.
    #[inline(always)]
    pub fn copy(&self, dst: (u16, u64), src: (u16, u64), len: u64) -> Result<(), DmaFault> {
        if let (Some(to), Some(from)) = (self.direct(dst.0, dst.1, len), self.direct(src.0, src.1, len)) {
            // SAFETY: both ranges lie in the segment's heap.
            unsafe { Here::new(to).copy(Here::new(from), len as usize) };
            return Ok(());
        }
        self.copy_slowly(dst, src, len)
    }

    /// Reads bytes at `iova`.
    #[inline]
    pub fn read(&self, member: u16, iova: u64, to: &mut [u8]) -> Result<(), DmaFault> {
        match self.direct(member, iova, to.len() as u64) {
            Some(from) => {
                // SAFETY: the range lies in the heap and `to` does not.
                unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
                Ok(())
            }
            None => {
                let (here, len) = (to.as_mut_ptr(), to.len());
                self.walk(Transfer { member, iova, here, len, direction: Direction::Read })
            }
        }
    }

    /// Writes bytes at `iova`.
    #[inline]
    pub fn write(&self, member: u16, iova: u64, from: &[u8]) -> Result<(), DmaFault> {
        match self.direct(member, iova, from.len() as u64) {
            Some(to) => {
                // SAFETY: the range lies in the heap; `from` may too, if the
                // caller made a slice of it.
                unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
                Ok(())
            }
            None => {
                let (here, len) = (from.as_ptr().cast_mut(), from.len());
                self.walk(Transfer { member, iova, here, len, direction: Direction::Write })
            }
        }
    }

    #[cold]
    fn copy_slowly(&self, dst: (u16, u64), src: (u16, u64), len: u64) -> Result<(), DmaFault> {
        let mut done = 0;
        while done < len {
            let (to, from) = (dst.1 + done, src.1 + done);
            let (dst_spot, dst_run) = self.find(dst.0, to, Direction::Write)?;
            let (src_spot, src_run) = self.find(src.0, from, Direction::Read)?;
            let mut run = (len - done).min(dst_run).min(src_run);
            let to_ptr = self.local_ptr(dst.0, dst_spot, &mut run, Direction::Write);
            let from_ptr = self.local_ptr(src.0, src_spot, &mut run, Direction::Read);
            let mut run = run as usize;
            let read = |here, len| {
                let direction = Direction::Read;
                self.remote(src_spot, Transfer { member: src.0, iova: from, here, len, direction })
            };
            let write = |here, len| {
                let direction = Direction::Write;
                self.remote(dst_spot, Transfer { member: dst.0, iova: to, here, len, direction })
            };
            match (to_ptr, from_ptr) {
                // SAFETY: both are in the heap, in registered memory of this process, which it keeps mapped
                // while it is registered, or in a window.
                (Some(to), Some(from)) => unsafe { std::ptr::copy(from, to, run) },
                (Some(here), None) => read(here, run)?,
                (None, Some(here)) => write(here, run)?,
                (None, None) => {
                    let mut bounce = [0_u8; BOUNCE];
                    run = run.min(BOUNCE);
                    read(bounce.as_mut_ptr(), run)?;
                    write(bounce.as_mut_ptr(), run)?;
                }
            }
            done += run as u64;
        }
        Ok(())
    }

    #[cold]
    fn walk(&self, mut left: Transfer) -> Result<(), DmaFault> {
        while left.len != 0 {
            let Transfer { member, iova, here, direction, .. } = left;
            let (spot, run) = self.find(member, iova, direction)?;
            let mut run = run.min(left.len as u64);
            let there = self.local_ptr(member, spot, &mut run, direction);
            let run = run as usize;
            match (there, direction) {
                // SAFETY: as in `copy_slowly`; `here` is the caller's slice.
                (Some(there), Direction::Read) => unsafe { std::ptr::copy(there, here, run) },
                // SAFETY: as above.
                (Some(there), Direction::Write) => unsafe { std::ptr::copy(here, there, run) },
                (None, _) => self.remote(spot, left.first(run))?,
            }
            left = left.after(run);
        }
        Ok(())
    }

    fn find(&self, member: u16, iova: u64, direction: Direction) -> Result<(Spot, u64), DmaFault> {
        let (backing, run) = self.resolve(member, iova).ok_or(DmaFault::NotMapped { member, iova })?;
        let spot = match backing {
            Backing::Extent(offset) => Spot::Segment(offset),
            Backing::Foreign => Spot::Owner(iova),
            Backing::Placed(place) => {
                let allowed = match direction {
                    Direction::Read => place.readable(),
                    Direction::Write => place.writable(),
                };
                if !allowed {
                    return Err(DmaFault::Forbidden { member, iova });
                }
                match place.is_asked() {
                    true => Spot::Asked(iova),
                    false => Spot::Owner(place.address()),
                }
            }
        };
        Ok((spot, run))
    }

    /// The address, in this process, of `len` bytes at `iova`, if they have one here in one piece:
    /// for accesses that must be atomic.
    pub fn reach(&self, member: u16, iova: u64, len: u64) -> Option<*mut u8> {
        let (spot, mut run) = self.find(member, iova, Direction::Write).ok()?;
        if run < len {
            return None;
        }
        run = len;
        self.local_ptr(member, spot, &mut run, Direction::Write).filter(|_| run == len)
    }

    /// The address in this process, if it has one; `run` shrinks to what is
    /// contiguous there.
    fn local_ptr(&self, member: u16, spot: Spot, run: &mut u64, direction: Direction) -> Option<*mut u8> {
        match spot {
            Spot::Segment(offset) => Some(self.segment().ptr_at(offset)),
            Spot::Asked(_) => None,
            Spot::Owner(address) if member == self.segment().member() => Some(address as *mut u8),
            Spot::Owner(address) => {
                let write = matches!(direction, Direction::Write);
                let (ptr, len) = self.through_window(member, address, *run, write)?;
                *run = len;
                Some(ptr)
            }
        }
    }

    /// Copies from or to another process, where a spot of it is: with its help, or the kernel does it.
    fn remote(&self, spot: Spot, whole: Transfer) -> Result<(), DmaFault> {
        let mut left = match spot {
            Spot::Asked(iova) => return self.ask(Transfer { iova, ..whole }),
            Spot::Segment(at) | Spot::Owner(at) => Transfer { iova: at, ..whole },
        };
        while left.len != 0 {
            left = left.after(self.with_help(left)?);
            let share = self.kernel_share(whole.member, left.len);
            let begin = if share >= LEAST { super::now_ns() } else { 0 };
            self.by_kernel(left.first(share))?;
            if share >= LEAST {
                self.copied_by_kernel(whole.member, share, begin);
            }
            left = left.after(share);
        }
        if whole.len >= LEAST {
            self.large_copy_done(whole.member);
        }
        Ok(())
    }

    /// True as long as the process has memory.
    pub fn exists(&self, member: u16) -> bool {
        let mut byte = 0;
        let probe = Transfer { member, iova: 0, here: &mut byte, len: 1, direction: Direction::Read };
        // Nothing is mapped there; that can only be found out if there is a map.
        matches!(self.by_kernel(probe), Ok(()) | Err(DmaFault::Unreachable { errno: libc::EFAULT, .. }))
    }

    /// Lets the kernel copy from or to another process.
    fn by_kernel(&self, whole: Transfer) -> Result<(), DmaFault> {
        let Transfer { member, iova, .. } = whole;
        let fault = |errno| DmaFault::Unreachable { member, iova, errno };
        let pid = self
            .segment()
            .pid_of(member)
            // 0: the keeper cannot see its process namespace.
            .filter(|&pid| pid != 0)
            .ok_or_else(|| fault(libc::ESRCH))?;
        let pid = pid as libc::pid_t;
        let mut left = whole;
        while left.len != 0 {
            let local = libc::iovec { iov_base: left.here.cast(), iov_len: left.len };
            let remote = libc::iovec { iov_base: left.iova as *mut libc::c_void, iov_len: left.len };
            // SAFETY: `here` is valid for `len` bytes; the other side is
            // checked by the kernel.
            let moved = unsafe {
                match left.direction {
                    Direction::Read => libc::process_vm_readv(pid, &local, 1, &remote, 1, 0),
                    Direction::Write => libc::process_vm_writev(pid, &local, 1, &remote, 1, 0),
                }
            };
            match moved {
                n if n > 0 => left = left.after(n as usize),
                0 => return Err(fault(libc::EFAULT)),
                _ => {
                    let error = std::io::Error::last_os_error();
                    return Err(fault(error.raw_os_error().unwrap_or(0)));
                }
            }
        }
        Ok(())
    }
}
