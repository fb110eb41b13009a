//! Network interfaces and addresses: asking the kernel for them, changing them, hearing of changes (NETLINK_ROUTE).
#![allow(unsafe_code)]

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{ensure, Context, Result};
use netlink_packet_core::{
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST,
};
use netlink_packet_route::RouteNetlinkMessage;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{
    bind, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

/// The longest wait for an answer. It takes seconds while the kernel takes down many namespaces.
const ANSWER: Duration = Duration::from_secs(30);
/// The kernel sends at most this much at a time.
const BUFFER: usize = 64 << 10;

/// A socket to the kernel, of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Route {
    socket: OwnedFd,
    /// Of the next question. An answer that comes after its question was given up has another.
    sequence: Cell<u32>,
}

impl From<OwnedFd> for Route {
    fn from(socket: OwnedFd) -> Self {
        // Another process may have asked by this socket.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Route { socket, sequence: Cell::new(now.as_millis() as u32) }
    }
}

impl From<Route> for OwnedFd {
    fn from(route: Route) -> Self {
        route.socket
    }
}

impl AsFd for Route {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Route {
    /// Opens one in the network namespace of this process; the kernel tells it of changes of `groups` (RTMGRP_*).
    pub fn open(groups: u32) -> Result<Route> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .context("opening a netlink socket")?;
        bind(&socket, &SocketAddrNetlink::new(0, groups)).context("binding a netlink socket")?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER)).context("limiting a netlink socket")?;
        Ok(Route::from(socket))
    }

    /// Asks for a change; `flags` beside NLM_F_REQUEST and NLM_F_ACK.
    pub fn change(&self, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
        self.ask(message, NLM_F_ACK | flags).map(drop)
    }

    /// Asks for all objects of a kind. What this build cannot read is left out.
    pub fn dump(&self, message: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>> {
        self.ask(message, NLM_F_DUMP)
    }

    /// Asks for one object; `None`: it is not there.
    pub fn get(&self, message: RouteNetlinkMessage) -> Result<Option<RouteNetlinkMessage>> {
        match self.ask(message, NLM_F_ACK) {
            Ok(found) => Ok(found.into_iter().next()),
            Err(error) if is(&error, libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hears of changes in other network namespaces too, of those that have a number in this one.
    pub fn hear_all_namespaces(&self) -> Result<()> {
        let (on, length) = (1, size_of::<libc::c_int>() as libc::socklen_t);
        let at: *const libc::c_int = &on;
        let (level, option) = (libc::SOL_NETLINK, libc::NETLINK_LISTEN_ALL_NSID);
        // SAFETY: a descriptor of ours; the kernel reads the number during the call.
        match unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, at.cast(), length) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    /// Throws away the news that have come.
    pub fn drain(&self) {
        let mut buffer = vec![0; BUFFER];
        // ENOBUFS: some were lost already, and more may follow.
        while matches!(
            recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT),
            Ok(_) | Err(rustix::io::Errno::NOBUFS)
        ) {}
    }

    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> Result<Vec<RouteNetlinkMessage>> {
        let mut request = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        let sequence = self.sequence.replace(self.sequence.get().wrapping_add(1));
        request.header.flags = NLM_F_REQUEST | flags;
        request.header.sequence_number = sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(&self.socket, &bytes, SendFlags::empty()).context("asking the kernel by netlink")?;
        let (mut buffer, mut found) = (vec![0; BUFFER], Vec::new());
        loop {
            let (got, _) =
                recv(&self.socket, &mut buffer, RecvFlags::empty()).context("waiting for netlink")?;
            let mut rest = &buffer[..got];
            while let Some(length) = rest.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes) as usize) {
                ensure!(
                    (NETLINK_HEADER..=rest.len()).contains(&length),
                    "the kernel answered with a broken netlink message"
                );
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&rest[..length]);
                match message.ok().filter(|m| m.header.sequence_number == sequence).map(|m| m.payload) {
                    Some(NetlinkPayload::Done(_)) => return Ok(found),
                    Some(NetlinkPayload::Error(error)) if error.code.is_none() => return Ok(found),
                    Some(NetlinkPayload::Error(error)) => return Err(error.to_io().into()),
                    Some(NetlinkPayload::InnerMessage(message)) => found.push(message),
                    _ => {}
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}

/// Whether the kernel refused something with this errno value.
pub fn is(error: &anyhow::Error, errno: i32) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.raw_os_error() == Some(errno))
}

/// Bytes of a message's header (netlink(7)).
const NETLINK_HEADER: usize = 16;
