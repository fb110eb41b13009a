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
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Bytes of `nlmsghdr`, and of it and `ifinfomsg`: all that is looked at.
const HEADER: usize = 16;
const MESSAGE: usize = 32;

/// The link of an interface of the network namespace in which it was opened.
pub(super) struct InterfaceLink {
    socket: OwnedFd,
    index: u32,
    /// It has one when the namespace has no such interface any more.
    elsewhere: bool,
    up: bool,
    /// How often it came up.
    number: u64,
    /// Some changes were not told.
    missed: bool,
}

impl InterfaceLink {
    /// That of the interface of this name. If that leaves the namespace, nothing is heard of it any more, and it has a link or not.
    pub fn of(name: &str, elsewhere: bool) -> io::Result<InterfaceLink> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        let index = name_to_index(&socket, name)?;
        let link = InterfaceLink { socket, index, elsewhere, up: false, number: 0, missed: false };
        link.ask()?;
        Ok(link)
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

    /// Its number, which is another one whenever it was lost, after all that the kernel has told; `None`: there is none.
    pub fn look(&mut self) -> Option<u64> {
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((length, _)) => self.hear(&buffer[..length]),
                Err(Errno::INTR) => {}
                // Of many changes some were not told. Those that were come first: until then there is no room for an answer.
                Err(Errno::NOBUFS) => self.missed = true,
                Err(_) if std::mem::take(&mut self.missed) && self.ask().is_ok() => self.set(false),
                Err(_) => return self.up.then_some(self.number),
            }
        }
    }

    fn set(&mut self, up: bool) {
        self.number += u64::from(up && !self.up);
        self.up = up;
    }

    fn hear(&mut self, mut messages: &[u8]) {
        while let Some(message) = messages.first_chunk::<MESSAGE>() {
            let number =
                |at: usize| message[at..].first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes));
            let kind = u16::from_ne_bytes([message[4], message[5]]);
            // Others are of its place in a bridge.
            let of_interface = message[HEADER] == libc::AF_UNSPEC as u8 && number(HEADER + 4) == self.index;
            match kind {
                libc::RTM_NEWLINK if of_interface => self.set(number(HEADER + 8) & UP == UP),
                libc::RTM_DELLINK if of_interface => self.set(self.elsewhere),
                // The answer to a question: it is not there.
                ERROR => self.set(self.elsewhere),
                _ => {}
            }
            let length = (number(0) as usize).max(HEADER).next_multiple_of(4);
            messages = messages.get(length..).unwrap_or_default();
        }
    }
}

impl AsFd for InterfaceLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel tells of an interface; of its place in a bridge, if the family is that.
    fn message(kind: u16, family: u8, index: u32, flags: u32) -> Vec<u8> {
        let mut message = [&(MESSAGE as u32).to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
        message.extend([family, 0, 0, 0]);
        message.extend([index.to_ne_bytes(), flags.to_ne_bytes(), [0; 4]].concat());
        message
    }

    #[test]
    fn a_link_that_was_lost_has_another_number() {
        for elsewhere in [false, true] {
            let mut link = InterfaceLink::of("lo", elsewhere).unwrap();
            link.look();
            let (of, before) = (link.index, link.number);
            let new = |up| message(libc::RTM_NEWLINK, 0, of, if up { UP } else { libc::IFF_UP as u32 });
            link.hear(&[new(true), new(false), new(true)].concat());
            let number = link.number;
            assert!(link.up && number > before);
            link.hear(
                &[message(libc::RTM_NEWLINK, 0, of + 1, 0), message(libc::RTM_DELLINK, 7, of, 0)].concat(),
            );
            link.hear(&new(true));
            assert!(link.up && link.number == number, "of another interface, and of a bridge");
            for gone in [message(libc::RTM_DELLINK, 0, of, 0), message(ERROR, 0, 0, 0)] {
                link.hear(&new(false));
                link.hear(&gone);
                assert_eq!(link.up, elsewhere);
            }
        }
    }
}
