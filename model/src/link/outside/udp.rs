//! The medium `udp:`: RoCEv2 packets in UDP datagrams of the kernel's sockets, which need no rights.
//!
//! The kernel writes Ethernet, IP and UDP headers, which the ICRC covers as far as routers do not change them. Packets that
//! leave together are given to it as one (UDP_SEGMENT); it numbers them in the IP identification, from 0, since the
//! sockets are not connected and do not allow fragments.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::area::{Kind, OutsidePort, Setting};
use super::batch::Batch;
use super::interface_link::AddressLink;
use super::message::{self, set};
use super::opened::{path_mtu, Failed, Opened, Receiver};
use super::udp_reader::{mac, UdpReceiver};
use crate::address::gid_of;
use crate::gids::GidEntry;
use crate::packet::PortId;
use crate::wire::udp::ROCE_PORT;
use crate::wire::{Ethernet, Network, Path, Udp};

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
/// Hop limit of what comes, which the kernel does not tell; and of what leaves for a group, as Linux' connection manager has it
/// (`IPV6_DEFAULT_HOPLIMIT`).
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
    let link =
        AddressLink::of(address).map_err(|error| (format!("asking for the link of {address}"), error))?;
    let gid = gid_of(address);
    let window = (room / 4).clamp(*WINDOW.start(), *WINDOW.end()) as u32;
    let setting = Setting { kind: Kind::Udp, mac: mac(&gid), sports, window };
    let copied = |error| ("copying a descriptor".to_owned(), error);
    let shared = receiver.try_clone().map_err(copied)?;
    let senders = descriptors.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>().map_err(copied)?;
    let mut receiver = Box::new(UdpReceiver::new(address, receiver, link, senders));
    let link = receiver.link();
    let (gids, mtu) = (vec![GidEntry::new(gid)], mtu(address));
    Ok(Opened { port, setting, gids, mtu, link, descriptors, shared: Some(shared), receiver })
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
        IpAddr::V4(_) => {
            set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)?;
            set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, i32::from(HOP_LIMIT))?;
        }
        IpAddr::V6(_) => {
            set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO)?;
            set(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, i32::from(HOP_LIMIT))?;
        }
    }
    if set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER).is_err() {
        set(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
    }
    // Nobody reads what is sent to it: as little as possible is kept.
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, 0)
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
