//! Copies between IOVAs, wherever their bytes are.
//!
//! Bytes in the segment are copied directly. Memory that stays where the program has it is copied by the kernel
//! ([`super::kernel`]): of this process, of another, or through a mapping of a file that both processes
//! have ([`super::file_views`]). What a served card's client does not share is asked for ([`super::ask`]).
#![allow(unsafe_code)]

use super::dma::Backing;
use super::kernel::process_vm;
use super::transfer::{Direction, DmaFault, Transfer};
use super::Reach;
use crate::dma::Addr;
use crate::here::Here;

/// Bytes of the buffer for copies between two other processes.
const BETWEEN: usize = 16 * 1024;

/// Where bytes are.
#[derive(Clone, Copy)]
enum Spot {
    /// In this process, and stays mapped: the segment, or what a client has lent.
    Sure(*mut u8),
    /// At this address of this process, for as long as the program leaves it there: registered memory that did not
    /// move, or a file that can become shorter. Only the kernel may touch it.
    Here(u64),
    /// At this address of the owning process.
    Owner(u64),
    /// The owner has to be asked for this IOVA.
    Asked(u64),
    /// Nowhere: zeros come from there.
    Nowhere,
}

impl Reach<'_> {
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
                // SAFETY: the range is in the heap and `to` is not.
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
                // SAFETY: the range is in the heap; `from` may be too, if the
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
                // The kernel checks both sides.
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
                    let mut between = [0_u8; BETWEEN];
                    run = run.min(BETWEEN);
                    read(between.as_mut_ptr(), run)?;
                    write(between.as_mut_ptr(), run)?;
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

    /// Where `iova` of a member is, and how many of `len` bytes are contiguous there.
    fn find(&self, member: u16, iova: u64, len: u64, direction: Direction) -> Result<(Spot, u64), DmaFault> {
        if member == Addr::NOWHERE {
            return Ok((Spot::Nowhere, len));
        }
        if member & Addr::ON_DEMAND != 0 {
            let own = member & !Addr::ON_DEMAND == self.segment().member();
            return Ok((if own { Spot::Here(iova) } else { Spot::Owner(iova) }, len));
        }
        let (backing, run) = self.resolve(member, iova).ok_or(DmaFault::NotMapped { member, iova })?;
        let own = member == self.segment().member();
        let run = run.min(len);
        let write = matches!(direction, Direction::Write);
        Ok(match backing {
            Backing::Extent(offset) => (Spot::Sure(self.segment().ptr_at(offset)), run),
            Backing::Private if own => (Spot::Here(iova), run),
            Backing::Private => match self.through_file(member, iova, run, write) {
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
                    // Other processes can overwrite the map: what it says is not trusted.
                    let spot = match self.is_lent(place.address(), run) {
                        true => Spot::Sure(place.address() as *mut u8),
                        false => Spot::Here(place.address()),
                    };
                    (spot, run)
                } else {
                    match self.through_file(member, place.address(), run, write) {
                        Some((ptr, run, true)) => (Spot::Sure(ptr), run),
                        Some((ptr, run, false)) => (Spot::Here(ptr as u64), run),
                        None => (Spot::Owner(place.address()), run),
                    }
                }
            }
        })
    }

    /// The address, in this process, of `len` bytes at `iova`, if they are contiguous and stay mapped: for atomic
    /// accesses.
    pub fn reach(&self, member: u16, iova: u64, len: u64) -> Option<*mut u8> {
        match self.find(member, iova, len, Direction::Write).ok()? {
            (Spot::Sure(ptr), run) if run == len => Some(ptr),
            _ => None,
        }
    }

    /// Copies between `here`, which stays mapped, and memory that may not.
    fn remote(&self, spot: Spot, whole: Transfer) -> Result<(), DmaFault> {
        match spot {
            Spot::Asked(iova) => self.ask(Transfer { iova, ..whole }),
            Spot::Here(at) => self.by_kernel(Transfer { iova: at, ..whole }, true),
            Spot::Sure(at) => self.by_kernel(Transfer { iova: at as u64, ..whole }, true),
            Spot::Owner(at) => self.by_kernel(Transfer { iova: at, ..whole }, false),
            Spot::Nowhere => {
                if matches!(whole.direction, Direction::Read) {
                    // SAFETY: the caller's buffer.
                    unsafe { whole.here.write_bytes(0, whole.len) };
                }
                Ok(())
            }
        }
    }

    /// Whether the process of a member still has memory.
    pub fn exists(&self, member: u16) -> bool {
        let mut byte = 0;
        let probe = Transfer { member, iova: 0, here: &mut byte, len: 1, direction: Direction::Read };
        // Nothing is mapped at 0: EFAULT means that there is an address space.
        matches!(
            self.by_kernel(probe, false),
            Ok(()) | Err(DmaFault::Unreachable { errno: libc::EFAULT, .. })
        )
    }

    /// Lets the kernel copy from or to another process or, with `own`, an address of this one.
    fn by_kernel(&self, whole: Transfer, own: bool) -> Result<(), DmaFault> {
        let fault = |errno| whole.unreachable(errno);
        if own {
            return self.segment().local.own_memory().copy(whole).map_err(fault);
        }
        // 0: a process in a namespace that the keeper cannot see.
        let pid = self.segment().pid_of(whole.member & !Addr::ON_DEMAND).filter(|&pid| pid != 0);
        process_vm(pid.ok_or_else(|| fault(libc::ESRCH))?, whole).map_err(fault)
    }
}

fn transfer(member: u16, here: u64, len: usize, direction: Direction) -> Transfer {
    Transfer { member, iova: 0, here: here as *mut u8, len, direction }
}
