//! Shared file mappings of a member, seen from the other members.
//!
//! Memory that is a shared mapping of a file cannot move into the segment, but
//! whoever runs the cards can map the same file. The owner offers a window: a
//! descriptor (without any right of its own, `O_PATH`) and what is mapped where.
//! Others open it through `/proc` when they first copy to it. Whatever is in the
//! way of that, a right or a missing `/proc`, leaves the copy to the kernel.
//!
//! To touch what a shortened file has lost is SIGBUS, so the kernel copies to and
//! from windows ([`super::private`]), unless the file is sealed.
#![allow(unsafe_code)]

use crate::plain::plain;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use super::ranges::{Range, FOREIGN};
use crate::segment::layout::{page_ceil, page_floor, PAGE};
use crate::segment::lock::Guard;
use crate::segment::moving::maps::Mapping;
use crate::segment::Segment;

/// Windows that one member can offer.
pub const MAX_WINDOWS: usize = 63;

/// More than this is not filled up for a window.
const LARGEST_HOLE: u64 = 1 << 30;

/// What one member offers. Read and written with the lock held.
#[repr(C, align(4096))]
pub struct WindowTable {
    /// Slots above this one were never used.
    used: AtomicU32,
    slots: [Slot; MAX_WINDOWS],
}

const _: () = assert!(size_of::<WindowTable>() == PAGE as usize);

#[repr(C, align(64))]
struct Slot {
    /// Different for every window that ever was; 0: free.
    serial: AtomicU64,
    start: AtomicU64,
    len: AtomicU64,
    /// Of the first byte in the file.
    offset: AtomicU64,
    device: AtomicU64,
    inode: AtomicU64,
    /// The owner's descriptor.
    fd: AtomicI32,
    writable: AtomicU32,
}

/// What a member knows about its own windows. Guarded by the process's lock.
#[derive(Default)]
pub(in crate::segment) struct Offers(Vec<Offer>);

struct Offer {
    mapping: Mapping,
    fd: OwnedFd,
    /// Its place in the table.
    slot: Option<usize>,
    /// Registrations that lie in it: first address and length.
    registrations: Vec<(u64, u64)>,
}

impl Offer {
    /// True when both show the same bytes of the same file at the same place.
    fn shows(&self, mapping: &Mapping) -> bool {
        let (a, b) = (&self.mapping, mapping);
        (a.device, a.inode, a.writable) == (b.device, b.inode, b.writable)
            && a.start.wrapping_sub(a.offset) == b.start.wrapping_sub(b.offset)
    }
}

impl Offers {
    /// Opens what a registration of `start..start + len` needs; nothing is
    /// offered yet. `files` are the shared mappings that it touches.
    ///
    /// With `VERBENA_NO_WINDOWS` in the environment nothing is: the benchmark measures so what memory costs
    /// that nobody else can map.
    pub(in crate::segment) fn prepare(&mut self, files: &[Mapping], start: u64, len: u64, writable: bool) {
        if std::env::var_os("VERBENA_NO_WINDOWS").is_some() {
            return;
        }
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

    /// Offers what was prepared, and takes back what shows something else than
    /// the registered addresses stand for now.
    pub(in crate::segment) fn publish(&mut self, guard: &Guard<'_>, files: &[Mapping], start: u64, len: u64) {
        let table = guard.own_windows();
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
                let serial = &guard.segment().tables().header.steady.window_serial;
                offer.slot = offer.put(table, serial.fetch_add(1, Relaxed) + 1);
            }
        }
        // Without a place in the table it is of no use.
        self.0.retain(|offer| offer.slot.is_some());
    }

    /// Offers a mapping of lent memory as a whole, until it is withdrawn.
    pub(in crate::segment) fn lend(&mut self, guard: &Guard<'_>, mapping: Mapping, fd: OwnedFd) {
        let registrations = vec![(mapping.start, mapping.end - mapping.start)];
        let mut offer = Offer { mapping, fd, slot: None, registrations };
        let serial = &guard.segment().tables().header.steady.window_serial;
        offer.slot = offer.put(guard.own_windows(), serial.fetch_add(1, Relaxed) + 1);
        // Without a place in the table, the copies are left to the kernel.
        if offer.slot.is_some() {
            self.0.push(offer);
        }
    }

    /// True when others can map all of it.
    pub(in crate::segment) fn offered(&self, range: &Range) -> bool {
        let mappings = self.0.iter().map(|offer| &offer.mapping);
        range.backing == FOREIGN
            && mappings.into_iter().any(|m| m.start <= range.start && range.end() <= m.end)
    }

    /// What was prepared is not to be offered.
    pub(in crate::segment) fn undo(&mut self, start: u64, len: u64) {
        self.0.retain_mut(|offer| {
            offer.leave(start, len);
            offer.slot.is_some()
        });
    }

    /// A registration is over.
    pub(in crate::segment) fn withdraw(&mut self, guard: &Guard<'_>, start: u64, len: u64) {
        let table = guard.own_windows();
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

    fn put(&self, table: &WindowTable, serial: u64) -> Option<usize> {
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

    fn take_back(&self, table: &WindowTable) {
        if let Some(slot) = self.slot {
            table.slots[slot].serial.store(0, Relaxed);
        }
    }
}

/// Makes the pages exist if the file has holes, as pinning them would: whoever
/// maps the file later must not find its file system full. False if that fails,
/// or would be too much.
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

/// The file behind a mapping of this process. Opening it with O_PATH has no
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
    // Following the link is a privilege, reading it is not.
    if let Some(fd) = try_open(link.as_ref()) {
        return Some(fd);
    }
    let by_path = std::fs::read_link(&link).ok();
    if let Some(fd) = by_path.and_then(|path| try_open(&path)) {
        return Some(fd);
    }
    // No path leads there any more, but the program may have it open.
    let mut open = std::fs::read_dir("/proc/self/fd").ok()?;
    open.find_map(|entry| try_open(&entry.ok()?.path()))
}

/// The windows that this process has opened. Used with the lock held.
#[derive(Default)]
pub(in crate::segment) struct Views {
    /// Of the DMA maps when the list was last looked through.
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
    /// `None` when it could not be opened: not tried again.
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

impl Guard<'_> {
    fn windows_of(&self, member: u16) -> Option<&WindowTable> {
        let tables = self.segment().tables();
        tables.windows.get(usize::from(member))
    }

    fn own_windows(&self) -> &WindowTable {
        &self.segment().tables().windows[usize::from(self.segment().member())]
    }

    /// A member has gone.
    pub(in crate::segment) fn clear_windows(&self, member: u16) {
        if let Some(table) = self.windows_of(member) {
            let used = table.used.swap(0, Relaxed) as usize;
            for slot in table.slots.iter().take(used) {
                slot.serial.store(0, Relaxed);
            }
        }
    }

    /// Where another member's private memory is in this process, if it can be
    /// mapped here: the address, how many bytes from there on, and whether the
    /// file cannot lose them.
    pub(in crate::segment) fn through_window(
        &self,
        member: u16,
        iova: u64,
        len: u64,
        write: bool,
    ) -> Option<(*mut u8, u64, bool)> {
        let table = self.windows_of(member)?;
        if table.used.load(Relaxed) == 0 {
            return None;
        }
        self.prune_windows();
        // SAFETY: the lock is held, and no reference outlives this function.
        let views = unsafe { &mut *self.segment().local().views.get() };
        let holds = |view: &&View| view.member == member && iova.wrapping_sub(view.start) < view.len;
        let index = views.list.iter().position(|view| holds(&view));
        let index = match index {
            Some(index) => index,
            None => {
                views.list.push(self.open_window(member, table, iova)?);
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

    /// Closes windows that are offered no longer.
    pub(in crate::segment) fn prune_windows(&self) {
        // SAFETY: as in `through_window`.
        let views = unsafe { &mut *self.segment().local().views.get() };
        let generation = self.segment().tables().header.steady.dma_generation.load(Relaxed);
        if views.generation != generation {
            views.generation = generation;
            views.list.retain(|view| {
                self.windows_of(view.member)
                    .is_some_and(|table| table.slots[view.slot].serial.load(Relaxed) == view.serial)
            });
        }
    }

    #[cold]
    fn open_window(&self, member: u16, table: &WindowTable, iova: u64) -> Option<View> {
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
        view.mapped = map_window(file, identity, &view);
        Some(view)
    }
}

fn map_window(path: String, identity: (u64, u64), view: &View) -> Option<Mapped> {
    // Checked before the file is opened for use: that is harmless for regular
    // files only.
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

/// Whether nobody can shorten a file: bytes of it that are mapped here may be touched. To touch what a shortened
/// file has lost is SIGBUS.
pub(super) fn keeps_size(file: &OwnedFd) -> bool {
    rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| seals.contains(rustix::fs::SealFlags::SHRINK))
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
        unsafe { &mut *self.local().offers.get() }
    }
}

plain! {
    WindowTable { used, slots }
    Slot { serial, start, len, offset, device, inode, fd, writable }
}
