//! What comes to the sockets of a port with the medium `udp:`: to that of its address, and to those of the groups that it
//! receives.
//!
//! Of a packet that comes the kernel does not tell the identification: [`Identifications`] finds the one that the ICRC fits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;

use super::arrivals::Arrivals;
use super::interface_link::AddressLink;
use super::message;
use super::opened::Receiver;
use super::udp::HOP_LIMIT;
use super::udp_groups::{join, send_by};
use crate::address::{gid_of, ip_of, Gid};
use crate::packet::PortId;
use crate::wire::ethernet::ETHERTYPE_ROCE;
use crate::wire::identification::Identifications;
use crate::wire::ipv4::PROTOCOL_UDP;
use crate::wire::path::multicast_mac;
use crate::wire::udp::ROCE_PORT;
use crate::wire::{frame, icrc, Bth, DropReason, Frame, Ipv4, Ipv6, Network, Path, Udp};

/// The keeper's side of a port.
pub(super) struct UdpReceiver {
    address: IpAddr,
    /// That of the address, and one for each group that was joined.
    sockets: Vec<(Reader, OwnedFd)>,
    /// Which one is read next.
    next: usize,
    /// By which all processes send.
    senders: Vec<OwnedFd>,
    groups: Vec<IpAddr>,
    /// That of the interface which has the address.
    link: AddressLink,
    /// The one whose interface has the groups.
    joined: Option<u64>,
}

impl UdpReceiver {
    pub fn new(address: IpAddr, socket: OwnedFd, link: AddressLink, senders: Vec<OwnedFd>) -> UdpReceiver {
        let sockets = vec![(Reader::new(address, None), socket)];
        UdpReceiver { address, sockets, next: 0, senders, groups: Vec::new(), link, joined: None }
    }

    /// Joins the groups in which it is not yet.
    fn join(&mut self) {
        for &group in &self.groups {
            if self.sockets[1..].iter().any(|(reader, _)| reader.address == group) {
                continue;
            }
            match join(group, self.address) {
                Ok(socket) => self.sockets.push((Reader::new(group, Some(self.address)), socket)),
                Err(error) => {
                    tell!("verbena: the port at {} cannot join the group {group}: {error}", self.address)
                }
            }
        }
    }
}

impl Receiver for UdpReceiver {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let sockets = self.sockets.iter().map(|(_, socket)| socket.as_fd());
        sockets.chain([self.link.as_fd()]).map(|own| (own, PollFlags::IN)).collect()
    }

    fn link(&mut self) -> Option<u64> {
        let link = self.link.look();
        // The address may be another interface's now.
        if link.is_some() && std::mem::replace(&mut self.joined, link) != link {
            self.sockets.truncate(1);
            self.senders.iter().for_each(|sender| send_by(sender, self.address));
            self.join();
        }
        link
    }

    fn receive(&mut self, port: PortId, into: &mut Arrivals) -> io::Result<bool> {
        for _ in 0..self.sockets.len() {
            self.next = (self.next + 1) % self.sockets.len();
            let (reader, socket) = &mut self.sockets[self.next];
            if reader.receive(socket.as_fd(), port, into)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn receive_groups(&mut self, groups: &[Gid]) {
        // Those of the other version of IP cannot come to this address.
        self.groups =
            groups.iter().copied().map(ip_of).filter(|ip| ip.is_ipv4() == self.address.is_ipv4()).collect();
        self.sockets.retain(|(reader, _)| reader.own.is_none() || self.groups.contains(&reader.address));
        self.join();
    }
}

/// Reads what has come to the socket of an address, or of a group.
pub struct Reader {
    address: IpAddr,
    /// What comes from there is what the port itself has sent to the group.
    own: Option<IpAddr>,
    checker: Checker,
}

impl Reader {
    fn new(address: IpAddr, own: Option<IpAddr>) -> Reader {
        Reader { address, own, checker: Checker::default() }
    }

    /// For a socket that the keeper has opened.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Reader> {
        let address: SocketAddr = rustix::net::getsockname(socket)?.try_into()?;
        Ok(Reader::new(address.ip(), None))
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
        let Some(from) = from.filter(|from| Some(from.ip()) != self.own) else { return Ok(true) };
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

/// An Ethernet address for captures and for the node's GUID, that no card of a segment has; or that of a group.
pub(super) fn mac(gid: &[u8; 16]) -> [u8; 6] {
    multicast_mac(gid).unwrap_or([2, 0x56, 0x42, 0xff, gid[14], gid[15]])
}
