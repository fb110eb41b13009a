//! The medium `packet:NAME`: the card is one more host on the link of the network interface NAME, beside the kernel.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{
    sendmsg, socket_with, sockopt, AddressFamily, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType,
};

use super::ethernet::{Found, Wire};
use super::interface_link::InterfaceLink;
use super::message::{mtu_of, set};
use super::opened::{path_mtu, Failed};
use super::station::Host;
use super::uncut::Uncut;
use crate::address::Guids;
use crate::packet::PortId;
use crate::wire::ethernet::{insert_tag_of, ADDRESSES, ETHERTYPE_VLAN};
use crate::wire::virtio_net::VirtioNetHeader;
use crate::wire::Ethernet;

/// Bytes of the longest message of TCP or UDP.
const LONGEST_MESSAGE: usize = 1 << 16;
/// Room for frames that have come, and for those that leave, if the system allows it.
const ROOM: usize = 8 << 20;

/// A packet socket of an interface.
struct Packet {
    socket: OwnedFd,
    /// The interface's number, which no later one of its name has.
    index: u32,
    link: InterfaceLink,
    /// What of a message has no place where a frame is wanted.
    rest: Vec<u8>,
    /// A message whose frames are given, and their tag.
    uncut: Option<(Uncut, Tag)>,
}

/// The tag that the kernel has taken out of a frame, with its EtherType.
type Tag = Option<(u16, u16)>;

/// What was read.
struct Read {
    /// Bytes that it had.
    len: usize,
    header: VirtioNetHeader,
    tag: Tag,
}

/// Opens it.
pub(super) fn open(card: (PortId, Guids), name: &str) -> Found {
    let mtu = mtu_of(name)
        .map_err(|error| (format!("there is no interface {name} here (`ip link` lists them)"), error))?;
    let host = Host::own(card, path_mtu(mtu));
    Ok((Box::new(Packet::new(name, host.mac)?), host))
}

impl Packet {
    fn new(name: &str, mac: [u8; 6]) -> Result<Packet, Failed> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None).map_err(|error| {
            let what = match error {
                Errno::PERM | Errno::ACCESS => {
                    "frames of an interface are for root, or a program with CAP_NET_RAW"
                }
                _ => "making a packet socket",
            };
            (what.to_owned(), error.into())
        })?;
        let failed = |error| (format!("opening the interface {name}"), error);
        let index = name_to_index(&socket, name).map_err(|error| failed(error.into()))?;
        let link = InterfaceLink::of(name).map_err(failed)?;
        let rest = vec![0; LONGEST_MESSAGE];
        let packet = Packet { socket, index, link, rest, uncut: None };
        packet.bind(mac).map_err(failed)?;
        Ok(packet)
    }

    /// Nothing comes before the last step.
    fn bind(&self, mac: [u8; 6]) -> io::Result<()> {
        // As much as the system allows, which is more for the administrator.
        let _ = sockopt::set_socket_recv_buffer_size_force(&self.socket, ROOM);
        let _ = sockopt::set_socket_send_buffer_size_force(&self.socket, ROOM);
        set(&self.socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Messages that the interface cuts itself, or has merged, come as a whole, and with checksums that it fills in: it says so then.
        set(&self.socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        // The kernel takes the tag of a VLAN out of each frame, and tells of it.
        set(&self.socket, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        self.take_for(mac)?;
        // Else the interface takes frames for its own address only.
        let promiscuous = libc::packet_mreq {
            mr_ifindex: self.index as i32,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&self.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, promiscuous)?;
        // SAFETY: zero is a value of every field.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = self.index as i32;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: an address of this length, read within the call.
        match unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// What comes from now on is for this host, and for groups.
    fn take_for(&self, mac: [u8; 6]) -> io::Result<()> {
        let mut filter = for_host(mac);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        set(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
    }

    /// Reads a frame or a message without waiting. What has no place in `into` is in `rest`.
    fn read(&mut self, into: &mut [u8]) -> Result<Read, Errno> {
        let mut control = [0u64; 8];
        let mut header = [0; VirtioNetHeader::BYTES];
        let mut parts = [&mut header[..], into, &mut self.rest]
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
        // SAFETY: zero is a value of every field.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        (message.msg_control, message.msg_controllen) =
            (control.as_mut_ptr().cast(), size_of_val(&control) as _);
        // SAFETY: the places have these lengths, and are written within the call.
        let length = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        if length < 0 {
            return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        let mut tag = None;
        // SAFETY: the kernel has written headers and what follows them within `control`; the macros stay there.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(found) = header.as_ref() {
                if (found.cmsg_level, found.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
                    let data: libc::tpacket_auxdata =
                        libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned();
                    let has = |status| data.tp_status & status != 0;
                    let kind =
                        if has(libc::TP_STATUS_VLAN_TPID_VALID) { data.tp_vlan_tpid } else { ETHERTYPE_VLAN };
                    tag = has(libc::TP_STATUS_VLAN_VALID).then_some((kind, data.tp_vlan_tci));
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        let len = (length as usize).saturating_sub(header.len());
        Ok(Read { len, header: VirtioNetHeader::decode(&header), tag })
    }
}

/// A filter that takes frames for a host and for groups: all others of a busy interface cost no copy.
fn for_host(mac: [u8; 6]) -> [libc::sock_filter; 8] {
    let load = |size: u32, at| libc::sock_filter {
        code: (libc::BPF_LD | size | libc::BPF_ABS) as u16,
        jt: 0,
        jf: 0,
        k: at,
    };
    let jump = |test: u32, k, jt, jf| libc::sock_filter {
        code: (libc::BPF_JMP | test | libc::BPF_K) as u16,
        jt,
        jf,
        k,
    };
    let end =
        |bytes| libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: bytes };
    let [a, b, c, d, e, f] = mac;
    [
        load(libc::BPF_B, 0),
        jump(libc::BPF_JSET, 1, 4, 0),
        load(libc::BPF_W, 0),
        jump(libc::BPF_JEQ, u32::from_be_bytes([a, b, c, d]), 0, 3),
        load(libc::BPF_H, 4),
        jump(libc::BPF_JEQ, u16::from_be_bytes([e, f]).into(), 0, 1),
        end(u32::MAX),
        end(0),
    ]
}

impl Wire for Packet {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        [self.socket.as_fd(), self.link.as_fd()].map(|own| (own, PollFlags::IN)).into()
    }

    fn link(&mut self) -> Option<u64> {
        self.link.look()
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()> {
        self.take_for(mac)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        // It is finished.
        let slices = [IoSlice::new(&[0; VirtioNetHeader::BYTES]), IoSlice::new(frame)];
        let mut nothing = SendAncillaryBuffer::default();
        Ok(sendmsg(&self.socket, &slices, &mut nothing, SendFlags::empty()).map(drop)?)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            if let Some((uncut, tag)) = &mut self.uncut {
                if let Some(len) = uncut.next(into) {
                    return Ok(Some(tagged(into, len, *tag)));
                }
                self.uncut = None;
            }
            match self.read(into) {
                Ok(Read { len, header, tag }) if header.gso() != 0 => {
                    let here = &into[..len.min(into.len())];
                    let rest = &self.rest[..(len - here.len()).min(LONGEST_MESSAGE)];
                    match Uncut::of(&[here, rest].concat(), &header) {
                        Some(uncut) => self.uncut = Some((uncut, tag)),
                        None => return Ok(Some(too_long(into))),
                    }
                }
                Ok(Read { len, header, tag }) => {
                    let fits = len + Ethernet::TAG_BYTES <= into.len() && header.finish(&mut into[..len]);
                    return Ok(Some(if fits { tagged(into, len, tag) } else { too_long(into) }));
                }
                Err(Errno::AGAIN) => return Ok(None),
                // A message of a kind that has no number in its header.
                Err(Errno::INVAL) => return Ok(Some(too_long(into))),
                Err(Errno::INTR) => {}
                // Down for a while, unless it is gone for good.
                Err(Errno::NETDOWN) if !self.link.is_gone() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Puts the tag into a frame of so many bytes; its length then.
fn tagged(into: &mut [u8], len: usize, tag: Tag) -> usize {
    let Some((kind, tci)) = tag.filter(|_| len >= ADDRESSES) else { return len };
    let len = len + Ethernet::TAG_BYTES;
    insert_tag_of(&mut into[..len], kind, tci);
    len
}

/// In place of what is no frame: one for nobody that is longer than any, and counted as such.
fn too_long(into: &mut [u8]) -> usize {
    into[..ADDRESSES].fill(0);
    into.len()
}
