//! A TAP interface, whose frames have a header of their own (struct virtio_net_hdr): the kernel leaves checksums to us, and
//! takes our word for those that the card has found right.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{bail, Context, Result};
use model::address;
use model::link::outside::open_tap;
use model::packet::PortId;
use model::wire::checksum::checksum;

use crate::launch::network::{add_address, raise, set_link, IPV4_PREFIX, IPV6_PREFIX};
use crate::launch::rtnetlink::Route;

/// Bytes of the header.
const HEADER: usize = 10;
/// Of its first byte (linux/virtio_net.h): the checksum is to be filled in; it is right.
const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
/// From linux/if_tun.h.
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
const TUN_F_CSUM: libc::c_ulong = 1;

/// An interface, held. It goes with this, unless it was there before.
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Makes the interface in this process's network namespace, or takes one that `ip tuntap add` has made.
    pub fn open(name: &str) -> Result<Tap> {
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let file = match open_tap(name, flags) {
            Ok(file) => file,
            Err(error) => bail!("making the interface {name}: {error}; {}", remedy(&error, name)),
        };
        // SAFETY: a descriptor of ours, and a number.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, TUN_F_CSUM) } < 0 {
            return Err(io::Error::last_os_error()).context("leaving checksums to the card");
        }
        Ok(Tap { file, name: name.to_owned() })
    }

    /// Gives it the MAC of a port, and raises it; `own`: with the port's addresses.
    pub fn configure(&self, port: PortId, mtu: u32, own: bool) -> Result<()> {
        let set = || -> Result<()> {
            let name = CString::new(self.name.as_str())?;
            // SAFETY: a C string.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let route = Route::open(0)?;
            set_link(&route, index, port.mac(), mtu).context("its MAC and MTU")?;
            // Without waiting whether somebody else has the address. Without IPv6 there is none.
            let [ipv6, ipv4] = [0, 1].map(|entry| address::gid(port, entry));
            let _ = add_address(&route, index, Ipv6Addr::from(ipv6).into(), IPV6_PREFIX);
            let [.., a, b, c, d] = ipv4;
            let ipv4: IpAddr = Ipv4Addr::new(a, b, c, d).into();
            if own {
                add_address(&route, index, ipv4, IPV4_PREFIX)
                    .with_context(|| format!("its address {ipv4}"))?;
            }
            raise(&route, index)
        };
        set().with_context(|| format!("setting up the interface {} (root may)", self.name))
    }

    /// It has a carrier or not. Kernels before 5.0 show one always.
    pub fn set_carrier(&self, up: bool) {
        let up = libc::c_int::from(up);
        // SAFETY: the kernel reads the number during the call.
        unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const up) };
    }

    /// Takes the next frame that the kernel sends, with all its checksums; gives its length. `None`: there is none now.
    pub fn read(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let mut header = [0; HEADER];
            let got = (&self.file).read_vectored(&mut [IoSliceMut::new(&mut header), IoSliceMut::new(frame)]);
            match got {
                Ok(got) if got > HEADER && got - HEADER <= frame.len() => {
                    let frame = &mut frame[..got - HEADER];
                    if header[0] & NEEDS_CSUM == 0 || fill(frame, &header) {
                        return Ok(Some(frame.len()));
                    }
                }
                // Longer than a frame of the card may be.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives a frame to the kernel; `good`: its checksums are right. An interface that is down, or a kernel without memory,
    /// loses it.
    pub fn write(&self, frame: &[u8], good: bool) -> io::Result<()> {
        let mut header = [0; HEADER];
        header[0] = if good { DATA_VALID } else { 0 };
        match (&self.file).write_vectored(&[IoSlice::new(&header), IoSlice::new(frame)]) {
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Err(error),
            _ => Ok(()),
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Fills in the checksum that the header asks for: over all from a place on, to be put at another. False if there is no
/// such place.
fn fill(frame: &mut [u8], header: &[u8; HEADER]) -> bool {
    let word = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let (start, at) = (word(6), word(6) + word(8));
    if at + 2 > frame.len() {
        return false;
    }
    // It has the sum of the pseudo header there. 0 would mean that there is none.
    let sum = match checksum(&frame[start..]) {
        0 => 0xffff,
        sum => sum,
    };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// What to do when the interface cannot be made.
fn remedy(error: &io::Error, name: &str) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            "there is no /dev/net/tun: load the module tun, or start the container with --device /dev/net/tun".into()
        }
        Some(libc::EACCES) => "/dev/net/tun is root's here: run this as root".into(),
        Some(libc::EPERM) => format!(
            "this needs root, or CAP_NET_ADMIN in the network namespace; root can also make the interface for a user: ip tuntap add {name} mode tap user USER"
        ),
        Some(libc::EBUSY) => "another program has it: take another name".into(),
        _ => "there may be an interface of another kind with this name: take another name".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_completed_where_the_kernel_says() {
        // Sixteen bits from 4 on; the pseudo header's sum is 1.
        let mut frame = [9, 9, 9, 9, 0x12, 0x34, 0, 1, 0xff];
        let mut header = [0; HEADER];
        header[6..8].copy_from_slice(&4u16.to_ne_bytes());
        header[8..10].copy_from_slice(&2u16.to_ne_bytes());
        assert!(fill(&mut frame, &header));
        // 0x1234 + 1 + 0xff00 = 0x11135, which folds to 0x1136.
        assert_eq!(frame[6..8], (!0x1136u16).to_be_bytes());
        header[8..10].copy_from_slice(&4u16.to_ne_bytes());
        assert!(!fill(&mut frame, &header), "beyond the end");
    }
}
