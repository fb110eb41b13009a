//! Checks of the machine: shared memory, huge pages, limits, VFIO, and what
//! killed processes have left.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use memmap2::MmapOptions;
use model::segment::{AttachError, Segment};
use rustix::fs::MemfdFlags;
use rustix::process::Resource;

use super::finding::Finding;
use super::launch;
use crate::net::runtime;
use crate::pci;

/// Size of a segment; sparse, so it takes memory only where it is used.
const SEGMENT_BYTES: usize = 1 << 40;

/// All checks of this file.
pub fn checks() -> Vec<Finding> {
    vec![shared_memory(), huge_pages(), locked_memory(), open_files(), vfio(), runtime_directory(), sockets()]
}

fn shared_memory() -> Finding {
    match map_segment() {
        Ok(()) => Finding::ok("shared memory", "a sparse memfd of 1 TiB can be mapped"),
        Err(error) => Finding::fail(
            "shared memory",
            format!("{error:#}"),
            "lift the limits on address space and file size (ulimit -v unlimited; ulimit -f \
             unlimited), and on memory in the container",
        ),
    }
}

fn map_segment() -> Result<()> {
    let memfd = rustix::fs::memfd_create("verbena-doctor", MemfdFlags::CLOEXEC).context("memfd_create")?;
    rustix::fs::ftruncate(&memfd, SEGMENT_BYTES as u64).context("making it 1 TiB")?;
    MmapOptions::new().len(SEGMENT_BYTES).no_reserve_swap().map_raw(&memfd).context("mapping it")?;
    Ok(())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn huge_pages() -> Finding {
    let free = read("/proc/sys/vm/nr_hugepages").unwrap_or_else(|| "0".to_owned());
    let note = match free.as_str() {
        "0" => "; fine unless a program asks for them (perftest --use_hugepages: sysctl vm.nr_hugepages=64)",
        _ => "",
    };
    Finding::ok("huge pages", format!("{free} reserved{note}"))
}

fn locked_memory() -> Finding {
    let name = "ulimit -l";
    let limit = rustix::process::getrlimit(Resource::Memlock).current;
    match limit {
        // libibverbs itself warns from here down, and then continues.
        Some(bytes) if bytes <= 32 << 10 => Finding::warn(
            name,
            format!("{bytes} bytes of locked memory"),
            "ulimit -l unlimited: libibverbs prints a warning otherwise, and VFIO needs it",
        ),
        Some(bytes) => Finding::ok(name, format!("{} KiB of locked memory", bytes >> 10)),
        None => Finding::ok(name, "unlimited locked memory"),
    }
}

fn open_files() -> Finding {
    let name = "ulimit -n";
    match rustix::process::getrlimit(Resource::Nofile).current {
        Some(count) if count < 256 => Finding::warn(
            name,
            format!("{count} open files"),
            "ulimit -n 1024: each completion channel takes a descriptor",
        ),
        Some(count) => Finding::ok(name, format!("{count} open files")),
        None => Finding::ok(name, "unlimited open files"),
    }
}

fn vfio() -> Finding {
    let name = "VFIO";
    let groups = fs::read_dir("/sys/kernel/iommu_groups").map_or(0, |entries| entries.count());
    let usable = Path::new("/dev/vfio/vfio").exists();
    let found =
        format!("{groups} IOMMU groups, /dev/vfio/vfio is {}", if usable { "there" } else { "missing" });
    match (pci::first_card(), groups > 0 && usable) {
        (None, _) => Finding::ok(name, format!("{found}; no card on PCI, and the model needs neither")),
        (Some(slot), true) => Finding::ok(name, format!("{found}; card at {slot}")),
        (Some(slot), false) => Finding::warn(
            name,
            format!("{found}; the card at {slot} cannot be used"),
            "boot with intel_iommu=on (or the BIOS's VT-d/AMD-Vi) and modprobe vfio-pci",
        ),
    }
}

fn runtime_directory() -> Finding {
    let name = "runtime dir";
    match runtime::directory() {
        Ok(dir) => Finding::ok(name, dir.display().to_string()),
        Err(error) => Finding::fail(
            name,
            format!("{error:#}"),
            "set XDG_RUNTIME_DIR to a directory of yours, or clean /tmp",
        ),
    }
}

fn sockets() -> Finding {
    let name = "nets";
    let entries = runtime::directory().ok().and_then(|dir| fs::read_dir(dir).ok());
    let (mut running, mut stale, mut odd) = (Vec::new(), Vec::new(), Vec::new());
    for path in entries.into_iter().flatten().flatten().map(|e| e.path()) {
        if path.extension().is_none_or(|extension| extension != "sock") {
            continue;
        }
        let net = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // It is just ending.
        if net == launch::own_net() {
            continue;
        }
        match Segment::ask(&path) {
            Ok(()) => running.push(net),
            // It was just ending.
            Err(AttachError::Closed(_)) => {}
            Err(AttachError::NoKeeper(_)) => stale.push(path.display().to_string()),
            Err(error) => odd.push(format!("net `{net}`: {error}")),
        }
    }
    if !odd.is_empty() {
        return Finding::warn(
            name,
            odd.join("; "),
            "end the programs of that net, or choose another --net name",
        );
    }
    if !stale.is_empty() {
        return Finding::warn(
            name,
            format!("sockets without a keeper: {}", stale.join(" ")),
            format!("rm {} (the next run on that net does it too)", stale.join(" ")),
        );
    }
    match running.as_slice() {
        [] => Finding::ok(name, "none is running, nothing was left behind"),
        names => Finding::ok(name, format!("running: {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_can_be_mapped_here() {
        map_segment().unwrap();
    }
}
