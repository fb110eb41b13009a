//! A card in a PCI slot as the driver's backend.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use fpga_regs::regs::MAX_VECTORS;
use vfio_ioctls::VfioDevice;

use super::bar::Bar;
use super::dma::Space;
use super::iommu::{self, Kernel};
use super::irq::Vectors;
use super::{config, preflight};
use crate::card::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};

/// Empty polls between two yields of the core.
const YIELD_EVERY: u32 = 1024;

/// `VFIO_DEVICE_RESET` of <linux/vfio.h>: `_IO(';', 100 + 11)`.
const DEVICE_RESET: libc::c_ulong = 0x3b6f;

/// A card function opened through VFIO. VFIO maps memory for reading and writing only, so
/// registered memory must be writable even if the card only reads it.
pub struct Vfio {
    // In the order of dropping: the device before the mappings of its address space.
    bar: Bar,
    vectors: Vectors,
    _device: VfioDevice,
    space: Space<Kernel>,
}

impl Vfio {
    /// Opens the device at a PCI address such as `0000:01:00.0`, which is bound to vfio-pci.
    pub fn open(address: &str) -> Result<Self, CardError> {
        let found = preflight(Path::new("/sys"), address)?;
        let (kernel, device) = iommu::open(&found)?;
        reset(&device)?;
        // After the reset, which clears it.
        config::enable(&device)?;
        let bar = Bar::map(&device)?;
        let vectors = Vectors::enable(&device, MAX_VECTORS)?;
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        Ok(Vfio { bar, vectors, _device: device, space: Space::new(kernel, page) })
    }

    /// Ends the wait of another thread for interrupt `vector`, or its next one.
    pub fn wake(&self, vector: u32) {
        self.vectors.wake(vector);
    }

    /// How many interrupt vectors the card has.
    pub fn vectors(&self) -> u32 {
        self.vectors.count()
    }
}

/// Function level reset, by the kernel, which keeps configuration space as it was.
fn reset(device: &VfioDevice) -> Result<(), CardError> {
    // SAFETY: takes no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), DEVICE_RESET) } {
        0 => Ok(()),
        _ => Err(CardError::Os {
            what: "resetting the card (it must be able to do a function level reset)".into(),
            source: io::Error::last_os_error(),
        }),
    }
}

impl Registers for Vfio {
    #[inline]
    fn read32(&self, offset: u32) -> u32 {
        self.bar.read(offset)
    }

    #[inline]
    fn write32(&self, offset: u32, value: u32) {
        self.bar.write(offset, value);
    }

    #[inline]
    fn read64(&self, offset: u32) -> u64 {
        self.bar.read(offset)
    }

    #[inline]
    fn write64(&self, offset: u32, value: u64) {
        self.bar.write(offset, value);
    }

    #[inline]
    fn doorbell(&self, offset: u32, value: u64) {
        self.bar.write(offset, value);
    }

    fn may_vanish(&self) -> bool {
        true
    }
}

impl Memory for Vfio {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        self.space.alloc(bytes)
    }

    fn free(&self, memory: DmaMemory) {
        self.space.free(memory);
    }

    // Safe by the trait: the caller of `Pd::reg_mr` keeps the memory valid.
    #[allow(clippy::not_unsafe_ptr_arg_deref)]
    fn map(&self, addr: *mut u8, len: usize, _writable: bool) -> Result<u64, CardError> {
        // SAFETY: the driver maps the range given to `Pd::reg_mr`, whose caller promises this.
        unsafe { self.space.map(addr, len) }
    }

    fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        self.space.unmap(iova, addr, len);
    }
}

impl Interrupts for Vfio {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        self.vectors.wait(vector, timeout)
    }
}

impl Hints for Vfio {
    #[inline]
    fn relax(&self, empty_polls: u32) {
        std::hint::spin_loop();
        if empty_polls % YIELD_EVERY == YIELD_EVERY - 1 {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::Card;

    #[test]
    fn a_slot_without_a_card_is_told() {
        let Err(error) = Vfio::open("ffff:ff:1f.7") else { panic!("there is no such slot") };
        assert!(error.to_string().contains("there is no PCI device ffff:ff:1f.7"), "{error}");
    }

    #[test]
    fn the_backend_may_be_shared_between_threads() {
        fn card<C: Card>() {}
        card::<Vfio>();
    }
}
