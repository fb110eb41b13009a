//! What a failed VFIO call means for the user, with the remedy.

use std::io::{self, ErrorKind};

use vfio_ioctls::VfioError;

use crate::card::CardError;

/// The error of opening, with the remedy where one is known.
pub(super) fn opening(error: VfioError, group: u32) -> CardError {
    let text = match &error {
        VfioError::OpenContainer(cause) => match cause.kind() {
            ErrorKind::NotFound => "/dev/vfio/vfio does not exist: modprobe vfio vfio-pci".to_string(),
            ErrorKind::PermissionDenied => {
                "no permission for /dev/vfio/vfio: chmod 0666 /dev/vfio/vfio".to_string()
            }
            _ => format!("/dev/vfio/vfio: {cause}"),
        },
        VfioError::OpenGroup(cause, _) => match cause.kind() {
            ErrorKind::NotFound => {
                format!("/dev/vfio/{group} does not exist: bind the device to vfio-pci first (verbena bind)")
            }
            ErrorKind::PermissionDenied => {
                format!("no permission for /dev/vfio/{group}: sudo chown $USER /dev/vfio/{group}, or add a udev rule")
            }
            ErrorKind::ResourceBusy => {
                format!(
                    "/dev/vfio/{group} is in use: another program has this card or one of its IOMMU group"
                )
            }
            _ => format!("/dev/vfio/{group}: {cause}"),
        },
        VfioError::GroupViable => format!(
            "IOMMU group {group} is not viable: every other device in \
             /sys/kernel/iommu_groups/{group}/devices must be bound to vfio-pci or unbound"
        ),
        VfioError::ContainerSetIOMMU(cause) => {
            format!("the kernel gives no IOMMU for group {group} ({cause}): load vfio_iommu_type1, switch the IOMMU on")
        }
        VfioError::VfioExtension | VfioError::VfioType1V2 => {
            "this kernel has no type 1 IOMMU for VFIO: modprobe vfio_iommu_type1".to_string()
        }
        other => format!("opening the card through VFIO: {other}"),
    };
    CardError::Setup(text)
}

/// The error of mapping memory.
pub(super) fn mapping(error: VfioError, addr: u64, len: usize) -> CardError {
    let VfioError::IommuDmaMap(cause) = &error else {
        return CardError::Map { addr, len, reason: error.to_string() };
    };
    let cause = io::Error::from_raw_os_error(cause.errno());
    let hint = match cause.raw_os_error() {
        Some(libc::ENOMEM) => ": raise RLIMIT_MEMLOCK (ulimit -l), all of it is pinned",
        Some(libc::EFAULT) => ": it must be readable and writable memory that exists",
        Some(libc::ENOSPC) => ": the IOMMU takes no more mappings, register fewer and larger regions",
        _ => "",
    };
    CardError::Map { addr, len, reason: format!("{cause}{hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmm_sys_util::errno::Error as SysError;

    fn text(error: VfioError) -> String {
        opening(error, 17).to_string()
    }

    #[test]
    fn missing_group_and_permission_are_told_apart() {
        let cause = |kind: ErrorKind| io::Error::from(kind);
        let group = |kind| VfioError::OpenGroup(cause(kind), "17".into());
        assert!(text(group(ErrorKind::NotFound)).contains("bind the device to vfio-pci"));
        assert!(text(group(ErrorKind::PermissionDenied)).contains("sudo chown $USER /dev/vfio/17"));
        assert!(text(group(ErrorKind::ResourceBusy)).contains("another program"));
        assert!(text(VfioError::OpenContainer(cause(ErrorKind::NotFound))).contains("modprobe vfio"));
        assert!(text(VfioError::OpenContainer(cause(ErrorKind::PermissionDenied))).contains("chmod"));
        assert!(text(VfioError::GroupViable).contains("/sys/kernel/iommu_groups/17/devices"));
        assert!(
            text(VfioError::ContainerSetIOMMU(SysError::new(libc::ENODEV))).contains("switch the IOMMU on")
        );
        assert!(text(VfioError::InvalidPath).contains("invalid file path"));
    }

    #[test]
    fn mapping_errors_carry_a_hint() {
        let text = |errno| mapping(VfioError::IommuDmaMap(SysError::new(errno)), 0x1000, 4096).to_string();
        assert!(text(libc::ENOMEM).contains("ulimit -l"));
        assert!(text(libc::EFAULT).contains("writable"));
        assert!(text(libc::EEXIST).starts_with("cannot map 4096 bytes at 0x1000"));
    }
}
