//! Whether a network interface has a link, as the kernel tells of it (rtnetlink(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    bind, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

/// Changes of interfaces (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;
/// It is up, and its cable has a signal (linux/if.h).
const UP: u32 = libc::IFF_UP as u32 | 1 << 16;
/// Bytes of `nlmsghdr`, and of it and `ifinfomsg`: all that is looked at.
const HEADER: usize = 16;
const MESSAGE: usize = 32;

/// The link of an interface of the network namespace in which it was opened.
pub(super) struct Carrier {
    socket: OwnedFd,
    index: u32,
    up: bool,
}

impl Carrier {
    /// That of the interface of this name.
    pub fn of(name: &str) -> io::Result<Carrier> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        let index = name_to_index(&socket, name)?;
        let carrier = Carrier { socket, index, up: false };
        carrier.ask()?;
        Ok(carrier)
    }

    /// The kernel answers within the call.
    fn ask(&self) -> io::Result<()> {
        let mut request = [0; MESSAGE];
        request[..4].copy_from_slice(&(MESSAGE as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
        request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
        request[HEADER + 4..HEADER + 8].copy_from_slice(&self.index.to_ne_bytes());
        send(&self.socket, &request, SendFlags::empty())?;
        Ok(())
    }

    /// Whether it has one, after all that the kernel has told.
    pub fn is_up(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((length, _)) => self.hear(&buffer[..length]),
                Err(Errno::INTR) => {}
                // Of many changes some were not told.
                Err(Errno::NOBUFS) if self.ask().is_ok() => {}
                Err(_) => return self.up,
            }
        }
    }

    fn hear(&mut self, mut messages: &[u8]) {
        while let Some(message) = messages.first_chunk::<MESSAGE>() {
            let number =
                |at: usize| message[at..].first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes));
            let kind = u16::from_ne_bytes([message[4], message[5]]);
            // Others are of its place in a bridge.
            let of_interface = message[HEADER] == libc::AF_UNSPEC as u8 && number(HEADER + 4) == self.index;
            match kind {
                libc::RTM_NEWLINK if of_interface => self.up = number(HEADER + 8) & UP == UP,
                libc::RTM_DELLINK if of_interface => self.up = false,
                _ => {}
            }
            let length = (number(0) as usize).max(HEADER).next_multiple_of(4);
            messages = messages.get(length..).unwrap_or_default();
        }
    }
}

impl AsFd for Carrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
