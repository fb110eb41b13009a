//! The mounts that show the cards to a program: sysfs classes, device nodes
//! and the driver file.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{
    mount, mount_bind, mount_bind_recursive, mount_change, unmount, MountFlags, MountPropagationFlags,
    UnmountFlags,
};

use super::provider_so;
use super::tree::{Tree, LIVE};

/// Where libibverbs looks for driver files.
pub const CONFIG_DIR: &str = "/etc/libibverbs.d";
/// Where it looks for device nodes.
pub const NODE_DIR: &str = "/dev/infiniband";
/// Where Debian's DPDK looks for drivers: each release in a directory of its own, `pmds-23.0` for one.
const DPDK_DIR: &str = "/usr/lib/x86_64-linux-gnu/dpdk";
const CLASS_DIR: &str = "/sys/class";
const CLASSES: [&str; 2] = ["infiniband", "infiniband_verbs"];

/// Source name of every mount, by which `verbena down` knows them.
pub const SOURCE: &str = "verbena";

/// Whether there is a directory for driver files. Without one a program needs a variable that names the provider.
pub fn has_config_dir() -> bool {
    Path::new(CONFIG_DIR).is_dir()
}

/// Keeps later mounts out of the namespace that this one was copied from.
pub fn make_private() -> Result<()> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).context("making the mounts private")
}

/// Mounts the tree of `tree` over the system's paths. `staging` is an empty
/// directory; nothing of it stays visible.
pub fn show(tree: &Tree<'_>, staging: &Path) -> Result<()> {
    mount_tmpfs(staging)?;
    let shown = show_staged(tree, staging);
    // The binds keep the file system alive; the staging place is not needed.
    let detached = unmount(staging, UnmountFlags::DETACH);
    shown?;
    detached.with_context(|| format!("unmounting {}", staging.display()))
}

/// True when the cards of the net at `socket` are shown here.
pub fn shown(socket: &Path) -> bool {
    let file = Path::new(CLASS_DIR).join("infiniband/verbena0/verbena/socket");
    fs::read(file).is_ok_and(|bytes| bytes.trim_ascii() == socket.as_os_str().as_encoded_bytes())
}

fn show_staged(tree: &Tree<'_>, staging: &Path) -> Result<()> {
    tree.write(staging, Path::new(CONFIG_DIR))?;
    show_classes(staging)?;
    if tree.network {
        show_interfaces(staging);
    }
    show_live(tree)?;
    show_nodes(staging)?;
    show_to_dpdk(staging);
    match has_config_dir() {
        true => bind(&staging.join("ibverbs.d"), Path::new(CONFIG_DIR)),
        // No place for the driver file; the provider is named by a variable.
        false => tree.link_provider(Path::new(NODE_DIR)),
    }
}

fn show_classes(staging: &Path) -> Result<()> {
    let ours = staging.join("sys/class");
    let class = Path::new(CLASS_DIR);
    if !CLASSES.iter().all(|name| class.join(name).is_dir()) {
        // sysfs takes no new directory: lay ours under its class directory.
        if overlay(&ours, class).is_err() {
            let names = CLASSES.map(|name| name.to_owned());
            rebuild(class, &staging.join("class"), &names)?;
        }
    }
    // An overlay merges. Real cards, if any, would be opened as ours: hide them.
    for name in CLASSES {
        bind(&ours.join(name), &class.join(name))?;
    }
    Ok(())
}

/// A sysfs shows the interfaces of the network namespace in which it was mounted. Where none may be mounted (a container
/// that hides parts of its own), programs that read these files see the host's; all others are not concerned.
fn show_interfaces(staging: &Path) {
    let fresh = staging.join("interfaces");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if fs::create_dir(&fresh).is_ok() && mount(SOURCE, &fresh, "sysfs", flags, None).is_ok() {
        for directory in ["class/net", "devices/virtual/net"] {
            let _ = bind(&fresh.join(directory), &Path::new("/sys").join(directory));
        }
        // Not left to the staging place's own unmount, which a user namespace may refuse while this is on it.
        let _ = unmount(&fresh, UnmountFlags::DETACH);
    }
}

/// The files that the keeper writes.
fn show_live(tree: &Tree<'_>) -> Result<()> {
    let Some(live) = tree.live() else { return Ok(()) };
    let class = Path::new(CLASS_DIR).join(CLASSES[0]);
    let cards = (0..tree.cards).map(|card| format!("verbena{card}"));
    cards.into_iter().try_for_each(|card| bind(&live.join(&card), &class.join(&card).join(LIVE)))
}

fn show_nodes(staging: &Path) -> Result<()> {
    let nodes = Path::new(NODE_DIR);
    if !nodes.is_dir() && fs::create_dir(nodes).is_err() {
        rebuild(Path::new("/dev"), &staging.join("devices"), &["infiniband".to_owned()])?;
    }
    bind(&staging.join("dev"), nodes)
}

/// Lays the poll-mode driver beside those of each DPDK that is installed: EAL refuses one that its real path puts where
/// anybody may write. Where overlays are refused, a program has to name it with `-d`.
fn show_to_dpdk(staging: &Path) {
    let over = staging.join("dpdk");
    let Some(driver) = provider_so::find_pmd() else { return };
    let releases = fs::read_dir(DPDK_DIR).into_iter().flatten().flatten();
    let releases = releases.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"pmds-"));
    for drivers in releases.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let named = fs::create_dir_all(&over).and_then(|()| File::create(over.join(provider_so::PMD)));
        if named.is_ok()
            && overlay(&over, &drivers).is_ok()
            && bind(&driver, &drivers.join(provider_so::PMD)).is_err()
        {
            // An empty driver is none.
            let _ = unmount(&drivers, UnmountFlags::DETACH);
        }
    }
}

fn mount_tmpfs(target: &Path) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(SOURCE, target, "tmpfs", flags, Some(c"mode=0755"))
        .with_context(|| format!("mounting a tmpfs on {}", target.display()))
}

fn overlay(over: &Path, target: &Path) -> Result<()> {
    let options = format!("lowerdir={}:{}", over.display(), target.display());
    let options = std::ffi::CString::new(options)?;
    mount(
        SOURCE,
        target,
        "overlay",
        MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV,
        Some(options.as_c_str()),
    )
    .with_context(|| format!("mounting an overlay on {}", target.display()))
}

fn bind(from: &Path, to: &Path) -> Result<()> {
    mount_bind(from, to).with_context(|| format!("binding {} on {}", from.display(), to.display()))
}

/// Replaces `dir` by a copy made of binds, with more directories in it: for
/// places where we may mount but not write (and where overlays are refused or,
/// as on /dev, would not let devices be opened).
fn rebuild(dir: &Path, copy: &Path, more: &[String]) -> Result<()> {
    fs::create_dir_all(copy)?;
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), copy.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&to)?;
        } else {
            File::create(&to)?;
        }
        // A node that went away meanwhile is not worth failing for.
        let _ = mount_bind_recursive(&from, &to);
    }
    for name in more {
        fs::create_dir_all(copy.join(name))?;
    }
    mount_bind_recursive(copy, dir).with_context(|| format!("replacing {}", dir.display()))
}

/// Mount points of ours in this mount namespace, the newest last.
pub fn ours() -> Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("reading the mount table")?;
    Ok(parse_mountinfo(&table))
}

fn parse_mountinfo(table: &str) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| {
            let (place, origin) = line.split_once(" - ")?;
            let source = origin.split(' ').nth(1)?;
            let point = place.split(' ').nth(4)?;
            (source == SOURCE).then(|| PathBuf::from(point.replace("\\040", " ")))
        })
        .collect()
}

/// Removes one mount.
pub fn remove(point: &Path) -> Result<()> {
    unmount(point, UnmountFlags::DETACH).with_context(|| format!("unmounting {}", point.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_only_our_mounts() {
        let table = "\
22 1 254:0 / / rw - ext4 /dev/vda rw
60 25 0:50 / /sys/class ro,nosuid - overlay verbena ro,lowerdir=/a:/sys/class
61 60 0:49 /sys/class/infiniband /sys/class/infiniband rw shared:3 - tmpfs verbena rw
62 25 0:51 / /tmp/verbena rw - tmpfs tmpfs rw
";
        assert_eq!(parse_mountinfo(table), [Path::new("/sys/class"), Path::new("/sys/class/infiniband")]);
    }
}
