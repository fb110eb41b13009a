//! Namespaces of one program: a mount namespace, and a user namespace where
//! the user may not mount otherwise.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use anyhow::{anyhow, bail, Context, Result};
use rustix::thread::UnshareFlags;

/// Leaves the mount namespace, as root may.
pub fn enter_mount() -> Result<()> {
    unshare(UnshareFlags::NEWNS).context("unshare(CLONE_NEWNS)")
}

/// Leaves mount and user namespace, keeping user and group as they are.
pub fn enter_user() -> Result<()> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).context("unshare(CLONE_NEWUSER|CLONE_NEWNS)")?;
    // Required before an unprivileged gid_map; missing on very old kernels.
    let _ = fs::write("/proc/self/setgroups", "deny");
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).context("mapping the user")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).context("mapping the group")
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
