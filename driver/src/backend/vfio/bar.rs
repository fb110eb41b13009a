//! Volatile access to BAR0.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::sync::atomic::{fence, Ordering};

use fpga_regs::regs::BAR0_BYTES;
use memmap2::{MmapOptions, MmapRaw};
use vfio_bindings::bindings::vfio::{VFIO_PCI_BAR0_REGION_INDEX, VFIO_REGION_INFO_FLAG_MMAP};
use vfio_ioctls::VfioDevice;
use volatile_register::RW;

use crate::card::CardError;

/// BAR0, mapped.
pub struct Bar {
    memory: MmapRaw,
}

impl Bar {
    /// Maps BAR0 of an opened device.
    pub(super) fn map(device: &VfioDevice) -> Result<Self, CardError> {
        let size = device.get_region_size(VFIO_PCI_BAR0_REGION_INDEX);
        if size < u64::from(BAR0_BYTES) {
            return Err(CardError::Setup(format!(
                "BAR0 has {size} bytes, {BAR0_BYTES} are needed: this is not a Verbena card, or its BAR is disabled"
            )));
        }
        if device.get_region_flags(VFIO_PCI_BAR0_REGION_INDEX) & VFIO_REGION_INFO_FLAG_MMAP == 0 {
            return Err(CardError::Setup("the kernel does not let BAR0 be mapped: see dmesg".into()));
        }
        let memory = MmapOptions::new()
            .offset(device.get_region_offset(VFIO_PCI_BAR0_REGION_INDEX))
            .len(BAR0_BYTES as usize)
            .map_raw(device.as_raw_fd())
            .map_err(|source| CardError::Os { what: "mapping BAR0".into(), source })?;
        Ok(Bar { memory })
    }

    /// Plain memory in place of a BAR, for tests and benchmarks.
    pub fn memory() -> Result<Self, CardError> {
        let memory = MmapOptions::new().len(BAR0_BYTES as usize).map_anon();
        let memory = memory.map_err(|source| CardError::Os { what: "mapping memory".into(), source })?;
        Ok(Bar { memory: MmapRaw::from(memory) })
    }

    /// The cell at an offset.
    #[inline]
    fn cell<T: Copy>(&self, offset: u32) -> &RW<T> {
        let size = size_of::<T>() as u32;
        assert!(offset % size == 0 && offset <= BAR0_BYTES - size, "no register at {offset:#x} of BAR0");
        // SAFETY: the offset is in the mapping and aligned; a cell is read and written as volatile.
        unsafe { &*self.memory.as_ptr().add(offset as usize).cast::<RW<T>>() }
    }

    /// Reads a register.
    #[inline]
    pub fn read<T: Copy>(&self, offset: u32) -> T {
        self.cell(offset).read()
    }

    /// Writes a register, after all earlier stores to memory.
    #[inline]
    pub fn write<T: Copy>(&self, offset: u32, value: T) {
        fence(Ordering::Release);
        // SAFETY: what a register does when written is the card's business; memory of this process it
        // reaches only through the IOMMU.
        unsafe { self.cell(offset).write(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_stand_where_they_are_written() {
        let bar = Bar::memory().unwrap();
        bar.write(0x40, 0x1122_3344_5566_7788u64);
        assert_eq!(bar.read::<u32>(0x40), 0x5566_7788);
        assert_eq!(bar.read::<u32>(0x44), 0x1122_3344);
        assert_eq!(bar.read::<u64>(0x48), 0);
    }

    #[test]
    #[should_panic(expected = "no register at 0x100000")]
    fn nothing_beyond_the_bar() {
        Bar::memory().unwrap().read::<u32>(BAR0_BYTES);
    }

    #[test]
    #[should_panic(expected = "no register at 0x44")]
    fn nothing_unaligned() {
        Bar::memory().unwrap().read::<u64>(0x44);
    }
}
