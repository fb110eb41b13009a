//! PCI devices and their drivers, from sysfs: `verbena list`, `bind` and `unbind`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use fpga_regs::regs::{DEVICE_ID, VENDOR_ID};

use crate::net::daemon;
use crate::output;

const DRIVER: &str = "vfio-pci";
/// How long the kernel may take to bind.
const BINDING: Duration = Duration::from_secs(5);
/// How long it may take to open a group.
const OPENING: Duration = Duration::from_secs(2);

/// Options of `verbena list`.
#[derive(Args)]
pub struct ListArgs {
    /// All PCI devices, not only cards and what shares an IOMMU group with one
    #[arg(long)]
    all: bool,
}

/// Options of `verbena bind` and `unbind`.
#[derive(Args)]
pub struct BindArgs {
    /// PCI addresses, as `lspci -D` and `verbena list` show them
    #[arg(required = true, value_name = "PCI")]
    addresses: Vec<String>,
}

/// A PCI device as sysfs shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    address: String,
    vendor: u16,
    device: u16,
    group: Option<String>,
    driver: Option<String>,
}

/// Below this are `bus/pci` and what `dev` has of VFIO: another place in tests.
struct Machine {
    sysfs: PathBuf,
    dev: PathBuf,
}

impl Machine {
    fn this() -> Machine {
        Machine { sysfs: "/sys".into(), dev: "/dev".into() }
    }

    fn pci(&self) -> PathBuf {
        self.sysfs.join("bus/pci")
    }

    fn slot(&self, address: &str) -> Result<Slot> {
        // The name of a file below a directory, whatever was typed.
        let plain = address.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte));
        let dir = self.pci().join("devices").join(address);
        ensure!(
            plain && !address.starts_with('.') && !address.is_empty() && dir.is_dir(),
            "there is no PCI device {address}: see `verbena list --all`, and write it like 0000:01:00.0"
        );
        Ok(Slot {
            address: address.to_owned(),
            vendor: number(&dir.join("vendor")),
            device: number(&dir.join("device")),
            group: link_name(&dir.join("iommu_group")),
            driver: link_name(&dir.join("driver")),
        })
    }

    fn slots(&self) -> Result<Vec<Slot>> {
        let dir = self.pci().join("devices");
        let Ok(entries) = fs::read_dir(&dir) else {
            return Ok(Vec::new());
        };
        let mut slots = Vec::new();
        for entry in entries.flatten() {
            slots.push(self.slot(&entry.file_name().to_string_lossy())?);
        }
        slots.sort_by(|a, b| a.address.cmp(&b.address));
        Ok(slots)
    }

    /// Whether a program can open it, or what to do first.
    fn state(&self, slot: &Slot) -> String {
        let Some(group) = &slot.group else {
            return "no IOMMU group: switch the IOMMU on (BIOS: VT-d or AMD-Vi; kernel: intel_iommu=on)"
                .into();
        };
        if slot.driver.as_deref() != Some(DRIVER) {
            return format!("not for VFIO: verbena bind {}", slot.address);
        }
        let node = self.dev.join("vfio").join(group);
        match daemon::try_open(&node, OPENING) {
            Ok(None) => format!(
                "the kernel is busy with {} for more than {OPENING:?}: resetting a card that does not answer \
                 takes it a minute",
                node.display()
            ),
            Ok(Some(())) => "ready".into(),
            Err(error) => match error.raw_os_error() {
                Some(libc::EBUSY) => "in use by a program".into(),
                Some(libc::EACCES | libc::EPERM) => {
                    format!("no permission: sudo chown $USER {}", node.display())
                }
                _ => format!("{}: {error}", node.display()),
            },
        }
    }
}

impl Slot {
    fn is_card(&self) -> bool {
        (self.vendor, self.device) == (VENDOR_ID, DEVICE_ID)
    }
}

fn number(path: &Path) -> u16 {
    let text = fs::read_to_string(path).unwrap_or_default();
    u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap_or(0)
}

fn link_name(link: &Path) -> Option<String> {
    Some(fs::read_link(link).ok()?.file_name()?.to_string_lossy().into_owned())
}

pub fn list(args: ListArgs) -> Result<u8> {
    let machine = Machine::this();
    let slots = machine.slots()?;
    output::print(format_args!("{}", table(&machine, &slots, args.all)));
    Ok(0)
}

/// PCI address of the first card on this machine.
pub fn first_card() -> Option<String> {
    let slots = Machine::this().slots().unwrap_or_default();
    slots.into_iter().find(Slot::is_card).map(|slot| slot.address)
}

fn table(machine: &Machine, slots: &[Slot], all: bool) -> String {
    let cards = || slots.iter().filter(|slot| slot.is_card());
    let beside =
        |slot: &&Slot| slot.is_card() || slot.group.is_some() && cards().any(|card| card.group == slot.group);
    let shown: Vec<&Slot> = slots.iter().filter(|slot| all || beside(slot)).collect();
    let mut text = String::new();
    if cards().next().is_none() {
        text += &format!("no card ({VENDOR_ID:04x}:{DEVICE_ID:04x}) on PCI; `verbena run` needs none\n");
    }
    if shown.is_empty() {
        return text;
    }
    text += &format!("{:<14}{:<11}{:<7}{:<12}{}\n", "PCI", "ID", "GROUP", "DRIVER", "STATE");
    for slot in shown {
        let id = format!("{:04x}:{:04x}", slot.vendor, slot.device);
        let (group, driver) = (slot.group.as_deref().unwrap_or("-"), slot.driver.as_deref().unwrap_or("-"));
        let state = if slot.is_card() { machine.state(slot) } else { "no card".into() };
        text += &format!("{:<14}{id:<11}{group:<7}{driver:<12}{state}\n", slot.address);
    }
    text
}

pub fn bind(args: BindArgs) -> Result<u8> {
    let machine = Machine::this();
    for address in &args.addresses {
        bind_one(&machine, address)?;
        let slot = machine.slot(address)?;
        say!("{address}: {DRIVER}, IOMMU group {}", slot.group.as_deref().unwrap_or("none"));
    }
    Ok(0)
}

pub fn unbind(args: BindArgs) -> Result<u8> {
    let machine = Machine::this();
    for address in &args.addresses {
        unbind_one(&machine, address)?;
        let driver = machine.slot(address)?.driver;
        say!("{address}: {}", driver.as_deref().unwrap_or("no driver"));
    }
    Ok(0)
}

fn bind_one(machine: &Machine, address: &str) -> Result<()> {
    let slot = machine.slot(address)?;
    if slot.driver.as_deref() == Some(DRIVER) {
        return Ok(());
    }
    ensure!(slot.group.is_some(), "{address}: {}", machine.state(&slot));
    ensure!(
        machine.pci().join("drivers").join(DRIVER).is_dir(),
        "the kernel has no {DRIVER} driver: sudo modprobe {DRIVER}"
    );
    let dir = machine.pci().join("devices").join(address);
    write(&dir.join("driver_override"), DRIVER)?;
    if slot.driver.is_some() {
        write(&dir.join("driver/unbind"), address)?;
    }
    write(&machine.pci().join("drivers_probe"), address)?;
    let until = Instant::now() + BINDING;
    while machine.slot(address)?.driver.as_deref() != Some(DRIVER) {
        ensure!(
            Instant::now() <= until,
            "the kernel did not bind {address} to {DRIVER} within {BINDING:?}: see dmesg"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn unbind_one(machine: &Machine, address: &str) -> Result<()> {
    let slot = machine.slot(address)?;
    let dir = machine.pci().join("devices").join(address);
    if slot.driver.as_deref() == Some(DRIVER) {
        if machine.state(&slot) == "in use by a program" {
            // The kernel would wait for it, and this command could not be ended.
            bail!(
                "{address} is in use: end the program that has /dev/vfio/{} open first",
                slot.group.unwrap_or_default()
            );
        }
        write(&dir.join("driver/unbind"), address)?;
    }
    // Back to the driver that would have it, if there is one.
    write(&dir.join("driver_override"), "\n")?;
    write(&machine.pci().join("drivers_probe"), address)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| {
        let root = rustix::process::geteuid().is_root();
        format!("writing {}{}", path.display(), if root { "" } else { " (run this with sudo)" })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn machine() -> (tempfile::TempDir, Machine) {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine { sysfs: dir.path().join("sys"), dev: dir.path().join("dev") };
        fs::create_dir_all(machine.dev.join("vfio")).unwrap();
        let add = |address: &str, id: [&str; 2], group: Option<&str>, driver: Option<&str>| {
            let place = machine.pci().join("devices").join(address);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("vendor"), format!("0x{}\n", id[0])).unwrap();
            fs::write(place.join("device"), format!("0x{}\n", id[1])).unwrap();
            if let Some(group) = group {
                symlink(format!("../../kernel/iommu_groups/{group}"), place.join("iommu_group")).unwrap();
            }
            if let Some(driver) = driver {
                symlink(format!("../drivers/{driver}"), place.join("driver")).unwrap();
            }
        };
        add("0000:00:1f.2", ["8086", "2922"], Some("1"), Some("ahci"));
        add("0000:02:00.0", ["1bd4", "f10a"], Some("7"), Some("vfio-pci"));
        add("0000:02:00.1", ["8086", "1572"], Some("7"), None);
        add("0000:03:00.0", ["1bd4", "f10a"], Some("8"), None);
        add("0000:04:00.0", ["1bd4", "f10a"], None, None);
        fs::write(machine.dev.join("vfio/7"), "").unwrap();
        (dir, machine)
    }

    #[test]
    fn the_list_says_what_to_do() {
        let (_dir, machine) = machine();
        let text = table(&machine, &machine.slots().unwrap(), false);
        let line = |address: &str| text.lines().find(|line| line.starts_with(address)).unwrap_or_default();
        assert!(line("0000:02:00.0").contains("1bd4:f10a  7      vfio-pci    ready"), "{text}");
        assert!(line("0000:02:00.1").contains("no card"), "{text}");
        assert!(line("0000:03:00.0").ends_with("verbena bind 0000:03:00.0"), "{text}");
        assert!(line("0000:04:00.0").contains("intel_iommu=on"), "{text}");
        assert!(line("0000:00:1f.2").is_empty());
        assert!(table(&machine, &machine.slots().unwrap(), true).contains("ahci"));
        assert!(table(&machine, &[], false).contains("no card (1bd4:f10a)"));
    }

    #[test]
    fn what_cannot_be_bound_is_told_before_anything_is_changed() {
        let (_dir, machine) = machine();
        let why = |address: &str| bind_one(&machine, address).unwrap_err().to_string();
        assert!(why("0000:04:00.0").contains("intel_iommu=on"));
        assert!(why("0000:03:00.0").contains("modprobe vfio-pci"));
        assert!(why("../devices/0000:03:00.0").contains("no PCI device"));
        assert!(why("..").contains("no PCI device"));
        bind_one(&machine, "0000:02:00.0").unwrap();
        assert!(!machine.pci().join("devices/0000:03:00.0/driver_override").exists());
    }
}
