//! What can be wrong before anything is opened: read from sysfs, reported with its remedy.

use std::fs;
use std::path::{Path, PathBuf};

use crate::card::CardError;

/// A device that VFIO can open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its directory in sysfs.
    pub path: PathBuf,
    /// Its IOMMU group.
    pub group: u32,
}

/// Checks a PCI device (`0000:01:00.0`) below a sysfs root (`/sys`).
pub fn preflight(sysfs: &Path, address: &str) -> Result<Found, CardError> {
    let setup = |text: String| Err(CardError::Setup(text));
    let well_formed = address.len() == 12
        && address.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b':',
            10 => byte == b'.',
            _ => byte.is_ascii_hexdigit(),
        });
    if !well_formed {
        return setup(format!("{address:?} is not a PCI address: write it like 0000:01:00.0 (see lspci -D)"));
    }
    let path = sysfs.join("bus/pci/devices").join(address);
    if !path.exists() {
        return setup(format!("there is no PCI device {address}: see lspci -D, or rescan the bus"));
    }
    let Some(group) = link_name(&path.join("iommu_group")) else {
        return setup(format!(
            "{address} has no IOMMU group: switch the IOMMU on (BIOS: VT-d or AMD-Vi; kernel: intel_iommu=on)"
        ));
    };
    let bound = link_name(&path.join("driver"));
    if bound.as_deref() != Some("vfio-pci") {
        let now = bound.map_or("no driver".to_string(), |driver| format!("the driver {driver}"));
        return setup(format!("{address} has {now}, not vfio-pci: verbena bind {address}"));
    }
    let others = in_the_way(&path);
    if !others.is_empty() {
        let commands: Vec<String> = others.iter().map(|other| format!("verbena bind {other}")).collect();
        return setup(format!(
            "IOMMU group {group} is not viable, because {address} shares it with devices that have other \
             drivers: {}",
            commands.join("; ")
        ));
    }
    match group.parse() {
        Ok(group) => Ok(Found { path, group }),
        Err(_) => setup(format!("the IOMMU group of {address} is called {group:?}, a number was expected")),
    }
}

/// The other devices of a device's group whose drivers do DMA of their own. Bridges keep theirs.
fn in_the_way(path: &Path) -> Vec<String> {
    let own = path.file_name();
    let Ok(devices) = fs::read_dir(path.join("iommu_group/devices")) else { return Vec::new() };
    let mut others: Vec<String> = devices
        .flatten()
        .filter(|device| Some(device.file_name().as_os_str()) != own)
        .filter(|device| {
            let driver = link_name(&device.path().join("driver"));
            driver.is_some_and(|driver| !["vfio-pci", "pcieport", "pci-stub"].contains(&driver.as_str()))
        })
        .map(|device| device.file_name().to_string_lossy().into_owned())
        .collect();
    others.sort();
    others
}

fn link_name(link: &Path) -> Option<String> {
    let target = fs::read_link(link).ok()?;
    Some(target.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const ADDRESS: &str = "0000:01:00.0";

    fn device(group: Option<&str>, driver: Option<&str>) -> (tempfile::TempDir, Result<Found, CardError>) {
        let sysfs = tempfile::tempdir().unwrap();
        let path = sysfs.path().join("bus/pci/devices").join(ADDRESS);
        fs::create_dir_all(&path).unwrap();
        if let Some(group) = group {
            symlink(format!("../../kernel/iommu_groups/{group}"), path.join("iommu_group")).unwrap();
        }
        if let Some(driver) = driver {
            symlink(format!("../../bus/pci/drivers/{driver}"), path.join("driver")).unwrap();
        }
        let found = preflight(sysfs.path(), ADDRESS);
        (sysfs, found)
    }

    #[test]
    fn a_device_that_is_ready() {
        let (sysfs, found) = device(Some("17"), Some("vfio-pci"));
        let path = sysfs.path().join("bus/pci/devices").join(ADDRESS);
        assert_eq!(found.unwrap(), Found { path, group: 17 });
    }

    #[test]
    fn every_obstacle_has_a_remedy() {
        let text = |found: Result<Found, CardError>| found.unwrap_err().to_string();
        assert!(text(device(None, Some("vfio-pci")).1).contains("intel_iommu=on"));
        assert!(text(device(Some("17"), None).1)
            .contains("has no driver, not vfio-pci: verbena bind 0000:01:00.0"));
        assert!(text(device(Some("17"), Some("mlx5_core")).1).contains("the driver mlx5_core"));
        assert!(text(device(Some("x"), Some("vfio-pci")).1).contains("a number was expected"));
        let (sysfs, found) = device(Some("17"), Some("vfio-pci"));
        let group = sysfs.path().join("bus/kernel/iommu_groups/17/devices/0000:01:00.1");
        found.unwrap();
        fs::create_dir_all(&group).unwrap();
        symlink("../drivers/e1000e", group.join("driver")).unwrap();
        let devices = sysfs.path().join("bus/pci/devices");
        fs::remove_file(devices.join(ADDRESS).join("iommu_group")).unwrap();
        symlink(group.parent().unwrap().parent().unwrap(), devices.join(ADDRESS).join("iommu_group"))
            .unwrap();
        let error = preflight(sysfs.path(), ADDRESS).unwrap_err().to_string();
        assert!(error.contains("not viable") && error.ends_with("verbena bind 0000:01:00.1"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        assert!(text(preflight(empty.path(), ADDRESS)).contains("no PCI device"));
        for wrong in ["01:00.0", "0000:01:00:0", "../../../../x", ""] {
            assert!(text(preflight(empty.path(), wrong)).contains("is not a PCI address"), "{wrong}");
        }
    }
}
