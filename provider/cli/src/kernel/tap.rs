//! A TAP interface, whose frames have a header of their own (struct virtio_net_hdr): the kernel leaves checksums to us, and
//! takes our word for those that the card has found right. TCP that is longer than a frame passes in both directions.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use anyhow::{bail, Context, Result};
use fpga_regs::{MAX_FRAME, MAX_TSO_HEADER};
use model::link::outside::{open_tap, tap_name};
use model::packet::PortId;
use model::wire::checksum::Partial;
use model::wire::segments::Template;
use model::wire::virtio_net::VirtioNetHeader;
use netlink_packet_route::link::{LinkAttribute, LinkFlags};
use rustix::net::netdevice::name_to_index;

use crate::launch::network::{add_address, addresses, get_link, raise, set_link};
use crate::launch::rtnetlink::{is, Route};

use super::merge::{Message, PIECES};

/// From linux/if_tun.h.
const TUNSETCARRIER: libc::Ioctl = 0x4004_54e2;
const TUNGETDEVNETNS: libc::Ioctl = 0x54e3;
const TUN_F_CSUM: libc::c_ulong = 1;
const TUN_F_TSO4: libc::c_ulong = 2;
const TUN_F_TSO6: libc::c_ulong = 4;
const TUN_F_TSO_ECN: libc::c_ulong = 8;

/// A frame that the kernel sends, or TCP that is more than a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes.
    pub length: usize,
    /// How it is to be cut into frames.
    pub cut: Option<Cut>,
}

/// How TCP is to be cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of its headers.
    pub header: usize,
    /// Most bytes of data in a frame.
    pub mss: u16,
}

/// A queue of an interface, which goes with the last of them, unless it was there before.
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Makes the interface in this process's network namespace, or takes one that `ip tuntap add` has made; gives its queues.
    /// `tso`: it may give TCP that is to be cut into frames.
    pub fn open(name: &str, tso: bool, queues: u16) -> Result<Vec<Tap>> {
        (0..queues).map(|_| Tap::open_queue(name, tso, queues > 1)).collect()
    }

    fn open_queue(name: &str, tso: bool, of_several: bool) -> Result<Tap> {
        let several = if of_several { libc::IFF_MULTI_QUEUE } else { 0 };
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several;
        let file = match open_tap(name, flags) {
            Ok(file) => file,
            Err(error) => bail!("making the interface {name}: {error}; {}", remedy(&error, name, of_several)),
        };
        let cuts = if tso { TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN } else { 0 };
        // SAFETY: a descriptor of ours, and a number.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, TUN_F_CSUM | cuts) } < 0 {
            return Err(io::Error::last_os_error()).context("leaving checksums to the card");
        }
        Ok(Tap { file, name: name.to_owned() })
    }

    /// The network namespace that the interface is in. Kernels since 5.2 know.
    pub fn namespace(&self) -> Result<OwnedFd> {
        // SAFETY: a descriptor of ours; the request has no argument.
        let fd = unsafe { libc::ioctl(self.file.as_raw_fd(), TUNGETDEVNETNS) };
        if fd < 0 {
            return Err(io::Error::last_os_error()).context("where the interface is");
        }
        // SAFETY: the kernel has just made it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// The kernel's number of the interface, in its namespace, which this process is to be in.
    pub fn index(&self) -> Result<u32> {
        // Its users may have renamed it, and given its name to another.
        Ok(name_to_index(UnixDatagram::unbound()?, &tap_name(&self.file)?)?)
    }

    /// Gives it the MAC of a port, and raises it; `own`: with the port's addresses. Of one that was there before, what only root may
    /// change stays as root has set it.
    pub fn configure(&self, port: PortId, mtu: u32, own: bool) -> Result<()> {
        let set = || -> Result<()> {
            let index = self.index()?;
            let route = Route::open(0)?;
            let mac_and_mtu = vec![LinkAttribute::Address(port.mac().to_vec()), LinkAttribute::Mtu(mtu)];
            or_stays(set_link(&route, index, mac_and_mtu)).context("its MAC and MTU")?;
            // Without waiting whether somebody else has the address. Without IPv6 there is none.
            let [ipv6, ipv4] = addresses(port);
            let _ = add_address(&route, index, ipv6);
            if own {
                or_stays(add_address(&route, index, ipv4)).with_context(|| format!("its address {ipv4}"))?;
            }
            raise(&route, index).or_else(|error| match is(&error, libc::EPERM) && is_up(&route, index)? {
                true => Ok(()),
                false => Err(error).with_context(|| format!("bringing it up: ip link set {} up", self.name)),
            })
        };
        set().with_context(|| format!("setting up the interface {} (root may)", self.name))
    }

    /// It has a carrier or not. Kernels before 5.0 show one always.
    pub fn set_carrier(&self, up: bool) {
        let up = libc::c_int::from(up);
        // SAFETY: the kernel reads the number during the call.
        unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER, &raw const up) };
    }

    /// Takes the next frame that the kernel sends, with all its checksums but where it is to be cut. `None`: there is none now.
    pub fn read(&self, frame: &mut [u8]) -> io::Result<Option<Sent>> {
        loop {
            let mut header = [0; VirtioNetHeader::BYTES];
            let got = (&self.file).read_vectored(&mut [IoSliceMut::new(&mut header), IoSliceMut::new(frame)]);
            match got {
                Ok(got) if (1..=frame.len()).contains(&got.saturating_sub(header.len())) => {
                    let frame = &mut frame[..got - header.len()];
                    if let Some(sent) = finish(frame, &VirtioNetHeader::decode(&header)) {
                        return Ok(Some(sent));
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

    /// Gives the kernel a message. An interface that is down, or a kernel without memory, loses it.
    pub fn write(&self, message: &Message<'_>) -> io::Result<()> {
        let mut header = VirtioNetHeader::default();
        if let Some(cut) = message.cut {
            (header.hdr_len, header.gso_size) = (cut.header as u16, cut.mss);
            header.gso_type =
                if message.is_ipv4 { VirtioNetHeader::GSO_TCPV4 } else { VirtioNetHeader::GSO_TCPV6 };
        }
        // What is left to the kernel it takes for right. A flag that says that it is (DATA_VALID) is nothing to this driver of it.
        if let Some(Partial { start, field, .. }) = message.partial {
            (header.csum_start, header.csum_offset) = (start as u16, (field - start) as u16);
            header.flags = VirtioNetHeader::NEEDS_CSUM;
        }
        let header = header.encode();
        let sum = message.partial.map_or([0; 2], |partial| partial.pseudo.to_be_bytes());
        let mut pieces = Vec::with_capacity(PIECES);
        pieces.push(IoSlice::new(&header));
        message.pieces(&sum, &mut pieces);
        match (&self.file).write_vectored(&pieces) {
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

/// Does what the header asks for, or notes how the card is to cut a frame; `None` for what cannot be sent.
fn finish(frame: &mut [u8], header: &VirtioNetHeader) -> Option<Sent> {
    let length = frame.len();
    if matches!(header.gso(), VirtioNetHeader::GSO_TCPV4 | VirtioNetHeader::GSO_TCPV6) {
        return Some(Sent { length, cut: Some(cut(frame, header)?) });
    }
    // Not cut: longer than a frame it is only then.
    (length <= MAX_FRAME as usize && header.finish(frame)).then_some(Sent { length, cut: None })
}

/// The headers of TCP end behind where its checksum begins, which the kernel says; what it says of their length is a hint.
fn cut(frame: &[u8], header: &VirtioNetHeader) -> Option<Cut> {
    let (mss, start) = (header.gso_size, usize::from(header.csum_start));
    let end = start + usize::from(frame.get(start + 12)? >> 4) * 4;
    let headers = frame.get(..end)?;
    let good = mss != 0 && end <= MAX_TSO_HEADER && Template::of(headers).is_some();
    let fits = end + usize::from(mss) <= MAX_FRAME as usize;
    (good && fits).then_some(Cut { header: end, mss })
}

/// Whether an interface is up.
fn is_up(route: &Route, index: u32) -> Result<bool> {
    Ok(get_link(route, index)?.is_some_and(|link| link.header.flags.contains(LinkFlags::Up)))
}

/// EPERM and EEXIST: an interface that root made stays as it is. Who may make one may set it up, too.
fn or_stays(changed: Result<()>) -> Result<()> {
    let is_of_before = |error: &_| [libc::EPERM, libc::EEXIST].into_iter().any(|errno| is(error, errno));
    changed.or_else(|error| if is_of_before(&error) { Ok(()) } else { Err(error) })
}

/// What to do when the interface cannot be made.
fn remedy(error: &io::Error, name: &str, several: bool) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            "there is no /dev/net/tun: load the module tun, or start the container with --device /dev/net/tun".into()
        }
        Some(libc::EACCES) => "/dev/net/tun is root's here: run this as root".into(),
        Some(libc::EPERM) => format!(
            "this needs root, or CAP_NET_ADMIN in the network namespace; root can also make the interface for a user: ip tuntap add {name} mode tap user USER"
        ),
        Some(libc::EBUSY) => "another program has it: take another name".into(),
        Some(libc::EINVAL) if several => {
            "the interface of this name was made without the word multi_queue (make it with it, or leave out --queues), or is of another kind (take another name)".into()
        }
        Some(libc::EINVAL) => {
            "the interface of this name was made with the word multi_queue (give --queues 2 or more, or make it without it), or is of another kind (take another name)".into()
        }
        _ => "there may be an interface of another kind with this name: take another name".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_a_frame_is_cut_by_the_card() {
        let mut frame = vec![0; 30_000];
        (frame[12], frame[14], frame[23], frame[46]) = (8, 0x45, 6, 0x80);
        let header = VirtioNetHeader {
            flags: VirtioNetHeader::NEEDS_CSUM,
            gso_type: VirtioNetHeader::GSO_TCPV4 | VirtioNetHeader::GSO_ECN,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
            ..VirtioNetHeader::default()
        };
        let sent = Sent { length: 30_000, cut: Some(Cut { header: 66, mss: 1448 }) };
        assert_eq!(finish(&mut frame, &header), Some(sent));
        for wrong in [
            VirtioNetHeader { gso_size: 0, ..header },
            VirtioNetHeader { csum_start: 36, ..header },
            VirtioNetHeader { gso_type: 0, ..header },
        ] {
            assert_eq!(finish(&mut frame, &wrong), None, "{wrong:?}");
        }
        frame[23] = 17;
        assert_eq!(finish(&mut frame, &header), None, "not TCP");
        let plain = VirtioNetHeader::default();
        assert_eq!(finish(&mut frame[..60], &plain), Some(Sent { length: 60, cut: None }));
    }
}
