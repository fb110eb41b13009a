//! Memory and its I/O addresses: the driver's own, from anonymous mappings, and the user's.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;
use vfio_ioctls::{VfioContainer, VfioError};

use super::advice;
use super::iova::{Iovas, END, FIRST};
use crate::card::{CardError, DmaMemory};

/// The two calls of the IOMMU, so that all else is tested without one.
pub(super) trait Iommu {
    /// Lets the card reach memory.
    ///
    /// # Safety
    /// The memory stays until `unmap`, and whoever owns it expects the card's accesses.
    unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8) -> Result<(), VfioError>;
    /// Ends that.
    fn unmap(&self, iova: u64, len: usize) -> Result<(), VfioError>;
}

impl Iommu for VfioContainer {
    unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8) -> Result<(), VfioError> {
        // SAFETY: as the caller promises.
        unsafe { self.vfio_dma_map(iova, len, ptr) }
    }

    fn unmap(&self, iova: u64, len: usize) -> Result<(), VfioError> {
        self.vfio_dma_unmap(iova, len)
    }
}

/// Memory from here on gets an I/O address aligned to 2 MiB, so that the IOMMU can use large pages.
const LARGE: usize = 2 << 20;

/// The I/O address space of a container.
pub(super) struct Space<I: Iommu> {
    iommu: I,
    page: usize,
    state: Mutex<State>,
}

struct State {
    iovas: Iovas,
    own: HashMap<u64, MmapMut>,
}

impl<I: Iommu> Space<I> {
    /// An empty space; `page` is the system's page size.
    pub fn new(iommu: I, page: usize) -> Self {
        let state = State { iovas: Iovas::new(FIRST, END), own: HashMap::new() };
        Space { iommu, page, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroed memory of the driver's own.
    pub fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let len = bytes.max(1).next_multiple_of(self.page);
        let mut memory = MmapMut::map_anon(len).map_err(|_| CardError::NoMemory { bytes })?;
        let ptr = memory.as_mut_ptr();
        // A forked child must not get copies of rings: pinned pages would move away from the parent.
        // SAFETY: the range is the mapping from above.
        unsafe { libc::madvise(ptr.cast(), len, libc::MADV_DONTFORK) };
        // SAFETY: the mapping is kept in `own` until it was unmapped; only the driver uses it.
        let iova = unsafe { self.attach(ptr, len) }?;
        self.state().own.insert(iova, memory);
        Ok(DmaMemory { ptr, iova, len })
    }

    /// Gives it back.
    pub fn free(&self, memory: DmaMemory) {
        let own = self.state().own.remove(&memory.iova);
        if !self.detach(memory.iova, memory.len) {
            // The card may reach it yet: it stays for ever.
            std::mem::forget(own);
        }
    }

    /// Makes user memory reachable; the address returned is that of its first byte.
    ///
    /// # Safety
    /// As [`Iommu::map`], for all pages that the range touches.
    pub unsafe fn map(&self, addr: *mut u8, len: usize) -> Result<u64, CardError> {
        let (start, size, offset) = self.pages(addr, len)?;
        // SAFETY: as the caller promises.
        Ok(unsafe { self.attach(start, size) }? + offset as u64)
    }

    /// Takes that back.
    pub fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        if let Ok((_, size, offset)) = self.pages(addr, len) {
            self.detach(iova - offset as u64, size);
        }
    }

    /// The pages that a range touches: first address, bytes, and where in them the range begins.
    fn pages(&self, addr: *mut u8, len: usize) -> Result<(*mut u8, usize, usize), CardError> {
        let offset = addr as usize % self.page;
        match (offset.checked_add(len)).and_then(|end| end.checked_next_multiple_of(self.page)) {
            Some(size) if len != 0 && (addr as usize).checked_add(len).is_some() => {
                Ok((addr.wrapping_sub(offset), size, offset))
            }
            _ => Err(CardError::Map {
                addr: addr as u64,
                len,
                reason: "the range is empty or wraps around".into(),
            }),
        }
    }

    unsafe fn attach(&self, ptr: *mut u8, len: usize) -> Result<u64, CardError> {
        let align = if len >= LARGE { LARGE } else { self.page };
        let iova = self.state().iovas.take(len as u64, align as u64);
        let iova = iova.ok_or(CardError::NoMemory { bytes: len })?;
        // SAFETY: as the caller promises.
        if let Err(error) = unsafe { self.iommu.map(iova, len, ptr) } {
            self.state().iovas.give(iova, len as u64);
            return Err(advice::mapping(error, ptr as u64, len));
        }
        Ok(iova)
    }

    /// Whether the card can no longer reach it; if not, its addresses are never used again.
    fn detach(&self, iova: u64, len: usize) -> bool {
        let done = self.iommu.unmap(iova, len).is_ok();
        if done {
            self.state().iovas.give(iova, len as u64);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use vmm_sys_util::errno::Error as SysError;

    #[derive(Default)]
    struct Fake {
        maps: RefCell<Vec<(u64, usize, usize)>>,
        fail: Cell<Option<i32>>,
    }

    impl Iommu for Fake {
        unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8) -> Result<(), VfioError> {
            if let Some(errno) = self.fail.get() {
                return Err(VfioError::IommuDmaMap(SysError::new(errno)));
            }
            self.maps.borrow_mut().push((iova, len, ptr as usize));
            Ok(())
        }

        fn unmap(&self, iova: u64, len: usize) -> Result<(), VfioError> {
            if let Some(errno) = self.fail.get() {
                return Err(VfioError::IommuDmaUnmap(SysError::new(errno)));
            }
            let mut maps = self.maps.borrow_mut();
            let at = maps.iter().position(|map| (map.0, map.1) == (iova, len)).expect("is mapped");
            maps.remove(at);
            Ok(())
        }
    }

    fn space() -> Space<Fake> {
        Space::new(Fake::default(), 4096)
    }

    #[test]
    fn own_memory_is_zeroed_whole_pages() {
        let space = space();
        let memory = space.alloc(5000).unwrap();
        assert_eq!((memory.iova, memory.len), (FIRST, 8192));
        assert_eq!(memory.ptr as usize % 4096, 0);
        // SAFETY: just allocated.
        assert!(unsafe { std::slice::from_raw_parts(memory.ptr, memory.len) }.iter().all(|byte| *byte == 0));
        space.free(memory);
        assert!(space.iommu.maps.borrow().is_empty());
        let large = space.alloc(3 << 20).unwrap();
        assert_eq!(large.iova % (2 << 20), 0);
        space.free(large);
    }

    #[test]
    fn user_memory_keeps_its_place_in_the_page() {
        let space = space();
        let addr = 0x7000_1234 as *mut u8;
        // SAFETY: the fake IOMMU only notes it down.
        let iova = unsafe { space.map(addr, 0x2000) }.unwrap();
        assert_eq!(iova, FIRST + 0x234);
        assert_eq!(*space.iommu.maps.borrow(), [(FIRST, 0x3000, 0x7000_1000)]);
        // SAFETY: as above.
        let second = unsafe { space.map(addr, 1) }.unwrap();
        assert_eq!(second, FIRST + 0x3234, "the same memory twice has two addresses");
        space.unmap(iova, addr, 0x2000);
        space.unmap(second, addr, 1);
        assert!(space.iommu.maps.borrow().is_empty());
    }

    #[test]
    fn a_failed_mapping_gives_its_addresses_back() {
        let space = space();
        space.iommu.fail.set(Some(libc::ENOMEM));
        assert!(space.alloc(4096).unwrap_err().to_string().contains("ulimit -l"));
        space.iommu.fail.set(None);
        assert_eq!(space.alloc(4096).unwrap().iova, FIRST);
    }

    #[test]
    fn addresses_that_could_not_be_unmapped_are_not_used_again() {
        let space = space();
        let memory = space.alloc(4096).unwrap();
        space.iommu.fail.set(Some(libc::EIO));
        space.free(memory);
        space.iommu.fail.set(None);
        assert_eq!(space.alloc(4096).unwrap().iova, FIRST + 4096);
    }

    #[test]
    fn impossible_ranges() {
        let space = space();
        for (addr, len) in [(0x1000, 0), (usize::MAX - 10, 20), (0x1000, usize::MAX)] {
            // SAFETY: refused.
            assert!(unsafe { space.map(addr as *mut u8, len) }.is_err());
        }
    }
}
