//! Whether a network interface, or the one that has an address, has a link, as the kernel tells of it (rtnetlink(7)).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    bind, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};

use super::message::{interface_of, Interface};

/// Changes of interfaces, and of their addresses (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
/// An interface is up, and its cable has a signal: IFF_UP and IFF_LOWER_UP (linux/if.h).
pub(super) const HAS_LINK: u32 = libc::IFF_UP as u32 | 1 << 16;
const ERROR: u16 = libc::NLMSG_ERROR as u16;
/// Bytes of `nlmsghdr`, and of it and `ifinfomsg`: all that is looked at.
const HEADER: usize = 16;
const MESSAGE: usize = 32;

/// The link of an interface of the network namespace in which it was opened.
pub(super) struct InterfaceLink {
    socket: OwnedFd,
    index: u32,
    /// The namespace has no such interface any more.
    gone: bool,
    state: State,
    /// Some changes were not told.
    missed: bool,
}

/// A link, and how often it came up.
#[derive(Default)]
struct State {
    up: bool,
    number: u64,
}

impl State {
    fn set(&mut self, up: bool) {
        self.number += u64::from(up && !self.up);
        self.up = up;
    }

    fn link(&self) -> Option<u64> {
        self.up.then_some(self.number)
    }
}

/// A socket to which the kernel tells changes.
fn changes(groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

impl InterfaceLink {
    /// That of the interface of this name.
    pub fn of(name: &str) -> io::Result<InterfaceLink> {
        let socket = changes(RTMGRP_LINK)?;
        let index = name_to_index(&socket, name)?;
        let link = InterfaceLink { socket, index, gone: false, state: State::default(), missed: false };
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

    /// Whether the interface has left the namespace, or is no more. Nothing else is heard of it then.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Its number, from 1, which is another one whenever it was lost, after all that the kernel has told; `None`: there is none.
    pub fn look(&mut self) -> Option<u64> {
        let mut buffer = [0; 4096];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((length, _)) => self.hear(&buffer[..length]),
                Err(Errno::INTR) => {}
                // Of many changes some were not told. Those that were come first: until then there is no room for an answer.
                Err(Errno::NOBUFS) => self.missed = true,
                Err(_) if self.missed && self.ask().is_ok() => {
                    self.missed = false;
                    self.state.set(false);
                }
                Err(_) => return self.state.link(),
            }
        }
    }

    fn lose(&mut self) {
        self.gone = true;
        self.state.set(false);
    }

    fn hear(&mut self, mut messages: &[u8]) {
        while let Some(message) = messages.first_chunk::<MESSAGE>() {
            let number =
                |at: usize| message[at..].first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes));
            let kind = u16::from_ne_bytes([message[4], message[5]]);
            // Others are of its place in a bridge.
            let of_interface = message[HEADER] == libc::AF_UNSPEC as u8 && number(HEADER + 4) == self.index;
            match kind {
                libc::RTM_NEWLINK if of_interface => {
                    self.gone = false;
                    self.state.set(number(HEADER + 8) & HAS_LINK == HAS_LINK);
                }
                libc::RTM_DELLINK if of_interface => self.lose(),
                // The answer to a question: it is not there.
                ERROR => self.lose(),
                _ => {}
            }
            let length = (number(0) as usize).max(HEADER).next_multiple_of(4);
            messages = messages.get(length..).unwrap_or_default();
        }
    }
}

/// The link of the interface that has an address, whichever that is.
pub(super) struct AddressLink {
    socket: OwnedFd,
    address: IpAddr,
    state: State,
    /// The link that it has when no interface has the address: one that stays within the machine has such an address all the time.
    without: bool,
}

impl AddressLink {
    /// That of this address.
    pub fn of(address: IpAddr) -> io::Result<AddressLink> {
        let socket = changes(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)?;
        let found = interface_of(address)?;
        let mut link = AddressLink { socket, address, state: State::default(), without: found.is_none() };
        link.set(found);
        Ok(link)
    }

    fn set(&mut self, found: Option<Interface>) {
        self.state.set(found.map_or(self.without, |it| it.has_link));
    }

    /// Its number, which is another one when it was found lost; `None`: there is none.
    pub fn look(&mut self) -> Option<u64> {
        let (mut buffer, mut told) = ([0; 4096], false);
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Ok(_) | Err(Errno::NOBUFS) => told = true,
                Err(_) => break,
            }
        }
        if told {
            // Without an answer it is as it was.
            if let Ok(found) = interface_of(self.address) {
                self.set(found);
            }
        }
        self.state.link()
    }
}

impl AsFd for AddressLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
        let mut link = InterfaceLink::of("lo").unwrap();
        let (before, of) = (link.look(), link.index);
        let new = |up| message(libc::RTM_NEWLINK, 0, of, if up { HAS_LINK } else { libc::IFF_UP as u32 });
        link.hear(&[new(true), new(false), new(true)].concat());
        let number = link.state.link();
        assert!(number > before);
        link.hear(&[message(libc::RTM_NEWLINK, 0, of + 1, 0), message(libc::RTM_DELLINK, 7, of, 0)].concat());
        link.hear(&new(true));
        assert_eq!(link.state.link(), number, "of another interface, and of a bridge");
        for gone in [message(libc::RTM_DELLINK, 0, of, 0), message(ERROR, 0, 0, 0)] {
            link.hear(&gone);
            link.hear(&message(libc::RTM_NEWLINK, 0, of + 1, HAS_LINK));
            assert!(link.is_gone() && link.state.link().is_none());
            link.hear(&new(true));
            assert!(!link.is_gone() && link.state.link() > number);
        }
    }

    /// One that an interface has, and one that none has.
    #[test]
    fn addresses_of_the_machine_have_links() {
        for address in ["127.0.0.1", "192.0.2.1"] {
            assert!(AddressLink::of(address.parse().unwrap()).unwrap().look().is_some(), "{address}");
        }
    }
}
