//! The files below `/sys/class/infiniband/NAME`, as the kernel writes them for a card with RoCE: for libibverbs,
//! `ibstat`, `ibstatus`, UCX, and scripts.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};

use super::slots::SlotPort;
use crate::files;
use model::gids::GidEntry;

use contract::shown::{firmware, rate_text, PORT_CAPABILITIES};

/// The directories of network interfaces.
pub const INTERFACES: &str = "/sys/devices/virtual/net";
/// A file of the kernel's that opens and cannot be read (EINVAL): the speed of a device that has none.
const UNREADABLE: &str = "/sys/devices/virtual/net/lo/speed";

/// Writes what the card says of itself.
pub fn write_card(dir: &Path, name: &str, kind: &str, guid: &[u8], version: u64) -> Result<()> {
    let guid = sysfs_text(guid);
    for (file, line) in [
        ("node_type", "1: CA"),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_desc", name),
        ("hca_type", kind),
        ("fw_ver", &firmware(version)),
        ("hw_rev", "1"),
        ("board_id", &format!("VERBENA_{}", board(kind))),
        ("device/vendor", "0x1bd4"),
        ("device/device", "0xf10a"),
        ("device/subsystem_vendor", "0x1bd4"),
        ("device/subsystem_device", "0xf10a"),
        ("device/class", "0x020000"),
        ("device/revision", "0x01"),
        ("device/numa_node", "-1"),
    ] {
        put(&dir.join(file), line)?;
    }
    Ok(())
}

/// Writes how a port's link is. Programs may be reading what was there.
pub fn write_link(dir: &Path, up: bool) -> Result<()> {
    let (state, phys) = match up {
        true => ("4: ACTIVE\n", "5: LinkUp\n"),
        false => ("1: DOWN\n", "3: Disabled\n"),
    };
    replace(&dir.join("phys_state"), Some(phys))?;
    replace(&dir.join("state"), Some(state))
}

/// Writes what a port says of itself, but for its link, its counters and its GID table.
pub fn write_port(dir: &Path, port: &SlotPort) -> Result<()> {
    for (file, line) in [
        ("link_layer", "Ethernet"),
        ("rate", &rate_text(port.mbps)),
        ("cap_mask", &format!("{PORT_CAPABILITIES:#010x}")),
        ("lid", "0x0"),
        ("lid_mask_count", "0"),
        ("sm_lid", "0x0"),
        ("sm_sl", "0"),
        ("pkeys/0", "0xffff"),
    ] {
        put(&dir.join(file), line)?;
    }
    Ok(())
}

/// Writes a port's GID table as it stays.
pub fn write_gids(dir: &Path, gids: &[GidEntry], interface: Option<&str>) -> Result<()> {
    gids.iter().enumerate().try_for_each(|(index, gid)| write_gid(dir, index, gid, interface))
}

/// Writes an entry of a port's GID table. Programs may be reading what was there.
pub fn write_gid(dir: &Path, index: usize, entry: &GidEntry, interface: Option<&str>) -> Result<()> {
    // The kernel answers EINVAL for an empty entry, which libibverbs knows; another error is one to it.
    let einval = || fs::read(UNREADABLE).is_err_and(|error| error.kind() == ErrorKind::InvalidInput);
    let hidden = entry.is_empty() && einval();
    let kind = dir.join(format!("gid_attrs/types/{index}"));
    let version = if entry.v1.get() { "IB/RoCE v1\n" } else { "RoCE v2\n" };
    replace(&kind, (!hidden).then_some(version))?;
    let device = dir.join(format!("gid_attrs/ndevs/{index}"));
    match interface {
        Some(name) => replace(&device, (!hidden).then_some(&format!("{name}\n")))?,
        None => replace(&device, Some(""))?,
    }
    // Last: who finds the GID finds the rest.
    replace(&dir.join(format!("gids/{index}")), Some(&format!("{}\n", sysfs_text(&entry.gid))))
}

/// Replaces a file by one with this text, or by one that cannot be read.
pub fn replace(path: &Path, text: Option<&str>) -> Result<()> {
    make_parent(path)?;
    let new = path.with_extension("new");
    match text {
        Some(text) => files::write(&new, text)?,
        None => link(Path::new(UNREADABLE), &new)?,
    }
    fs::rename(&new, path).with_context(|| format!("writing {}", path.display()))
}

/// A profile's name, or that of its file, in capitals.
fn board(kind: &str) -> String {
    let name = Path::new(kind).file_stem().unwrap_or_default();
    name.to_string_lossy().to_uppercase()
}

pub fn link(target: &Path, at: &Path) -> Result<()> {
    make_parent(at)?;
    symlink(target, at).with_context(|| format!("making {}", at.display()))
}

/// Groups of four hex digits between colons, as sysfs writes GUIDs and GIDs.
fn sysfs_text(bytes: &[u8]) -> String {
    let groups: Vec<String> =
        bytes.chunks(2).map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    groups.join(":")
}

/// Writes a file of one line.
pub fn put(path: &Path, line: &str) -> Result<()> {
    make_parent(path)?;
    files::write(path, format!("{line}\n"))
}

fn make_parent(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), files::make_directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::address::{gid, Guids};
    use model::packet::PortId;

    #[test]
    fn boards_are_named_by_their_profile() {
        assert_eq!(board("cx5-25g"), "CX5-25G");
        assert_eq!(board("/home/me/my card.toml"), "MY CARD");
    }

    #[test]
    fn addresses_are_written_as_sysfs_does() {
        let port = |card, port| PortId { card, port };
        assert_eq!(sysfs_text(&Guids::INSIDE.node(3)), "0056:42ff:fe00:0300");
        assert_eq!(sysfs_text(&gid(port(1, 0), 0)), "fe80:0000:0000:0000:0056:42ff:fe00:0100");
        assert_eq!(sysfs_text(&gid(port(1, 1), 1)), "0000:0000:0000:0000:0000:ffff:c612:0102");
    }
}
