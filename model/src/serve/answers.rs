//! What every client is answered alike: the protocol's version, the device's regions and interrupts.

use std::os::fd::{AsRawFd, OwnedFd};

use fpga_regs::vfio_user::{
    irq, region, DeviceInfo, IrqInfo, RegionAccess, RegionInfo, Version, MAJOR, MAX_DATA, MAX_FDS, MINOR,
};

use super::function::Function;
use super::maps::MAX_MAPS;
use super::refused::Refused;
use crate::attach::VECTORS;

/// The answer to a command: the body of the reply, or why it is refused.
pub(super) type Answer = Result<Vec<u8>, Refused>;

pub(super) fn device_info(body: &[u8]) -> Answer {
    parse(DeviceInfo::decode(body))?;
    let argsz = DeviceInfo::BYTES as u32;
    Ok(DeviceInfo { argsz, flags: 1 | 2, regions: region::COUNT, irqs: irq::COUNT }.encode().to_vec())
}

pub(super) fn version(body: &[u8]) -> Answer {
    let (version, _) = parse(Version::decode(body))?;
    if (version.major, version.minor) != (MAJOR, MINOR) {
        let asked =
            format!("protocol {}.{} is not known, only {MAJOR}.{MINOR}", version.major, version.minor);
        // A lower minor version than the client's is for the client to accept.
        if version.major != MAJOR {
            return Err(Refused::new(libc::ENOTSUP, asked));
        }
    }
    let capabilities = format!(
        r#"{{"capabilities":{{"max_msg_fds":{MAX_FDS},"max_data_xfer_size":{MAX_DATA},"pgsizes":4096,"max_dma_maps":{MAX_MAPS}}}}}"#
    );
    let mut reply = Version { major: MAJOR, minor: MINOR }.encode().to_vec();
    reply.extend(capabilities.as_bytes());
    reply.push(0);
    Ok(reply)
}

/// The fewest data bytes in a message that a client may ask for: a queue entry's. Fewer would only keep the card busy.
const LEAST_DATA: usize = 64;

/// How many data bytes the client takes in one message, by the capabilities of its VERSION: JSON, of which nothing else
/// matters here.
pub(super) fn most_data(version: &[u8]) -> Result<usize, Refused> {
    let number = |text: &str| {
        let value = text.split_once("\"max_data_xfer_size\"")?.1.trim_start().strip_prefix(':')?.trim_start();
        value.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    match number(&String::from_utf8_lossy(version)).unwrap_or(MAX_DATA) {
        ..LEAST_DATA => Err(Refused::invalid(format!("max_data_xfer_size is less than {LEAST_DATA}"))),
        most => Ok(most.min(MAX_DATA)),
    }
}

/// The structure of a body, or the refusal of a body that is too short for it.
pub(super) fn parse<T>(decoded: Option<T>) -> Result<T, Refused> {
    decoded.ok_or(Refused::invalid("the message is too short"))
}

/// Refuses an access that is not inside its region.
pub(super) fn check(access: &RegionAccess) -> Result<(), Refused> {
    let bytes = Function::region_bytes(access.region);
    let inside = access.offset.checked_add(u64::from(access.count)).is_some_and(|end| end <= bytes);
    if !inside || access.count == 0 || access.count as usize > MAX_DATA {
        let RegionAccess { offset, region, count } = access;
        return Err(Refused::invalid(format!(
            "{count} bytes at {offset:#x} are not inside region {region} ({bytes} bytes)"
        )));
    }
    Ok(())
}

pub(super) fn region_info(body: &[u8]) -> Answer {
    let (asked, _) = parse(RegionInfo::decode(body))?;
    if asked.index >= region::COUNT {
        return Err(Refused::invalid(format!("there is no region {}", asked.index)));
    }
    let size = Function::region_bytes(asked.index);
    let flags = if size == 0 { 0 } else { 1 | 2 };
    let argsz = RegionInfo::BYTES as u32;
    let offset = u64::from(asked.index) << 40;
    Ok(RegionInfo { argsz, flags, index: asked.index, cap_offset: 0, size, offset }.encode().to_vec())
}

pub(super) fn irq_info(body: &[u8]) -> Answer {
    let (asked, _) = parse(IrqInfo::decode(body))?;
    if asked.index >= irq::COUNT {
        return Err(Refused::invalid(format!("there is no interrupt type {}", asked.index)));
    }
    let count = if asked.index == irq::MSIX { VECTORS as u32 } else { 0 };
    Ok(IrqInfo { argsz: IrqInfo::BYTES as u32, flags: 1, index: asked.index, count }.encode().to_vec())
}

/// Whether a descriptor is an eventfd: a write to anything else could block or kill this process.
pub(super) fn is_eventfd(fd: &OwnedFd) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
}
