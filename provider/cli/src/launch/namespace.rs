//! Namespaces of programs: a mount namespace for each, a network namespace for all of a net, and a user namespace for
//! all of a net where the user may not mount otherwise. One for all, since the kernel copies from a program to another
//! of the same user namespace only.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use anyhow::{anyhow, bail, Context, Result};
use model::passing::{receive_with, send_with};
use rustix::thread::{
    capabilities, configure_capability_in_ambient_set, move_into_link_name_space, set_capabilities,
    CapabilitySet, LinkNameSpaceType, UnshareFlags,
};

/// A kind of namespace that the programs of a net share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of user ids and privileges.
    User,
    /// Of network interfaces, addresses and ports.
    Network,
}

impl Kind {
    /// The file that stands for the one of this process.
    pub fn of_this_process(self) -> &'static str {
        match self {
            Kind::User => "/proc/self/ns/user",
            Kind::Network => "/proc/self/ns/net",
        }
    }

    fn link_type(self) -> LinkNameSpaceType {
        match self {
            Kind::User => LinkNameSpaceType::User,
            Kind::Network => LinkNameSpaceType::Network,
        }
    }
}

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

/// Enters a new network namespace.
pub fn enter_network() -> Result<()> {
    unshare(UnshareFlags::NEWNET).context("unshare(CLONE_NEWNET)")
}

/// Enters a namespace: a user namespace of [`make_user`], which its user may do from outside, or one that
/// belongs to the user namespace entered.
pub fn join(namespace: BorrowedFd<'_>, kind: Kind) -> Result<()> {
    move_into_link_name_space(namespace, Some(kind.link_type()))
        .with_context(|| format!("setns({})", kind.of_this_process()))
}

/// True in that namespace.
pub fn is_in(namespace: BorrowedFd<'_>, kind: Kind) -> Result<bool> {
    let (ours, theirs) = (fs::metadata(kind.of_this_process())?, rustix::fs::fstat(namespace)?);
    Ok((ours.dev(), ours.ino()) == (theirs.st_dev, theirs.st_ino))
}

/// The namespace of that kind among `namespaces`.
pub fn find(namespaces: &[OwnedFd], kind: Kind) -> Option<BorrowedFd<'_>> {
    // The kernel's numbers are those of clone(2).
    let wanted = kind.link_type() as libc::c_int;
    // SAFETY: the request has no argument.
    let is = |fd: &&OwnedFd| unsafe { libc::ioctl(fd.as_raw_fd(), NS_GET_NSTYPE) } == wanted;
    namespaces.iter().find(is).map(AsFd::as_fd)
}

/// Lets the program that follows administer the network namespace, as root of a machine may: `ip`, `ping` and `tcpdump`
/// need that. All programs of a net get the same privileges, since the kernel lets no other read its memory.
pub fn keep_network_privileges() -> Result<()> {
    keep_privileges(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW)
}

/// Lets it make network namespaces and go between them besides, and hear of those where it is not.
pub fn keep_privileges_between_networks() -> Result<()> {
    let between = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_BROADCAST;
    keep_privileges(CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | between)
}

fn keep_privileges(kept: CapabilitySet) -> Result<()> {
    let mut sets = capabilities(None).context("reading the privileges")?;
    sets.inheritable |= kept;
    set_capabilities(None, sets).context("making privileges inheritable")?;
    for capability in kept.iter() {
        configure_capability_in_ambient_set(capability, true).context("keeping a privilege")?;
    }
    Ok(())
}

/// Asks a namespace's descriptor for its kind (ioctl_ns(2)).
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

/// A new user namespace, which exists while the descriptor is open or a process is in it.
pub fn make_user() -> Result<OwnedFd> {
    let [made] = made_by_a_child(|| {
        enter_user()?;
        Ok([File::open(Kind::User.of_this_process())?.into()])
    })?;
    Ok(made)
}

/// Takes over the descriptors that `make` has opened in a child process, since a namespace cannot be left again.
pub fn made_by_a_child<const N: usize>(make: impl FnOnce() -> Result<[OwnedFd; N]>) -> Result<[OwnedFd; N]> {
    let (ours, theirs) = UnixStream::pair()?;
    rehearse(|| {
        let made = make()?;
        let passed: Vec<_> = made.iter().map(AsFd::as_fd).collect();
        Ok(send_with(&theirs, b"d", &passed)?)
    })?;
    let (_, received) = receive_with(&ours, &mut [0], N)?;
    received.try_into().map_err(|_| anyhow!("the descriptors were not passed"))
}

fn unshare(flags: UnshareFlags) -> std::io::Result<()> {
    // SAFETY: the flags name namespaces only, never CLONE_FILES, so no file
    // descriptor changes its meaning.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// Does `action` in a child process and says how it went. A user namespace
/// cannot be left again, so what may fail half-way is tried on a child first.
pub fn rehearse(action: impl FnOnce() -> Result<()>) -> Result<()> {
    let (mut reader, mut writer) = UnixStream::pair().context("making a pair of sockets")?;
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
