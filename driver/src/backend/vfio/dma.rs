//! Memory and its I/O addresses: the driver's own, from anonymous mappings, and the user's.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use memmap2::MmapMut;
use vfio_ioctls::VfioError;

use super::iova::{Iovas, END, FIRST};
use super::own::HUGE;
use super::shared::Mappings;
use super::{advice, own};
use crate::card::{CardError, DmaMemory};
use crate::lock;

/// The calls of the IOMMU, so that all else is tested without one.
pub(super) trait Iommu {
    /// Lets the card reach memory.
    ///
    /// # Safety
    /// The memory stays valid until `unmap`, and its owner expects the card's accesses.
    unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8) -> Result<(), VfioError>;
    /// Why `bytes` cannot be pinned, with the remedy; `None` if no reason is known.
    fn refuses(&self, bytes: usize) -> Option<String>;
    /// Undoes `map`.
    fn unmap(&self, iova: u64, len: usize) -> Result<(), VfioError>;
}

/// The I/O address space of a card.
pub(super) struct Space<I: Iommu> {
    iommu: I,
    page: usize,
    state: Mutex<State>,
}

struct State {
    iovas: Iovas,
    /// The driver's own memory, by I/O address.
    own: HashMap<u64, MmapMut>,
    /// The user's.
    users: Mappings,
}

impl<I: Iommu> Space<I> {
    /// An empty space; `page` is the system's page size.
    pub fn new(iommu: I, page: usize) -> Self {
        let state = State { iovas: Iovas::new(FIRST, END), own: HashMap::new(), users: Mappings::default() };
        Space { iommu, page, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Zeroed memory of the driver's own.
    pub fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let mut memory = own::allocate(bytes, self.page)?;
        let (ptr, len) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: the mapping is kept in `own` until it is unmapped; only the driver uses it.
        let iova = unsafe { self.attach(ptr, len) }?;
        self.state().own.insert(iova, memory);
        Ok(DmaMemory { ptr, iova, len })
    }

    /// Frees it.
    pub fn free(&self, memory: DmaMemory) {
        let own = self.state().own.remove(&memory.iova);
        if !self.detach(memory.iova, memory.len) {
            // The card may still reach it: it is leaked.
            std::mem::forget(own);
        }
    }

    /// Makes user memory reachable; the address returned is that of its first byte.
    ///
    /// # Safety
    /// As [`Iommu::map`], for all pages that the range touches.
    pub unsafe fn map(&self, addr: *mut u8, len: usize) -> Result<u64, CardError> {
        let (start, size, offset) = self.pages(addr, len)?;
        if let Some(iova) = self.state().users.hold((start as usize, size)) {
            return Ok(iova + offset as u64);
        }
        // SAFETY: as the caller promises.
        let iova = unsafe { self.attach(start, size) }?;
        self.state().users.add(iova, (start as usize, size));
        Ok(iova + offset as u64)
    }

    /// Undoes `map` for the same range.
    pub fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        if let Ok((start, size, offset)) = self.pages(addr, len) {
            let over = self.state().users.release(iova - offset as u64, (start as usize, size));
            if let Some((iova, len)) = over {
                self.detach(iova, len);
            }
        }
    }

    /// The pages that a range touches: first address, bytes, and the offset of the range in them.
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
        if let Some(reason) = self.iommu.refuses(len) {
            return Err(CardError::Map { addr: ptr as u64, len, reason });
        }
        let align = if len >= HUGE { HUGE } else { self.page };
        let iova = self.state().iovas.take(len as u64, align as u64, (ptr as usize % align) as u64);
        let iova = iova.ok_or(CardError::NoMemory { bytes: len })?;
        // SAFETY: as the caller promises.
        if let Err(error) = unsafe { self.iommu.map(iova, len, ptr) } {
            self.state().iovas.give(iova, len as u64);
            return Err(advice::mapping(error, ptr as u64, len));
        }
        Ok(iova)
    }

    /// True when the card can no longer reach it. Otherwise its addresses are never used again.
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

        fn refuses(&self, bytes: usize) -> Option<String> {
            (bytes > 1 << 30).then(|| "ulimit -l".into())
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
        assert_eq!((large.iova ^ large.ptr as u64) % HUGE as u64, 0);
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
        let second = unsafe { space.map(addr.wrapping_add(0x1000), 1) }.unwrap();
        assert_eq!(second, FIRST + 0x1234, "the same memory twice is mapped once");
        assert_eq!(space.iommu.maps.borrow().len(), 1);
        space.unmap(iova, addr, 0x2000);
        assert_eq!(space.iommu.maps.borrow().len(), 1, "a part of it is still held");
        space.unmap(second, addr.wrapping_add(0x1000), 1);
        assert!(space.iommu.maps.borrow().is_empty());
    }

    #[test]
    fn overlapping_memory_is_mapped_twice_and_unmapped_exactly() {
        let space = space();
        let addr = 0x7000_0000 as *mut u8;
        // SAFETY: the fake IOMMU only notes it down.
        let (a, b) = unsafe {
            (space.map(addr, 0x3000).unwrap(), space.map(addr.wrapping_add(0x2000), 0x3000).unwrap())
        };
        assert_eq!((a, b), (FIRST, FIRST + 0x3000));
        space.unmap(a, addr, 0x3000);
        assert_eq!(*space.iommu.maps.borrow(), [(b, 0x3000, 0x7000_2000)]);
        space.unmap(b, addr.wrapping_add(0x2000), 0x3000);
        assert!(space.iommu.maps.borrow().is_empty());
    }

    #[test]
    fn large_memory_falls_on_huge_pages_there_as_here() {
        let space = space();
        let addr = 0x7012_3000 as *mut u8;
        // SAFETY: the fake IOMMU only notes it down.
        let iova = unsafe { space.map(addr, 8 << 20) }.unwrap();
        assert_eq!(iova % HUGE as u64, 0x12_3000);
    }

    #[test]
    fn too_much_is_refused_before_the_kernel_does() {
        let space = space();
        // SAFETY: refused.
        let error = unsafe { space.map(0x1000 as *mut u8, 2 << 30) }.unwrap_err();
        assert!(error.to_string().contains("ulimit -l"), "{error}");
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
