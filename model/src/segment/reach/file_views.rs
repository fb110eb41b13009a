//! Files that other members share, as the lock holder has mapped them.
//!
//! A copy opens the file through `/proc` when it first needs it, and keeps the mapping until the owner takes the offer back
//! ([`super::offered_files`]). Where a right or `/proc` is missing, the kernel copies between the processes.
//!
//! Touching what a shortened file has lost is SIGBUS, so the kernel copies to and from these mappings too
//! ([`super::kernel`]), unless the file is sealed.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use super::offered_files::{FileTable, Slot};
use super::Reach;
use crate::segment::page::page_ceil;

/// What this process has mapped for others. Used with the lock held.
#[derive(Default)]
pub(in crate::segment) struct Views {
    /// Generation of the DMA maps at the last pruning.
    generation: u64,
    list: Vec<View>,
}

struct View {
    member: u16,
    slot: usize,
    serial: u64,
    start: u64,
    len: u64,
    offset: u64,
    writable: bool,
    /// `None` when that failed: not tried again.
    mapped: Option<Mapped>,
}

struct Mapped {
    ptr: *mut u8,
    len: usize,
    fd: OwnedFd,
    /// See [`keeps_size`].
    keeps_size: bool,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.ptr.cast(), self.len) };
    }
}

impl Reach<'_> {
    /// The address, in this process, of another member's memory, if that is a file that can be
    /// mapped here, the number of bytes from there on, and whether the file cannot lose them.
    pub(in crate::segment) fn through_file(
        &self,
        member: u16,
        iova: u64,
        len: u64,
        write: bool,
    ) -> Option<(*mut u8, u64, bool)> {
        let table = self.files_of(member)?;
        if table.used.load(Relaxed) == 0 {
            return None;
        }
        self.prune_file_views();
        // SAFETY: no reference outlives this function.
        let views = unsafe { &mut self.found().views };
        let holds = |view: &&View| view.member == member && iova.wrapping_sub(view.start) < view.len;
        let index = views.list.iter().position(|view| holds(&view));
        let index = match index {
            Some(index) => index,
            None => {
                views.list.push(self.open_file(member, table, iova)?);
                views.list.len() - 1
            }
        };
        let view = &views.list[index];
        let mapped = view.mapped.as_ref()?;
        let into = iova - view.start;
        let len = len.min(view.len - into);
        let size = rustix::fs::fstat(&mapped.fd).ok()?.st_size as u64;
        let end = page_ceil(view.offset + into + len)?;
        let whole = end <= page_ceil(size)?;
        let found = (mapped.ptr.wrapping_add(into as usize), len, mapped.keeps_size);
        (whole && (view.writable || !write)).then_some(found)
    }

    /// Unmaps files that are no longer offered.
    pub(in crate::segment) fn prune_file_views(&self) {
        // SAFETY: as in `through_file`.
        let views = unsafe { &mut self.found().views };
        let generation = self.segment().tables().header.steady.dma_generation.load(Relaxed);
        if views.generation != generation {
            views.generation = generation;
            views.list.retain(|view| {
                self.files_of(view.member)
                    .is_some_and(|table| table.slots[view.slot].serial.load(Relaxed) == view.serial)
            });
        }
    }

    #[cold]
    fn open_file(&self, member: u16, table: &FileTable, iova: u64) -> Option<View> {
        let holds = |slot: &&Slot| {
            slot.serial.load(Relaxed) != 0
                && iova.wrapping_sub(slot.start.load(Relaxed)) < slot.len.load(Relaxed)
        };
        let slot = table.slots.iter().position(|slot| holds(&slot))?;
        let at = &table.slots[slot];
        let mut view = View {
            member,
            slot,
            serial: at.serial.load(Relaxed),
            start: at.start.load(Relaxed),
            len: at.len.load(Relaxed),
            offset: at.offset.load(Relaxed),
            writable: at.writable.load(Relaxed) != 0,
            mapped: None,
        };
        let pid = self.segment().pid_of(member).filter(|&pid| pid != 0)?;
        let file = format!("/proc/{pid}/fd/{}", at.fd.load(Relaxed));
        let identity = (at.device.load(Relaxed), at.inode.load(Relaxed));
        view.mapped = map_file(file, identity, &view);
        Some(view)
    }
}

fn map_file(path: String, identity: (u64, u64), view: &View) -> Option<Mapped> {
    // Checked first, since only regular files can be opened without side effects.
    let flags = rustix::fs::OFlags::CLOEXEC;
    let none = rustix::fs::Mode::empty();
    let fd = rustix::fs::open(path, flags | rustix::fs::OFlags::PATH, none).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
    if !regular || (stat.st_dev, stat.st_ino) != identity {
        return None;
    }
    let (access, protection) = if view.writable {
        (libc::O_RDWR, libc::PROT_READ | libc::PROT_WRITE)
    } else {
        (libc::O_RDONLY, libc::PROT_READ)
    };
    let own = CString::new(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
    // SAFETY: opens a file by a valid path; the descriptor is ours.
    let opened = unsafe {
        let opened: RawFd = libc::open(own.as_ptr(), access | libc::O_CLOEXEC);
        if opened < 0 {
            return None;
        }
        OwnedFd::from_raw_fd(opened)
    };
    let len = usize::try_from(view.len).ok()?;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let ptr = unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let ptr =
            libc::mmap(null_mut(), len, protection, flags, opened.as_raw_fd(), view.offset as libc::off_t);
        if ptr == libc::MAP_FAILED {
            return None;
        }
        // A forked child has no use for it.
        libc::madvise(ptr, len, libc::MADV_DONTFORK);
        libc::madvise(ptr, len, libc::MADV_DONTDUMP);
        ptr
    };
    Some(Mapped { ptr: ptr.cast(), len, fd, keeps_size: keeps_size(&opened) })
}

/// Whether no process can shorten a file: bytes of it that are mapped here may be touched.
pub(super) fn keeps_size(file: &OwnedFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(rustix::fs::SealFlags::SHRINK))
}
