//! Shared mappings of files that a member offers to the others.
//!
//! Memory that is a shared mapping of a file cannot move into the segment, but the process that runs the cards can
//! map the same file ([`super::file_views`]). The owner offers a descriptor (without rights of its own, `O_PATH`) and
//! says which part of the file is mapped where.
#![allow(unsafe_code)]

use crate::plain::Plain;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use super::Reach;
use crate::segment::lock::Guard;
use crate::segment::moving::maps::Mapping;
use crate::segment::page::{page_ceil, page_floor, PAGE};
use crate::segment::Segment;

/// Mappings that one member can offer.
pub const MAX_FILES: usize = 63;

/// Bytes of holes that an offer fills at most.
const LARGEST_HOLE: u64 = 1 << 30;

/// What one member offers. Read and written with the lock held.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct FileTable {
    /// Slots from this one on were never used.
    pub(super) used: AtomicU32,
    pub(super) slots: [Slot; MAX_FILES],
}

const _: () = assert!(size_of::<FileTable>() == PAGE as usize);

#[derive(Plain)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Differs between all offers ever made; 0: free.
    pub(super) serial: AtomicU64,
    pub(super) start: AtomicU64,
    pub(super) len: AtomicU64,
    /// Of the first byte in the file.
    pub(super) offset: AtomicU64,
    pub(super) device: AtomicU64,
    pub(super) inode: AtomicU64,
    /// Descriptor, in the owner.
    pub(super) fd: AtomicI32,
    pub(super) writable: AtomicU32,
}

/// This process's own offers. Used with the process's lock held.
#[derive(Default)]
pub(in crate::segment) struct Offers(Vec<Offer>);

struct Offer {
    mapping: Mapping,
    fd: OwnedFd,
    /// Its slot in the table.
    slot: Option<usize>,
    /// Registrations inside it: first address and length.
    registrations: Vec<(u64, u64)>,
}

impl Offer {
    /// Whether both map the same bytes of the same file at the same address.
    fn shows(&self, mapping: &Mapping) -> bool {
        let (a, b) = (&self.mapping, mapping);
        (a.device, a.inode, a.writable) == (b.device, b.inode, b.writable)
            && a.start.wrapping_sub(a.offset) == b.start.wrapping_sub(b.offset)
    }
}

impl Offers {
    /// Opens the files of a registration of `start..start + len`; nothing is
    /// offered yet. `files` are the shared mappings that it touches.
    pub(in crate::segment) fn prepare(&mut self, files: &[Mapping], start: u64, len: u64, writable: bool) {
        for file in files {
            let (from, to) = (start.max(file.start), (start + len).min(file.end));
            let covers =
                |offer: &Offer| offer.mapping.start <= from && to <= offer.mapping.end && offer.shows(file);
            let known = self.0.iter().position(covers);
            let opened = if known.is_none() { open_mapped(file) } else { None };
            let fd = known.map(|index| &self.0[index].fd).or(opened.as_ref());
            if !fd.is_some_and(|fd| exists(fd, from, to, writable)) {
                continue;
            }
            match (known, opened) {
                (Some(index), _) => self.0[index].registrations.push((start, len)),
                (None, Some(fd)) => {
                    let registrations = vec![(start, len)];
                    self.0.push(Offer { mapping: *file, fd, slot: None, registrations });
                }
                (None, None) => {}
            }
        }
    }

    /// Offers what was prepared. Takes back offers of files that are no longer mapped at
    /// the registered addresses.
    pub(in crate::segment) fn publish(&mut self, guard: &Guard<'_>, files: &[Mapping], start: u64, len: u64) {
        let table = guard.own_files();
        self.0.retain(|offer| {
            let from = start.max(offer.mapping.start);
            let to = (start + len).min(offer.mapping.end);
            let same = |file: &Mapping| file.start <= from && to <= file.end && offer.shows(file);
            let keep = from >= to || files.iter().any(same);
            if !keep {
                offer.take_back(table);
            }
            keep
        });
        for offer in &mut self.0 {
            if offer.slot.is_none() {
                let serial = &guard.segment().tables().header.steady.file_serial;
                offer.slot = offer.put(table, serial.fetch_add(1, Relaxed) + 1);
            }
        }
        // The table was full.
        self.0.retain(|offer| offer.slot.is_some());
    }

    /// Offers a mapping of lent memory as a whole, until it is withdrawn.
    pub(in crate::segment) fn lend(&mut self, guard: &Guard<'_>, mapping: Mapping, fd: OwnedFd) {
        let registrations = vec![(mapping.start, mapping.end - mapping.start)];
        let mut offer = Offer { mapping, fd, slot: None, registrations };
        let serial = &guard.segment().tables().header.steady.file_serial;
        offer.slot = offer.put(guard.own_files(), serial.fetch_add(1, Relaxed) + 1);
        // With a full table, copies are left to the kernel.
        if offer.slot.is_some() {
            self.0.push(offer);
        }
    }

    /// Drops what was prepared and not offered.
    pub(in crate::segment) fn undo(&mut self, start: u64, len: u64) {
        self.0.retain_mut(|offer| {
            offer.leave(start, len);
            offer.slot.is_some()
        });
    }

    /// A registration has ended.
    pub(in crate::segment) fn withdraw(&mut self, guard: &Guard<'_>, start: u64, len: u64) {
        let table = guard.own_files();
        self.0.retain_mut(|offer| {
            offer.leave(start, len);
            let keep = !offer.registrations.is_empty();
            if !keep {
                offer.take_back(table);
            }
            keep
        });
    }
}

impl Offer {
    fn leave(&mut self, start: u64, len: u64) {
        let mut all = self.registrations.iter();
        if let Some(at) = all.position(|&one| one == (start, len)) {
            self.registrations.swap_remove(at);
        }
    }

    fn put(&self, table: &FileTable, serial: u64) -> Option<usize> {
        let stat = rustix::fs::fstat(&self.fd).ok()?;
        let free = |slot: &Slot| slot.serial.load(Relaxed) == 0;
        let index = table.slots.iter().position(free)?;
        let slot = &table.slots[index];
        slot.start.store(self.mapping.start, Relaxed);
        slot.len.store(self.mapping.end - self.mapping.start, Relaxed);
        slot.offset.store(self.mapping.offset, Relaxed);
        slot.device.store(stat.st_dev, Relaxed);
        slot.inode.store(stat.st_ino, Relaxed);
        slot.fd.store(self.fd.as_raw_fd(), Relaxed);
        slot.writable.store(self.mapping.writable.into(), Relaxed);
        slot.serial.store(serial, Relaxed);
        table.used.fetch_max(index as u32 + 1, Relaxed);
        Some(index)
    }

    fn take_back(&self, table: &FileTable) {
        if let Some(slot) = self.slot {
            table.slots[slot].serial.store(0, Relaxed);
        }
    }
}

/// Fills holes of the file, as pinning its pages would: the process that
/// maps it later must not find the file system full. False if that fails,
/// or if the holes are too large.
fn exists(file: &OwnedFd, from: u64, to: u64, writable: bool) -> bool {
    const MADV_POPULATE_READ: libc::c_int = 22;
    const MADV_POPULATE_WRITE: libc::c_int = 23;
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    if stat.st_blocks.saturating_mul(512) >= stat.st_size {
        return true;
    }
    let (from, to) = (page_floor(from), page_ceil(to).unwrap_or(0));
    let advice = if writable { MADV_POPULATE_WRITE } else { MADV_POPULATE_READ };
    // SAFETY: touches pages without changing them.
    let populate = || unsafe { libc::madvise(from as *mut _, (to - from) as usize, advice) };
    from < to && to - from <= LARGEST_HOLE && populate() == 0
}

/// The file of a mapping of this process. Opening it with O_PATH has no
/// side effects, and closing it does not drop the program's locks on it.
fn open_mapped(mapping: &Mapping) -> Option<OwnedFd> {
    let link = format!("/proc/self/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let is_file = |fd: &OwnedFd| {
        let stat = rustix::fs::fstat(fd).ok()?;
        let device = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        (regular && (device, stat.st_ino) == (mapping.device, mapping.inode)).then_some(())
    };
    let try_open = |path: &std::path::Path| {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()?;
        is_file(&fd).map(|()| fd)
    };
    // Following the link needs privilege; reading it does not.
    if let Some(fd) = try_open(link.as_ref()) {
        return Some(fd);
    }
    let by_path = std::fs::read_link(&link).ok();
    if let Some(fd) = by_path.and_then(|path| try_open(&path)) {
        return Some(fd);
    }
    // The path is gone, but the program may have the file open.
    let mut open = std::fs::read_dir("/proc/self/fd").ok()?;
    open.find_map(|entry| try_open(&entry.ok()?.path()))
}

impl Reach<'_> {
    pub(super) fn files_of(&self, member: u16) -> Option<&FileTable> {
        let tables = self.segment().tables();
        tables.files.get(usize::from(member))
    }

    fn own_files(&self) -> &FileTable {
        &self.segment().tables().files[usize::from(self.segment().member())]
    }

    /// A member has ended.
    pub(in crate::segment) fn clear_files(&self, member: u16) {
        if let Some(table) = self.files_of(member) {
            let used = table.used.swap(0, Relaxed) as usize;
            for slot in table.slots.iter().take(used) {
                slot.serial.store(0, Relaxed);
            }
        }
    }
}

impl Segment {
    /// This process's own offers.
    ///
    /// # Safety
    /// The process's lock is held for as long as the result is used, and there
    /// is one result at a time.
    #[allow(clippy::mut_from_ref)]
    pub(in crate::segment) unsafe fn offers(&self) -> &mut Offers {
        // SAFETY: by contract.
        unsafe { &mut *self.local.offers.get() }
    }
}
