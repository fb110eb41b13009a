//! The medium `tap:NAME`: the card is the host at the other end of the network interface NAME of the kernel.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::event::PollFlags;

use super::ethernet::{Found, Wire};
use super::interface_link::InterfaceLink;
use super::message::mtu_of;
use super::opened::path_mtu;
use super::station::Host;
use crate::address::Guids;
use crate::packet::PortId;

/// The number of the link of an interface that is in another namespace now: no other link has it.
const MOVED: u64 = 0;

/// A TAP interface, held.
struct Tap {
    file: File,
    link: InterfaceLink,
}

/// Opens it.
pub(super) fn open(card: (PortId, Guids), name: &str) -> Found {
    let file = open_tap(name, libc::IFF_TAP | libc::IFF_NO_PI).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("the interface {name} may be opened by root, or after `ip tuntap add {name} mode tap user USER`")
            }
            io::ErrorKind::ResourceBusy => format!("another program has the interface {name}"),
            io::ErrorKind::InvalidInput if mtu_of(name).is_ok() => {
                format!("{name} is no TAP interface, or has several queues: use `packet:{name}` for any other")
            }
            _ => format!("opening the interface {name} by /dev/net/tun"),
        };
        (what, error)
    })?;
    let link = InterfaceLink::of(name);
    let link = link.map_err(|error| (format!("asking whether the interface {name} is up"), error))?;
    Ok((Box::new(Tap { file, link }), Host::own(card, path_mtu(mtu_of(name).unwrap_or(1500)))))
}

/// Opens a TAP interface of this process's network namespace, or makes it, with these flags (IFF_TAP and others). Reads and
/// writes do not wait. Errors are those of open(2) of /dev/net/tun, and of TUNSETIFF.
pub fn open_tap(name: &str, flags: libc::c_int) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open("/dev/net/tun")?;
    let mut request = request();
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a network interface"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as i16;
    interface(&file, libc::TUNSETIFF as _, &mut request)?;
    Ok(file)
}

/// The name that the interface of a file has now. An error: it is no more.
pub fn tap_name(file: &File) -> io::Result<String> {
    let mut request = request();
    interface(file, libc::TUNGETIFF as _, &mut request)?;
    let name = request.ifr_name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
    Ok(String::from_utf8_lossy(&name.collect::<Vec<_>>()).into_owned())
}

fn request() -> libc::ifreq {
    // SAFETY: zero is a value of every field.
    unsafe { std::mem::zeroed() }
}

/// Sets the interface of a file, or asks for it.
fn interface(file: &File, operation: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the kernel reads and writes the request only, during the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), operation, request) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Wire for Tap {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        [self.file.as_fd(), self.link.as_fd()].map(|own| (own, PollFlags::IN)).into()
    }

    fn link(&mut self) -> Option<u64> {
        let link = self.link.look();
        // Where an interface is moved to, its file works as before.
        let moved = self.link.is_gone() && tap_name(&self.file).is_ok();
        if moved {
            Some(MOVED)
        } else {
            link
        }
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.file.write(frame).map(drop)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.file.read(into) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}
