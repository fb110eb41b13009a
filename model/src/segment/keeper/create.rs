//! A new segment: the file, its header and its lock.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::event::{eventfd, EventfdFlags};
use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};

use super::error::KeeperError;
use crate::segment::layout::{
    Header, Layout, KEEPER_MEMBER, LAYOUT_VERSION, MAGIC, MEMBER_ACTIVE, WORLD_OFFSET,
};
use crate::segment::{registry, Segment};
use std::sync::atomic::Ordering;

/// What the keeper hands to members.
pub(in crate::segment) struct Handles {
    pub(in crate::segment) memfd: OwnedFd,
    pub(in crate::segment) wake: OwnedFd,
    /// By which ports send to the outside.
    pub(in crate::segment) sockets: Vec<OwnedFd>,
}

/// Makes a segment that no other process knows yet.
pub(in crate::segment) fn segment(
    world_bytes: u64,
    heap_bytes: u64,
    sockets: Vec<OwnedFd>,
) -> Result<(Segment, Handles), KeeperError> {
    let layout = Layout::new(world_bytes, heap_bytes)
        .filter(|layout| i64::try_from(layout.total_bytes()).is_ok())
        .ok_or(KeeperError::HeapTooLarge(heap_bytes))?;
    let total = layout.total_bytes();
    let system = |what| move |error: rustix::io::Errno| KeeperError::system(what, error.into());
    registry::check_file_limit(total)
        .map_err(|error| KeeperError::system("making the cards' memory", error))?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = memfd_create("verbena", flags).map_err(system("making the cards' memory"))?;
    ftruncate(&memfd, total).map_err(system("making the cards' memory"))?;
    // A member that shortened the file would kill the others with SIGBUS.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    fcntl_add_seals(&memfd, seals).map_err(system("sealing the cards' memory"))?;
    let wake =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("making an eventfd"))?;

    let copy =
        |fd: &OwnedFd| fd.try_clone().map_err(|error| KeeperError::system("copying a descriptor", error));
    let own = sockets.iter().map(copy).collect::<Result<_, _>>()?;
    let segment = registry::enter_segment(copy(&memfd)?, copy(&wake)?, None, own, total, KEEPER_MEMBER)
        .map_err(|error| KeeperError::system("mapping the cards' memory (ulimit -v?)", error))?;
    let header = segment.base.cast::<Header>();
    // SAFETY: the mapping is at least as large as the tables, and no other process
    // has the file yet.
    unsafe {
        (*header).magic = MAGIC;
        (*header).version = LAYOUT_VERSION;
        (*header).keeper_pid = std::process::id();
        (*header).total_bytes = total;
        (*header).world_bytes = layout.world_bytes;
        (*header).heap_offset = WORLD_OFFSET + layout.world_bytes;
        (*header).heap_bytes = layout.heap_bytes;
    }
    segment.sized(layout.world_bytes);
    let tables = segment.tables();
    tables.header.controls[0].generation.store(1, Ordering::Relaxed);
    let timers = &tables.header.timers;
    timers.next_deadline.store(u64::MAX, Ordering::Relaxed);
    let keeper = &tables.members[usize::from(KEEPER_MEMBER)];
    keeper.pid.store(std::process::id(), Ordering::Relaxed);
    keeper.state.store(MEMBER_ACTIVE, Ordering::Release);
    Ok((segment, Handles { memfd, wake, sockets }))
}
