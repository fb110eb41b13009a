//! The multicast groups of a port with the medium `udp:`. The kernel tells the switches and routers of its interface.
//!
//! A socket that is bound to an address gets nothing for a group, so each group has a socket of its own. Several nets may
//! have one for the same group.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use rustix::net::{bind, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

use super::message::{interface_of, set};
use super::udp::prepare_receiver;
use crate::wire::udp::ROCE_PORT;

/// A socket for what comes to a group by the interface that has an address.
pub(super) fn join(group: IpAddr, address: IpAddr) -> io::Result<OwnedFd> {
    let family = if group.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // A group of a link is of this one, too.
    let interface = index_of(&socket, address)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, interface)?;
    bind(&socket, &SocketAddr::new(group, ROCE_PORT))?;
    prepare_receiver(&socket, group)?;
    match group {
        IpAddr::V4(ip) => {
            let request = libc::ip_mreqn {
                imr_multiaddr: libc::in_addr { s_addr: of_network(ip) },
                imr_address: libc::in_addr { s_addr: 0 },
                imr_ifindex: interface,
            };
            set(&socket, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, request)?;
        }
        IpAddr::V6(ip) => {
            let request = libc::ipv6_mreq {
                ipv6mr_multiaddr: libc::in6_addr { s6_addr: ip.octets() },
                ipv6mr_interface: interface as libc::c_uint,
            };
            set(&socket, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, request)?;
        }
    }
    Ok(socket)
}

/// What a socket sends to groups leaves by the interface that has an address, whatever the routes say.
pub(super) fn send_by(socket: &OwnedFd, address: IpAddr) {
    let _ = index_of(socket, address).and_then(|interface| match address {
        IpAddr::V4(_) => {
            let any = libc::in_addr { s_addr: 0 };
            let request = libc::ip_mreqn { imr_multiaddr: any, imr_address: any, imr_ifindex: interface };
            set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, request)
        }
        IpAddr::V6(_) => set(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, interface),
    });
}

fn index_of(socket: &OwnedFd, address: IpAddr) -> io::Result<i32> {
    let interface = interface_of(address)?.ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(name_to_index(socket, &interface.name)? as i32)
}

/// An address in the order of its bytes.
fn of_network(ip: Ipv4Addr) -> u32 {
    u32::from_ne_bytes(ip.octets())
}
