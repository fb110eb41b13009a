//! The names of sockets, reduced to numbers that both ends derive alike.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::mem::MaybeUninit;

use crate::sys::sys;

/// The address of one end of a socket.
pub struct Name {
    address: libc::sockaddr_storage,
    /// Bytes of it that are in use.
    pub length: usize,
    /// `AF_INET`, `AF_INET6`, `AF_UNIX` or another one.
    pub family: c_int,
}

impl Name {
    /// No name, to be filled in.
    fn empty() -> Name {
        // SAFETY: all zero is a valid address of no family.
        Name { address: unsafe { MaybeUninit::zeroed().assume_init() }, length: 0, family: 0 }
    }

    /// The name of a socket or, by `SYS_getpeername`, of the other end.
    pub fn of(fd: c_int, which: c_long) -> Option<Name> {
        let mut name = Name::empty();
        let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        // SAFETY: both are valid for writing.
        if unsafe { sys!(which, fd, &raw mut name.address, &raw mut length) } != 0 {
            return None;
        }
        name.length = length as usize;
        name.family = c_int::from(name.address.ss_family);
        Some(name)
    }

    /// The name that a program passes.
    ///
    /// # Safety
    /// `address` is valid for `length` bytes.
    pub unsafe fn copy(address: *const libc::sockaddr, length: libc::socklen_t) -> Name {
        let mut name = Name::empty();
        name.length = (length as usize).min(size_of::<libc::sockaddr_storage>());
        let to = (&raw mut name.address).cast::<u8>();
        // SAFETY: the caller's promise, and the length fits the storage.
        unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), to, name.length) };
        name.family = c_int::from(name.address.ss_family);
        name
    }

    fn bytes(&self) -> &[u8; size_of::<libc::sockaddr_storage>()] {
        // SAFETY: of the same size; the rest is 0.
        unsafe { &*(&raw const self.address).cast() }
    }

    /// The port in network order and the address in its IPv6 form.
    fn internet(&self) -> ([u8; 2], [u8; 16]) {
        let bytes = self.bytes();
        let mut address = [0; 16];
        if self.family == libc::AF_INET {
            address[10..12].fill(0xff);
            address[12..].copy_from_slice(&bytes[4..8]);
        } else {
            address.copy_from_slice(&bytes[8..24]);
        }
        ([bytes[2], bytes[3]], address)
    }

    /// Hash of the whole name.
    pub fn whole(&self) -> u64 {
        if self.family == libc::AF_UNIX {
            return hash(&[self.path()]);
        }
        let (port, address) = self.internet();
        hash(&[&port, &address])
    }

    /// Hash of the port alone, which a listener on all addresses shares with its clients.
    pub fn port(&self) -> u64 {
        if self.family == libc::AF_UNIX {
            return hash(&[self.path()]);
        }
        hash(&[&self.internet().0])
    }

    /// The name of a UNIX socket, without the zero byte that some put at the end of a path.
    fn path(&self) -> &[u8] {
        let path = &self.bytes()[..self.length.min(size_of::<libc::sockaddr_storage>())];
        let path = path.get(size_of::<libc::sa_family_t>()..).unwrap_or_default();
        match path {
            [0, ..] => path,
            _ => path.split(|&byte| byte == 0).next().unwrap_or(path),
        }
    }
}

/// FNV-1a, 64 bits.
fn hash(parts: &[&[u8]]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    parts.iter().flat_map(|part| part.iter()).fold(0xcbf2_9ce4_8422_2325, step)
}
