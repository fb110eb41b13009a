//! The kernel's side of an I/O address space: a container of IOMMU groups, or (feature `vfio_cdev`,
//! where the kernel has it) an iommufd.
#![allow(unsafe_code)]

use std::sync::Arc;

use vfio_ioctls::{VfioContainer, VfioDevice, VfioError, VfioOps};

use super::dma::Iommu;
use super::memlock::Memlock;
use super::{advice, Found};
use crate::card::CardError;

/// An I/O address space in the kernel.
pub(super) struct Kernel(Arc<dyn VfioOps>);

/// Opens a device with an empty address space of its own.
pub(super) fn open(found: &Found) -> Result<(Kernel, VfioDevice), CardError> {
    let opening = |error| advice::opening(error, found.group);
    let space = address_space(found).map_err(opening)?;
    let device = VfioDevice::new(&found.path, space.clone(), true).map_err(opening)?;
    Ok((Kernel(space), device))
}

#[cfg(not(feature = "vfio_cdev"))]
fn address_space(_: &Found) -> Result<Arc<dyn VfioOps>, VfioError> {
    Ok(Arc::new(VfioContainer::new(None)?))
}

#[cfg(feature = "vfio_cdev")]
fn address_space(found: &Found) -> Result<Arc<dyn VfioOps>, VfioError> {
    // Without IOMMUFD or VFIO_DEVICE_CDEV in the kernel there is the group only.
    if !(found.path.join("vfio-dev").is_dir() && std::path::Path::new("/dev/iommu").exists()) {
        return Ok(Arc::new(VfioContainer::new(None)?));
    }
    let iommufd = iommufd_ioctls::IommuFd::new().map_err(VfioError::NewVfioIommufd)?;
    Ok(Arc::new(vfio_ioctls::VfioIommufd::new(Arc::new(iommufd), None, None)?))
}

impl Iommu for Kernel {
    unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8) -> Result<(), VfioError> {
        // SAFETY: as the caller promises.
        unsafe { self.0.vfio_dma_map(iova, len, ptr) }
    }

    fn refuses(&self, bytes: usize) -> Option<String> {
        Memlock::now().refuses(bytes)
    }

    fn unmap(&self, iova: u64, len: usize) -> Result<(), VfioError> {
        self.0.vfio_dma_unmap(iova, len)
    }
}
