//! The memory of this process that the card accesses: a file in memory for the driver's own, and the user's in place.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use memmap2::MmapRaw;

use crate::backend::vfio::iova::Iovas;
use crate::card::{CardError, DmaMemory};
use crate::lock;

/// Addresses and pages of DMA maps are multiples of this.
pub(super) const PAGE: u64 = 4096;
/// I/O addresses of the file.
const OWN: u64 = 1 << 32;
/// Bytes of the file; only what is used takes memory.
const OWN_BYTES: u64 = 1 << 34;
/// I/O addresses of the user's memory.
const USER: u64 = 1 << 36;
const USER_END: u64 = 1 << 46;

/// The driver's own memory.
pub(super) struct OwnMemory {
    file: File,
    map: MmapRaw,
    free: Mutex<Iovas>,
}

fn os(what: &str) -> impl Fn(io::Error) -> CardError + '_ {
    move |source| CardError::Os { what: what.into(), source }
}

impl OwnMemory {
    /// An empty file.
    pub fn new() -> Result<OwnMemory, CardError> {
        // SAFETY: makes a descriptor.
        let fd =
            unsafe { libc::memfd_create(c"verbena".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(os("making a file in memory")(io::Error::last_os_error()));
        }
        // SAFETY: just made, and ours alone.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(OWN_BYTES).map_err(os("sizing the file in memory (ulimit -f?)"))?;
        // A process that maps it may rely on its size.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: a call on our own descriptor.
        unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) };
        let map = MmapRaw::map_raw(&file).map_err(os("mapping the file in memory (ulimit -v?)"))?;
        Ok(OwnMemory { file, map, free: Mutex::new(Iovas::new(OWN, OWN + OWN_BYTES)) })
    }

    fn free_list(&self) -> MutexGuard<'_, Iovas> {
        lock(&self.free)
    }

    /// The file, and the offset in it of an I/O address of [`OwnMemory::take`].
    pub fn place(&self, iova: u64) -> (RawFd, u64) {
        (self.file.as_raw_fd(), iova - OWN)
    }

    /// Zeroed memory.
    pub fn take(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let none = CardError::NoMemory { bytes };
        let Some(len) = bytes.max(1).checked_next_multiple_of(PAGE as usize) else { return Err(none) };
        let iova = self.free_list().take(len as u64, PAGE, 0).ok_or(none)?;
        let ptr = self.map.as_mut_ptr().wrapping_add((iova - OWN) as usize);
        Ok(DmaMemory { ptr, iova, len })
    }

    /// Frees it, and returns its pages to the system.
    pub fn give(&self, memory: &DmaMemory) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (fd, offset) = self.place(memory.iova);
        // SAFETY: a call on our own descriptor; the range has no user any more.
        let punched = unsafe { libc::fallocate(fd, mode, offset as libc::off_t, memory.len as libc::off_t) };
        // A range that is not zeroed is never used again.
        if punched == 0 {
            self.free_list().give(memory.iova, memory.len as u64);
        }
    }
}

/// What the card may access by messages: registered memory of the user, and the driver's own if the server
/// does not map its file.
pub(super) struct UserMemory(Mutex<State>);

struct State {
    iovas: Iovas,
    /// By I/O address.
    maps: BTreeMap<u64, Map>,
}

#[derive(Clone, Copy)]
struct Map {
    len: u64,
    addr: usize,
    writable: bool,
}

impl UserMemory {
    /// Empty.
    pub fn new() -> UserMemory {
        UserMemory(Mutex::new(State { iovas: Iovas::new(USER, USER_END), maps: BTreeMap::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Registers memory: gives the I/O address of its first byte and, for the server, of its first page with
    /// the length of its pages.
    pub fn add(&self, addr: *mut u8, len: usize, writable: bool) -> Option<(u64, u64, u64)> {
        let offset = addr as u64 % PAGE;
        let size = (len as u64).checked_add(offset)?.checked_next_multiple_of(PAGE)?;
        if len == 0 || !is_mapped(addr as usize - offset as usize, size as usize) {
            return None;
        }
        let mut state = self.state();
        let start = state.iovas.take(size, PAGE, 0)?;
        state.maps.insert(start + offset, Map { len: len as u64, addr: addr as usize, writable });
        Some((start + offset, start, size))
    }

    /// The driver's own memory.
    pub fn add_own(&self, memory: &DmaMemory) {
        let map = Map { len: memory.len as u64, addr: memory.ptr as usize, writable: true };
        self.state().maps.insert(memory.iova, map);
    }

    /// Undoes [`UserMemory::add_own`].
    pub fn remove_own(&self, memory: &DmaMemory) {
        self.state().maps.remove(&memory.iova);
    }

    /// The pages of a registration, as [`UserMemory::add`] gave them.
    pub fn pages(iova: u64, len: usize) -> (u64, u64) {
        let offset = iova % PAGE;
        (iova - offset, (len as u64 + offset).next_multiple_of(PAGE))
    }

    /// Ends a registration: the memory is no longer accessed when this returns.
    pub fn remove(&self, iova: u64, len: usize) {
        let mut state = self.state();
        if state.maps.remove(&iova).is_some() {
            let (start, size) = Self::pages(iova, len);
            state.iovas.give(start, size);
        }
    }

    /// Reads for the card; an errno when it may not.
    pub fn read(&self, iova: u64, to: &mut [u8]) -> Result<(), i32> {
        let state = self.state();
        let from = state.find(iova, to.len(), false)?;
        copy(to.as_mut_ptr(), from, to.len(), libc::process_vm_readv)
    }

    /// Writes for the card; an errno when it may not.
    pub fn write(&self, iova: u64, from: &[u8]) -> Result<(), i32> {
        let state = self.state();
        let to = state.find(iova, from.len(), true)?;
        copy(from.as_ptr().cast_mut(), to, from.len(), libc::process_vm_writev)
    }
}

type Copier = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// Copies between a message and registered memory. The kernel does it, so that memory that the program has
/// unmapped is an error for the card and does not kill this process.
fn copy(message: *mut u8, memory: *mut u8, len: usize, copier: Copier) -> Result<(), i32> {
    let local = libc::iovec { iov_base: message.cast(), iov_len: len };
    let remote = libc::iovec { iov_base: memory.cast(), iov_len: len };
    // SAFETY: `message` is a slice of ours; the other side is checked by the kernel. Programs may access it
    // meanwhile, as with any card.
    match unsafe { copier(libc::getpid(), &local, 1, &remote, 1, 0) } {
        done if done == len as isize => Ok(()),
        _ => Err(libc::EFAULT),
    }
}

/// Whether all these pages are mapped.
fn is_mapped(start: usize, len: usize) -> bool {
    const AT_ONCE: usize = 1 << 28;
    let mut resident = vec![0_u8; len.min(AT_ONCE).div_ceil(PAGE as usize)];
    (start..start + len).step_by(AT_ONCE).all(|at| {
        // SAFETY: one byte a page of the range is written.
        unsafe { libc::mincore(at as *mut _, (start + len - at).min(AT_ONCE), resident.as_mut_ptr()) == 0 }
    })
}

impl State {
    fn find(&self, iova: u64, len: usize, write: bool) -> Result<*mut u8, i32> {
        let (start, map) = self.maps.range(..=iova).next_back().ok_or(libc::ENODEV)?;
        let into = iova - start;
        if into >= map.len || len as u64 > map.len - into {
            return Err(libc::ENODEV);
        }
        if write && !map.writable {
            return Err(libc::EPERM);
        }
        Ok((map.addr + into as usize) as *mut u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_zeroed_again() {
        let own = OwnMemory::new().unwrap();
        let memory = own.take(5000).unwrap();
        assert_eq!((memory.iova, memory.len), (OWN, 8192));
        // SAFETY: just taken.
        unsafe { memory.ptr.write_bytes(0xa5, 8192) };
        own.give(&memory);
        let again = own.take(1).unwrap();
        assert_eq!(again.iova, OWN);
        // SAFETY: just taken.
        assert_eq!(unsafe { again.ptr.read_volatile() }, 0);
    }

    #[test]
    fn the_card_reaches_what_is_registered_and_nothing_else() {
        let user = UserMemory::new();
        let mut bytes = [1_u8, 2, 3, 4];
        let ptr = bytes.as_mut_ptr();
        let (iova, start, size) = user.add(ptr, 4, false).unwrap();
        assert_eq!((iova % PAGE, start % PAGE, size % PAGE), (ptr as u64 % PAGE, 0, 0));
        let mut got = [0; 2];
        user.read(iova + 2, &mut got).unwrap();
        assert_eq!(got, [3, 4]);
        assert_eq!(user.read(iova + 3, &mut got), Err(libc::ENODEV), "its end");
        assert_eq!(user.write(iova, &[9]), Err(libc::EPERM), "read-only");
        user.remove(iova, 4);
        assert_eq!(user.read(iova, &mut got), Err(libc::ENODEV));
        assert!(user.add(ptr, 0, true).is_none());
    }
}
