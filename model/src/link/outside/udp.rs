//! The medium `udp:`: RoCEv2 packets in UDP datagrams of the kernel's sockets, which need no rights.
//!
//! The kernel writes Ethernet, IP and UDP headers, which the ICRC covers as far as routers do not change them. Packets that
//! leave together are given to it as one (UDP_SEGMENT); it numbers them in the IP identification, from 0, since the
//! sockets are not connected and do not allow fragments. Of a packet that comes it does not tell the identification:
//! [`Identifications`] finds the one that the ICRC fits.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::area::{Kind, OutsidePort, Setting};
use super::arrivals::Arrivals;
use super::batch::Batch;
use super::interface_link::AddressLink;
use super::message::{self, set};
use super::opened::{path_mtu, Failed, Opened, Receiver};
use crate::address::gid_of;
use crate::gids::GidEntry;
use crate::packet::PortId;
use crate::wire::ethernet::ETHERTYPE_ROCE;
use crate::wire::identification::Identifications;
use crate::wire::ipv4::PROTOCOL_UDP;
use crate::wire::udp::ROCE_PORT;
use crate::wire::{frame, icrc, Bth, DropReason, Ethernet, Frame, Ipv4, Ipv6, Network, Path, Udp};

/// Sockets by which a port sends: its flows have as many UDP source ports.
const SENDERS: usize = 4;
/// Source ports of RoCEv2 (annex A17.9.2).
const SPORTS: std::ops::RangeInclusive<u16> = 0xc000..=0xffff;
/// Room for what comes while the keeper is busy.
const RECEIVE_BUFFER: i32 = 32 << 20;
/// Room of a sender: several of the largest sends.
const SEND_BUFFER: i32 = 4 << 20;
/// Most bytes that a queue pair has on their way, and least.
const WINDOW: std::ops::RangeInclusive<usize> = 16 << 10..=1 << 20;
/// How long a full socket is waited for (ms), with the cards' lock.
const FULL: i64 = 20;
/// Packets of up to so many bytes are put one behind another: to look at each by itself costs the kernel more.
const SHORT: usize = 512;
/// Hop limit of what comes, which the kernel does not tell.
pub(super) const HOP_LIMIT: u8 = 64;

/// Opens it for a port with this address of the machine.
pub fn open(port: PortId, address: IpAddr) -> Result<Opened, Failed> {
    let at = SocketAddr::new(address, ROCE_PORT);
    let receiver = bound(at).map_err(|error| (refusal(at, &error), error))?;
    let room = prepare_receiver(&receiver, address)
        .map_err(|error| ("setting up the receiving socket".to_owned(), error))?;
    let (mut descriptors, mut sports) = (Vec::new(), Vec::new());
    // Different ports of a machine begin at different source ports.
    let first = usize::from(port.card) * 2 + usize::from(port.port);
    for sport in SPORTS.skip(first * SENDERS) {
        match bound(SocketAddr::new(address, sport)) {
            Ok(socket) => {
                prepare_sender(&socket, address)
                    .map_err(|error| ("setting up a sending socket".to_owned(), error))?;
                descriptors.push(socket);
                sports.push(sport);
            }
            // Somebody else's.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(("making a sending socket".to_owned(), error)),
        }
        if descriptors.len() == SENDERS {
            break;
        }
    }
    if descriptors.is_empty() {
        let error = io::ErrorKind::AddrInUse.into();
        return Err((format!("no UDP port of {address} from {} on is free", SPORTS.start()), error));
    }
    let mut link =
        AddressLink::of(address).map_err(|error| (format!("asking for the link of {address}"), error))?;
    let gid = gid_of(address);
    let window = (room / 4).clamp(*WINDOW.start(), *WINDOW.end()) as u32;
    let setting = Setting { kind: Kind::Udp, mac: mac(&gid), sports, window };
    let shared = receiver.try_clone().map_err(|error| ("copying a descriptor".to_owned(), error))?;
    let found = link.look();
    let receiver = Box::new(UdpReceiver { socket: receiver, link, reader: Reader::new(address) });
    let (gids, mtu) = (vec![GidEntry::new(gid)], mtu(address));
    Ok(Opened { port, setting, gids, mtu, link: found, descriptors, shared: Some(shared), receiver })
}

/// Why an address cannot be had, and what to do.
fn refusal(at: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "{at} is in use: another net has this address, or a program of a net whose keeper was killed (`ss -ulpn` lists \
                 them), or the kernel's rdma_rxe has all addresses"
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "{} is no address of this machine (`ip addr` lists them; one of IPv6 that is `tentative` is to be in two seconds)",
                at.ip()
            )
        }
        _ => format!("binding a UDP socket to {at}"),
    }
}

pub(super) fn bound(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = UdpSocket::bind(at)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Returns the bytes that it has room for.
pub(super) fn prepare_receiver(socket: &OwnedFd, address: IpAddr) -> io::Result<usize> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    match address {
        IpAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?,
        IpAddr::V6(_) => {
            set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
            // A RoCE sender need not compute the checksum: the ICRC covers more.
            set(socket, libc::SOL_UDP, libc::UDP_NO_CHECK6_RX, 1)?;
        }
    }
    // As much as the system allows, which is more for the administrator.
    if set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
    }
    Ok(rustix::net::sockopt::socket_recv_buffer_size(socket)?)
}

pub(super) fn prepare_sender(socket: &OwnedFd, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(_) => set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?,
        IpAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?,
    }
    if set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER).is_err() {
        set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
    }
    // Nobody reads what is sent to it: as little as possible is kept.
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 0)
}

/// An Ethernet address for captures and for the node's GUID; no card of a segment has one like it.
fn mac(gid: &[u8; 16]) -> [u8; 6] {
    [2, 0x56, 0x42, 0xff, gid[14], gid[15]]
}

/// The largest path MTU whose packets pass the interface that has the address.
fn mtu(address: IpAddr) -> u32 {
    let interface = message::interface_of(address).ok().flatten();
    path_mtu(interface.and_then(|it| message::mtu_of(&it.name).ok()).unwrap_or(1500))
}

/// Chooses among the source ports of the senders.
pub(super) fn direct(port: &OutsidePort, path: &mut Path) {
    path.udp_sport = port.sport(usize::from(path.udp_sport) % port.descriptors().len());
    path.dst_mac = mac(&path.network.dst_gid());
}

/// Sends the frames of a batch, without their headers up to UDP, by one call.
pub(super) fn send(port: &OutsidePort, sockets: &[BorrowedFd<'_>], batch: &Batch) -> io::Result<()> {
    let path = &batch.path;
    // No GID of the port is of RoCE version 1 or in a VLAN, but a WQE may name any.
    if path.vlan.is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let index = (0..sockets.len()).find(|&index| port.sport(index) == path.udp_sport);
    let Some(socket) = index.map(|index| sockets[index]) else { return Err(io::ErrorKind::NotFound.into()) };
    let skipped = Ethernet::BYTES + path.network.header_len() + Udp::BYTES;
    let bodies = || batch.frames().map(|frame| &frame[skipped..]);
    let segment = bodies().next().map_or(0, <[u8]>::len);
    let together;
    let parts: Vec<_> = if segment <= SHORT {
        together = bodies().collect::<Vec<_>>().concat();
        vec![IoSlice::new(&together)]
    } else {
        bodies().map(IoSlice::new).collect()
    };
    let (to, tos) = match path.network {
        Network::V4(ip) => (IpAddr::from(ip.dst), ip.tos),
        Network::V6(ip) => (IpAddr::from(ip.dst), ip.traffic_class),
        Network::Grh(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    let to = SocketAddr::new(to, ROCE_PORT);
    for _ in 0..4 {
        let error = match message::send(socket, to, &parts, segment as u16, tos) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => wait_for_room(socket),
            // The second one is an answer of the network to something sent before; it is said once.
            Some(libc::EINTR | libc::ECONNREFUSED) => {}
            _ => return Err(error),
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

#[cold]
fn wait_for_room(socket: BorrowedFd<'_>) {
    let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
    let _ = rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: FULL * 1_000_000 }));
}

struct UdpReceiver {
    socket: OwnedFd,
    /// That of the interface which has the address.
    link: AddressLink,
    reader: Reader,
}

impl Receiver for UdpReceiver {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        [self.socket.as_fd(), self.link.as_fd()].map(|own| (own, PollFlags::IN)).into()
    }

    fn link(&mut self) -> Option<u64> {
        self.link.look()
    }

    fn receive(&mut self, port: PortId, into: &mut Arrivals) -> io::Result<bool> {
        self.reader.receive(self.socket.as_fd(), port, into)
    }
}

/// Reads what has come to the socket of an address.
pub struct Reader {
    address: IpAddr,
    checker: Checker,
}

impl Reader {
    fn new(address: IpAddr) -> Reader {
        Reader { address, checker: Checker::default() }
    }

    /// For a socket that the keeper has opened.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Reader> {
        let address: SocketAddr = rustix::net::getsockname(socket)?.try_into()?;
        Ok(Reader::new(address.ip()))
    }

    /// See [`Receiver::receive`].
    pub fn receive(&mut self, socket: BorrowedFd<'_>, port: PortId, into: &mut Arrivals) -> io::Result<bool> {
        let message::Received { bytes, segment, from, tos } = match message::receive(socket, &mut into.bytes)
        {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let Some(from) = from else { return Ok(true) };
        let path = way(from, self.address, tos);
        let mut start = 0;
        // An empty datagram is one, too.
        while start < bytes || bytes == 0 {
            let end = bytes.min(start + segment);
            into.take_by(Some(path), port, start..end, |body| self.checker.decode(&path, body));
            if bytes == 0 {
                break;
            }
            start = end;
        }
        Ok(true)
    }
}

/// The way of packets that came.
pub(super) fn way(from: SocketAddr, to: IpAddr, tos: u8) -> Path {
    let (src, dst) = (gid_of(from.ip()), gid_of(to));
    let network = Network::from_gids(&src, &dst, tos, 0, HOP_LIMIT);
    Path { src_mac: mac(&src), dst_mac: mac(&dst), vlan: None, network, udp_sport: from.port() }
}

/// Checks and reads packets from the BTH to the ICRC.
#[derive(Default)]
pub(super) struct Checker {
    found: Identifications,
}

impl Checker {
    pub fn decode<'a>(&mut self, path: &Path, body: &'a [u8]) -> Result<Frame<'a>, DropReason> {
        let short = DropReason::TooShort("BTH");
        let (packet, sum) = body.split_last_chunk().ok_or(short)?;
        let (bth, rest) = packet.split_first_chunk::<{ Bth::BYTES }>().ok_or(short)?;
        let sum = u32::from_le_bytes(*sum);
        let length = (Udp::BYTES + body.len()) as u16;
        let mut udp = [0; Udp::BYTES];
        let header = Udp { src_port: path.udp_sport, dst_port: ROCE_PORT, length, checksum: 0 };
        header.encode(&mut udp);
        let mut path = *path;
        match &mut path.network {
            Network::V4(ip) => {
                let mut head = [0; Ipv4::BYTES];
                ip.encode(length, &mut head);
                let difference = sum ^ icrc::ipv4(&head, &udp, bth, rest);
                ip.id = self.found.find(difference, rest.len()).ok_or(DropReason::Icrc)?;
            }
            Network::V6(ip) => {
                let mut head = [0; Ipv6::BYTES];
                ip.encode(PROTOCOL_UDP, length, &mut head);
                if sum != icrc::ipv6(&head, &udp, bth, rest) {
                    return Err(DropReason::Icrc);
                }
            }
            Network::Grh(_) => return Err(DropReason::EtherType(ETHERTYPE_ROCE)),
        }
        frame::decode_transport(path, &[], packet)
    }
}
