//! Datagrams with what the kernel says of them, and is told: `sendmsg` and `recvmsg` with control messages.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::{offset_of, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{addr::SocketAddrStorage, SocketAddrAny};

use super::interface_link::HAS_LINK;

/// Sets an option of a socket.
pub fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: T) -> io::Result<()> {
    let (at, length) = ((&raw const value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: a value of this length, read within the call, as is what one of them points to, a filter.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes of one control message with an integer (cmsg(3)).
const CONTROL: usize = {
    let header = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());
    header + size_of::<i32>().next_multiple_of(size_of::<usize>())
};

/// Room for control messages, aligned as the kernel wants them.
#[repr(C, align(8))]
struct Controls([u8; 4 * CONTROL]);

impl Controls {
    /// Appends a message at byte `at`; returns the end.
    fn push(&mut self, at: usize, (level, kind): (i32, i32), value: &[u8]) -> usize {
        let data = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());
        let place = &mut self.0[at..at + CONTROL];
        let length = data + value.len();
        place[offset_of!(libc::cmsghdr, cmsg_len)..][..size_of::<usize>()]
            .copy_from_slice(&length.to_ne_bytes());
        place[offset_of!(libc::cmsghdr, cmsg_level)..][..4].copy_from_slice(&level.to_ne_bytes());
        place[offset_of!(libc::cmsghdr, cmsg_type)..][..4].copy_from_slice(&kind.to_ne_bytes());
        place[data..length].copy_from_slice(value);
        at + CONTROL
    }

    /// The level, type and value of each message in the first `length` bytes.
    fn iter(&self, length: usize) -> impl Iterator<Item = (i32, i32, &[u8])> {
        let data = size_of::<libc::cmsghdr>().next_multiple_of(size_of::<usize>());
        let mut rest = self.0.get(..length).unwrap_or_default();
        std::iter::from_fn(move || {
            let number = |at: usize| Some(i32::from_ne_bytes(*rest.get(at..)?.first_chunk()?));
            let (level, kind) = (
                number(offset_of!(libc::cmsghdr, cmsg_level))?,
                number(offset_of!(libc::cmsghdr, cmsg_type))?,
            );
            let at = offset_of!(libc::cmsghdr, cmsg_len);
            let length = usize::from_ne_bytes(*rest.get(at..)?.first_chunk()?);
            let value = rest.get(data..length)?;
            rest = rest.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
            Some((level, kind, value))
        })
    }
}

/// Sends the parts as datagrams of `segment` bytes each but the last, and marks them with a type of service.
pub fn send(
    socket: BorrowedFd<'_>,
    to: SocketAddr,
    parts: &[IoSlice<'_>],
    segment: u16,
    tos: u8,
) -> io::Result<()> {
    let name = SocketAddrAny::from(to);
    let mut controls = Controls([0; 4 * CONTROL]);
    let mut end = 0;
    if parts.iter().map(|part| part.len()).sum::<usize>() > segment.into() {
        end = controls.push(end, (libc::SOL_UDP, libc::UDP_SEGMENT), &segment.to_ne_bytes());
    }
    if tos != 0 {
        let kind = match to {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        end = controls.push(end, kind, &i32::from(tos).to_ne_bytes());
    }
    // SAFETY: zero is a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_name = name.as_ptr().cast_mut().cast();
    message.msg_namelen = name.addr_len();
    // An `IoSlice` has the layout of an iovec.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len();
    if end != 0 {
        message.msg_control = (&raw mut controls).cast();
        message.msg_controllen = end;
    }
    // SAFETY: the message points to what lives beyond the call, which only reads it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Datagrams of one sender, one behind another.
pub struct Received {
    /// Bytes of all of them.
    pub bytes: usize,
    /// Bytes of each but the last.
    pub segment: usize,
    /// The sender.
    pub from: Option<SocketAddr>,
    /// Type of service, or traffic class.
    pub tos: u8,
}

/// Receives what the kernel has put together, without waiting.
pub fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Received> {
    let mut name = MaybeUninit::<SocketAddrStorage>::uninit();
    let mut controls = Controls([0; 4 * CONTROL]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: zero is a value.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of_val(&name) as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut controls).cast();
    message.msg_controllen = size_of::<Controls>();
    // SAFETY: the message points to what lives beyond the call and is ours to be written.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let bytes = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has written an address of this length, if any.
    let name = (message.msg_namelen != 0).then(|| unsafe { SocketAddrAny::new(name, message.msg_namelen) });
    let from = name.and_then(|name| name.try_into().ok());
    let mut received = Received { bytes, segment: bytes, from, tos: 0 };
    for (level, kind, value) in controls.iter(message.msg_controllen.min(size_of::<Controls>())) {
        let number = || value.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => received.segment = number().max(1) as usize,
            // A single byte.
            (libc::IPPROTO_IP, libc::IP_TOS) => received.tos = value.first().copied().unwrap_or(0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => received.tos = number() as u8,
            _ => {}
        }
    }
    Ok(received)
}

/// The MTU of an interface of this process's network, which a view of `/sys` made elsewhere does not show.
pub fn mtu_of(interface: &str) -> io::Result<u32> {
    let socket = OwnedFd::from(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?);
    // SAFETY: zero is a value of every field.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the kernel reads and writes the request only, during the call.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written this member.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// A network interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It is up, and has a signal.
    pub has_link: bool,
}

/// The interface that has an address; of several one that has a link, if any has.
pub fn interface_of(address: IpAddr) -> io::Result<Option<Interface>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: writes a list, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut at, mut found) = (list, None::<Interface>);
    while !at.is_null() && !found.as_ref().is_some_and(|it| it.has_link) {
        // SAFETY: an entry of the list, which ends with null; its address is null or of its family's size.
        unsafe {
            let entry = &*at;
            at = entry.ifa_next;
            let has = match entry.ifa_addr.as_ref().map(|it| i32::from(it.sa_family)) {
                Some(libc::AF_INET) => {
                    let it = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                    Some(IpAddr::from(it.sin_addr.s_addr.to_ne_bytes()))
                }
                Some(libc::AF_INET6) => {
                    let it = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                    Some(IpAddr::from(it.sin6_addr.s6_addr))
                }
                _ => None,
            };
            // All of 127.0.0.0/8 is the loopback interface's.
            let same = |has: IpAddr| has == address || has.is_loopback() && address.is_loopback();
            if has.is_some_and(same) {
                let name = std::ffi::CStr::from_ptr(entry.ifa_name).to_string_lossy().into_owned();
                let has_link = entry.ifa_flags & HAS_LINK == HAS_LINK;
                if has_link || found.is_none() {
                    found = Some(Interface { name, has_link });
                }
            }
        }
    }
    // SAFETY: the list that was made above, which nothing refers to.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn datagrams_go_together_and_are_marked() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let [one, other] = [(); 2].map(|()| UdpSocket::bind(local).expect("a loopback address"));
            let receiver = OwnedFd::from(other.try_clone().unwrap());
            set(&receiver, libc::SOL_UDP, libc::UDP_GRO, 1).unwrap();
            let v4 = other.local_addr().unwrap().is_ipv4();
            match v4 {
                true => set(&receiver, libc::IPPROTO_IP, libc::IP_RECVTOS, 1).unwrap(),
                false => set(&receiver, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1).unwrap(),
            }
            let parts = [b"abcd".as_slice(), b"efgh", b"i"].map(IoSlice::new);
            send(one.as_fd(), other.local_addr().unwrap(), &parts, 4, 0x6a).unwrap();
            let mut bytes = [0; 64];
            let (mut all, mut tos) = (Vec::new(), Vec::new());
            while all.len() < 9 {
                let got = match receive(other.as_fd(), &mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    got => got.unwrap(),
                };
                assert!(got.segment <= 4 || got.bytes == got.segment);
                assert_eq!(got.from, Some(one.local_addr().unwrap()));
                all.extend_from_slice(&bytes[..got.bytes]);
                tos.push(got.tos);
            }
            assert_eq!(all, b"abcdefghi");
            assert!(tos.iter().all(|&tos| tos == 0x6a), "{tos:?}");
        }
    }

    #[test]
    fn addresses_are_of_interfaces() {
        let lo = Interface { name: "lo".to_owned(), has_link: true };
        assert_eq!(interface_of("127.9.8.7".parse().unwrap()).unwrap(), Some(lo));
        assert_eq!(interface_of("192.0.2.1".parse().unwrap()).unwrap(), None);
        assert_eq!(mtu_of("lo").unwrap(), 65_536);
        assert!(mtu_of("none").is_err() && mtu_of("a name that is too long").is_err());
    }
}
