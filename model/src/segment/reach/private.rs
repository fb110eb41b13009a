//! Moving bytes between IOVAs, wherever they are.
//!
//! Bytes in the segment are copied directly. Memory that stays where the program
//! has it can be gone at any moment, so the kernel copies (process_vm_readv,
//! process_vm_writev): of this process, of another, or through a window to a file
//! that both can map ([`super::files`]). When it is much, the other process
//! copies itself ([`super::bounce`]).
#![allow(unsafe_code)]

use std::os::fd::RawFd;

use super::bounce::{Transfer, LEAST};
use super::dma::Backing;
use crate::here::Here;
use crate::segment::lock::Guard;

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
pub(in crate::segment) fn allow_access() {
    const PR_SET_PTRACER: libc::c_int = 0x5961_6d61;
    // SAFETY: no memory is involved. Without Yama it fails, and is not needed.
    unsafe { libc::prctl(PR_SET_PTRACER, libc::c_ulong::MAX, 0, 0, 0) };
}

/// Bytes for copies between two processes neither of which is this one.
const BOUNCE: usize = 16 * 1024;

/// Which way another process's bytes go.
#[derive(Clone, Copy)]
pub(in crate::segment) enum Direction {
    Read,
    Write,
}

/// Where bytes are.
#[derive(Clone, Copy)]
enum Spot {
    /// Here, in memory that nobody can take away: the segment, or what this process has been lent.
    Sure(*mut u8),
    /// At this address of this process, as long as the program leaves it there: registered memory that stayed where it
    /// is, or a window to a file. Only the kernel may touch it.
    Here(u64),
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
            let (dst_spot, dst_run) = self.find(dst.0, to, len - done, Direction::Write)?;
            let (src_spot, src_run) = self.find(src.0, from, len - done, Direction::Read)?;
            let mut run = (len - done).min(dst_run).min(src_run) as usize;
            let read = |here, len| {
                let direction = Direction::Read;
                self.remote(src_spot, Transfer { member: src.0, iova: from, here, len, direction })
            };
            let write = |here, len| {
                let direction = Direction::Write;
                self.remote(dst_spot, Transfer { member: dst.0, iova: to, here, len, direction })
            };
            match (dst_spot, src_spot) {
                // SAFETY: in the heap, or in lent memory, which stays mapped.
                (Spot::Sure(to), Spot::Sure(from)) => unsafe { std::ptr::copy(from, to, run) },
                (Spot::Sure(here), _) => read(here, run)?,
                (_, Spot::Sure(here)) => write(here, run)?,
                // The kernel looks at both sides.
                (Spot::Here(at) | Spot::Owner(at), Spot::Here(here)) => self.by_kernel(
                    Transfer { iova: at, ..transfer(dst.0, here, run, Direction::Write) },
                    matches!(dst_spot, Spot::Here(_)),
                )?,
                (Spot::Here(here), Spot::Owner(at)) => {
                    self.by_kernel(
                        Transfer { iova: at, ..transfer(src.0, here, run, Direction::Read) },
                        false,
                    )?;
                }
                _ => {
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
            let (spot, run) = self.find(member, iova, left.len as u64, direction)?;
            let run = run.min(left.len as u64) as usize;
            match (spot, direction) {
                // SAFETY: as in `copy_slowly`; `here` is the caller's slice.
                (Spot::Sure(there), Direction::Read) => unsafe { std::ptr::copy(there, here, run) },
                // SAFETY: as above.
                (Spot::Sure(there), Direction::Write) => unsafe { std::ptr::copy(here, there, run) },
                _ => self.remote(spot, left.first(run))?,
            }
            left = left.after(run);
        }
        Ok(())
    }

    /// Where `iova` of a member is, and how much of `len` bytes is there in one piece.
    fn find(&self, member: u16, iova: u64, len: u64, direction: Direction) -> Result<(Spot, u64), DmaFault> {
        let (backing, run) = self.resolve(member, iova).ok_or(DmaFault::NotMapped { member, iova })?;
        let own = member == self.segment().member();
        let run = run.min(len);
        let write = matches!(direction, Direction::Write);
        Ok(match backing {
            Backing::Extent(offset) => (Spot::Sure(self.segment().ptr_at(offset)), run),
            Backing::Foreign if own => (Spot::Here(iova), run),
            Backing::Foreign => match self.through_window(member, iova, run, write) {
                Some((ptr, run, _)) => (Spot::Here(ptr as u64), run),
                None => (Spot::Owner(iova), run),
            },
            Backing::Placed(place) => {
                let allowed = if write { place.writable() } else { place.readable() };
                if !allowed {
                    return Err(DmaFault::Forbidden { member, iova });
                }
                if place.is_asked() {
                    (Spot::Asked(iova), run)
                } else if own {
                    // The map is memory that others can write over: what it says is not what is.
                    let spot = match self.is_lent(place.address(), run) {
                        true => Spot::Sure(place.address() as *mut u8),
                        false => Spot::Here(place.address()),
                    };
                    (spot, run)
                } else {
                    match self.through_window(member, place.address(), run, write) {
                        Some((ptr, run, true)) => (Spot::Sure(ptr), run),
                        Some((ptr, run, false)) => (Spot::Here(ptr as u64), run),
                        None => (Spot::Owner(place.address()), run),
                    }
                }
            }
        })
    }

    /// The address, in this process, of `len` bytes at `iova`, if they have one that stays, in one piece:
    /// for accesses that must be atomic.
    pub fn reach(&self, member: u16, iova: u64, len: u64) -> Option<*mut u8> {
        match self.find(member, iova, len, Direction::Write).ok()? {
            (Spot::Sure(ptr), run) if run == len => Some(ptr),
            _ => None,
        }
    }

    /// Copies where one side (`here`) is sure: with the owner's help, or the kernel does it.
    fn remote(&self, spot: Spot, whole: Transfer) -> Result<(), DmaFault> {
        let mut left = match spot {
            Spot::Asked(iova) => return self.ask(Transfer { iova, ..whole }),
            Spot::Here(at) => return self.by_kernel(Transfer { iova: at, ..whole }, true),
            Spot::Sure(at) => Transfer { iova: at as u64, ..whole },
            Spot::Owner(at) => Transfer { iova: at, ..whole },
        };
        while left.len != 0 {
            left = left.after(self.with_help(left)?);
            let share = self.kernel_share(whole.member, left.len);
            let begin = if share >= LEAST { crate::segment::now_ns() } else { 0 };
            self.by_kernel(left.first(share), false)?;
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
        matches!(
            self.by_kernel(probe, false),
            Ok(()) | Err(DmaFault::Unreachable { errno: libc::EFAULT, .. })
        )
    }

    /// Lets the kernel copy from or to another process; or, with `own`, an address of this one.
    fn by_kernel(&self, whole: Transfer, own: bool) -> Result<(), DmaFault> {
        let Transfer { member, iova, .. } = whole;
        let fault = |errno| DmaFault::Unreachable { member, iova, errno };
        if own {
            return self.segment().local().own_memory().copy(whole).map_err(fault);
        }
        // 0: the keeper cannot see its process namespace.
        let pid = self.segment().pid_of(member).filter(|&pid| pid != 0);
        process_vm(pid.ok_or_else(|| fault(libc::ESRCH))?, whole).map_err(fault)
    }
}

fn transfer(member: u16, here: u64, len: usize, direction: Direction) -> Transfer {
    Transfer { member, iova: 0, here: here as *mut u8, len, direction }
}

/// Copies from or to memory of this process that the program may have unmapped, protected or shortened although it is
/// registered. The card's pages would be pinned; here the kernel looks at every byte, so that what is missing is an
/// error and not a signal. A look before the copy would not do: another thread may be just about to unmap it.
#[derive(Clone, Copy)]
pub(in crate::segment) struct OwnMemory {
    pub(in crate::segment) memfd: RawFd,
    pub(in crate::segment) base: u64,
    pub(in crate::segment) total_bytes: u64,
}

impl OwnMemory {
    /// `whole.iova` is an address of this process. The error is what the system said.
    pub(in crate::segment) fn copy(self, whole: Transfer) -> Result<(), i32> {
        let offset = (whole.here as u64).wrapping_sub(self.base);
        if offset >= self.total_bytes || matches!(whole.direction, Direction::Read) {
            return process_vm(std::process::id(), whole);
        }
        // From the segment: to read its file takes less than half of the time, for short pieces.
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

/// What a system call says that copies.
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
