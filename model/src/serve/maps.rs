//! What a client lets its card reach: files mapped once, and the IOVA ranges that map parts of them.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::null_mut;

use fpga_regs::vfio_user::{dma_flag, DmaMap};

use super::refused::Refused;
use crate::segment::reach::ranges::Place;
use crate::segment::{Segment, SegmentError, PAGE};

/// Most ranges of a client. QEMU refuses a server that announces more than 65535
/// (`VFIO_USER_DEF_MAP_MAX` in its hw/vfio-user/proxy.c).
pub const MAX_MAPS: usize = 65_535;
const _: () = assert!(MAX_MAPS <= crate::segment::reach::dma::MAX_RANGES);
/// IOVAs that can be asked for.
const ASKABLE: u64 = 1 << 60;

/// How the card reaches the client's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DmaMode {
    /// Through the files that the client passes; by messages what it maps without one.
    #[default]
    Shared,
    /// By messages, whatever the client maps, and unchecked: what is not mapped is refused, and told, by the
    /// client's own IOMMU.
    Messages,
}

/// See the module.
#[derive(Default)]
pub struct Maps {
    mode: DmaMode,
    files: Vec<File>,
    by_iova: BTreeMap<u64, Map>,
    /// The card may use them, or some of them (Bus Master is set).
    enabled: bool,
}

/// A file of the client, mapped here as a whole.
struct File {
    identity: (u64, u64),
    writable: bool,
    ptr: *mut u8,
    len: usize,
    users: usize,
}

// SAFETY: this value alone owns the mapping.
unsafe impl Send for File {}

#[derive(Clone, Copy)]
struct Map {
    len: u64,
    /// `None` where the card needs none, as it may ask for everything.
    place: Option<Place>,
    /// The mapping of the file that it is part of.
    file: Option<*mut u8>,
}

// SAFETY: the pointer only names a file's mapping.
unsafe impl Send for Map {}

impl Maps {
    /// Nothing mapped.
    pub fn new(mode: DmaMode) -> Maps {
        Maps { mode, ..Maps::default() }
    }

    /// Maps; without a file the card asks for the bytes.
    pub fn add(&mut self, segment: &Segment, map: &DmaMap, file: Option<OwnedFd>) -> Result<(), Refused> {
        let end = map.address.checked_add(map.size).ok_or(Refused::invalid("the range wraps around"))?;
        if map.size == 0 || map.address % PAGE != 0 || map.size % PAGE != 0 || map.offset % PAGE != 0 {
            return Err(Refused::invalid(
                "address, size and offset must be multiples of 4096, and size not 0",
            ));
        }
        let before = self.by_iova.range(..end).next_back();
        if before.is_some_and(|(start, other)| start + other.len > map.address) {
            return Err(Refused::new(libc::EEXIST, "something is mapped there already"));
        }
        if self.by_iova.len() == MAX_MAPS {
            return Err(Refused::new(libc::ENOSPC, "too many ranges: use larger pages"));
        }
        let readable = map.flags & dma_flag::READ != 0;
        let writable = map.flags & dma_flag::WRITE != 0;
        let (place, ptr) = match file.filter(|_| self.mode == DmaMode::Shared) {
            _ if self.mode == DmaMode::Messages => (None, None),
            None => {
                let place = Place::asked(map.address, readable, writable);
                (
                    Some(place.ok_or(Refused::invalid("memory without a file must have IOVAs below 2^60"))?),
                    None,
                )
            }
            Some(file) => {
                let (ptr, len) = self.file(segment, file, writable)?;
                if map.offset.checked_add(map.size).is_none_or(|end| end > len as u64) {
                    self.release(segment, Some(ptr))?;
                    return Err(Refused::invalid("the file is shorter than what is to be mapped"));
                }
                (Some(Place::new(ptr as u64 + map.offset, readable, writable)), Some(ptr))
            }
        };
        if let Some(place) = place.filter(|_| self.enabled) {
            if let Err(error) = segment.map_at(map.address, map.size, place) {
                self.release(segment, ptr)?;
                return Err(Refused::new(libc::ENOSPC, error.to_string()));
            }
        }
        self.by_iova.insert(map.address, Map { len: map.size, place, file: ptr });
        Ok(())
    }

    /// Takes away whatever is mapped inside a range. No DMA touches it when this returns. Ranges that hold
    /// nothing are fine; cutting a range in two is not.
    pub fn remove(&mut self, segment: &Segment, address: u64, size: u64) -> Result<(), Refused> {
        let end = address.checked_add(size).ok_or(Refused::invalid("the range wraps around"))?;
        let cut = |(start, map): (&u64, &Map)| {
            *start < address && start + map.len > address || start + map.len > end
        };
        let first = self.by_iova.range(..address).next_back().is_some_and(|(s, m)| s + m.len > address);
        if first || self.by_iova.range(address..end).any(cut) {
            return Err(Refused::invalid("the range would cut a mapped one in two"));
        }
        let inside: Vec<u64> = self.by_iova.range(address..end).map(|(start, _)| *start).collect();
        for start in inside {
            let map = self.by_iova[&start];
            if map.place.is_some() && self.enabled {
                unmap(segment, start, map.len)?;
            }
            self.release(segment, map.file)?;
            self.by_iova.remove(&start);
        }
        Ok(())
    }

    /// Takes everything away; after an error, some of it.
    pub fn clear(&mut self, segment: &Segment) -> Result<(), Refused> {
        self.enable(segment, false)?;
        self.by_iova.clear();
        while let Some(file) = self.files.last_mut() {
            file.users = 1;
            let ptr = file.ptr;
            self.release(segment, Some(ptr))?;
        }
        Ok(())
    }

    /// Lets the card use the maps or not. After taking them away, no DMA is in flight when this returns.
    pub fn enable(&mut self, segment: &Segment, enabled: bool) -> Result<(), Refused> {
        if self.enabled == enabled {
            return Ok(());
        }
        // Some of them, until all is done.
        self.enabled = true;
        let all = || (0, ASKABLE, Place::asked(0, true, true).expect("0 is an address"));
        let all = (self.mode == DmaMode::Messages).then(all);
        let places = self.by_iova.iter().filter_map(|(&start, map)| Some((start, map.len, map.place?)));
        for (start, len, place) in all.into_iter().chain(places) {
            match enabled {
                true => segment
                    .map_at(start, len, place)
                    .map_err(|error| Refused::new(libc::ENOSPC, error.to_string()))?,
                false => unmap(segment, start, len)?,
            }
        }
        self.enabled = enabled;
        Ok(())
    }

    /// The mapping of a file, made if there is none, and its length.
    fn file(
        &mut self,
        segment: &Segment,
        file: OwnedFd,
        writable: bool,
    ) -> Result<(*mut u8, usize), Refused> {
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| Refused::new(error.raw_os_error(), "the descriptor cannot be looked at"))?;
        let identity = (stat.st_dev, stat.st_ino);
        let same = |known: &&mut File| {
            known.identity == identity
                && known.len as u64 == stat.st_size as u64
                && (known.writable || !writable)
        };
        if let Some(known) = self.files.iter_mut().find(same) {
            known.users += 1;
            return Ok((known.ptr, known.len));
        }
        if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() || stat.st_size <= 0 {
            return Err(Refused::invalid("the descriptor is no file that can be mapped"));
        }
        let len = stat.st_size as usize;
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let ptr = unsafe { libc::mmap(null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        if ptr == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(Refused::new(
                error.raw_os_error().unwrap_or(libc::ENOMEM),
                format!("mapping the file: {error}"),
            ));
        }
        // A core dump need not contain the client's memory.
        // SAFETY: advice about our own mapping.
        unsafe { libc::madvise(ptr, len, libc::MADV_DONTDUMP) };
        let ptr = ptr.cast::<u8>();
        if let Err(error) = segment.offer(ptr, len, file, 0, writable) {
            // SAFETY: the mapping from above, which has no other user.
            unsafe { libc::munmap(ptr.cast(), len) };
            return Err(Refused::new(libc::EIO, error.to_string()));
        }
        self.files.push(File { identity, writable, ptr, len, users: 1 });
        Ok((ptr, len))
    }

    /// One range fewer uses a file; the last one unmaps it.
    fn release(&mut self, segment: &Segment, ptr: Option<*mut u8>) -> Result<(), Refused> {
        let Some(at) = self.files.iter().position(|file| Some(file.ptr) == ptr) else { return Ok(()) };
        let file = &mut self.files[at];
        if file.users > 1 {
            file.users -= 1;
            return Ok(());
        }
        segment.withdraw(file.ptr, file.len).map_err(|error| Refused::new(libc::EIO, error.to_string()))?;
        // SAFETY: our own mapping; no range of the card leads there any more, and the segment's lock was
        // held since the last one was taken away.
        unsafe { libc::munmap(file.ptr.cast(), file.len) };
        self.files.swap_remove(at);
        Ok(())
    }
}

fn unmap(segment: &Segment, start: u64, len: u64) -> Result<(), Refused> {
    match segment.unmap_at(start, len) {
        // By what failed before it had done the rest.
        Err(SegmentError::NotMapped(_)) => Ok(()),
        other => other.map_err(|error| Refused::new(libc::EIO, error.to_string())),
    }
}
