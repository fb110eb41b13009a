//! Namespaces of programs: a mount namespace for each, and a user namespace for all of a net where
//! the user may not mount otherwise. One for all, since the kernel copies
//! from a program to another of the same user namespace only.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use anyhow::{anyhow, bail, Context, Result};
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType, UnshareFlags};

const OWN_USER: &str = "/proc/self/ns/user";

/// Leaves the mount namespace, as root may.
pub fn enter_mount() -> Result<()> {
    unshare(UnshareFlags::NEWNS).context("unshare(CLONE_NEWNS)")
}

/// True where root may make a mount namespace, so that programs need no user namespace.
pub fn root_may_mount() -> bool {
    rustix::process::geteuid().is_root() && rehearse(enter_mount).is_ok()
}

/// Enters a new user namespace, keeping user and group as they are.
pub fn enter_user() -> Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    unshare(UnshareFlags::NEWUSER).context("unshare(CLONE_NEWUSER)")?;
    // Required before an unprivileged gid_map; missing on very old kernels.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).context("mapping the user")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).context("mapping the group")
}

/// Enters a user namespace of [`make_user`]: its user may, from outside.
pub fn join_user(namespace: BorrowedFd<'_>) -> Result<()> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::User)).context("setns(CLONE_NEWUSER)")
}

/// True in that user namespace.
pub fn in_user(namespace: BorrowedFd<'_>) -> Result<bool> {
    let (ours, theirs) = (fs::metadata(OWN_USER)?, rustix::fs::fstat(namespace)?);
    Ok((ours.dev(), ours.ino()) == (theirs.st_dev, theirs.st_ino))
}

/// A new user namespace, which exists while the descriptor is open or a process is in it.
pub fn make_user() -> Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    rehearse(|| {
        enter_user()?;
        let made = [File::open(OWN_USER)?];
        let passed = [made[0].as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&passed));
        sendmsg(&theirs, &[IoSlice::new(b"u")], &mut ancillary, SendFlags::empty())?;
        Ok(())
    })?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&ours, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut received = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut passed) => passed.next(),
        _ => None,
    });
    received.next().context("no user namespace was passed")
}

fn unshare(flags: UnshareFlags) -> std::io::Result<()> {
    // SAFETY: the flags name namespaces only, never CLONE_FILES, so no file
    // descriptor changes its meaning.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// Does `action` in a child process and says how it went. A user namespace
/// cannot be left again, so what may fail half-way is tried on a child first.
pub fn rehearse(action: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(std::io::Error::last_os_error()).context("making a pipe");
    }
    // SAFETY: pipe2() has just given us both descriptors, which have no other owner.
    let (mut reader, mut writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the launcher has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("starting a process"),
        0 => {
            let code = match action() {
                Ok(()) => 0,
                Err(error) => {
                    let _ = write!(writer, "{error:#}");
                    1
                }
            };
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(code) }
        }
        child => {
            drop(writer);
            let mut message = String::new();
            let _ = reader.read_to_string(&mut message);
            let mut status = 0;
            // SAFETY: `child` is ours and `status` is a valid place.
            while unsafe { libc::waitpid(child, &mut status, 0) } < 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(error).context("waiting for a process");
                }
            }
            match (status, message.is_empty()) {
                (0, _) => Ok(()),
                (_, false) => Err(anyhow!("{message}")),
                _ => bail!("the rehearsal ended with status {status:#x}"),
            }
        }
    }
}
