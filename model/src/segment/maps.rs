//! What this process has mapped where.
//!
//! Read with a fixed buffer and no allocation, because the child of a `fork`
//! needs it before anything else works.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// One line of /proc/self/maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Offset in the mapped file.
    pub offset: u64,
    /// Device of the mapped file.
    pub device: (u32, u32),
    /// Inode of the mapped file, 0 when there is none.
    pub inode: u64,
    /// Writes go to the file.
    pub shared: bool,
    /// Can be read.
    pub readable: bool,
    /// Can be written.
    pub writable: bool,
    /// Private, readable, writable, not executable.
    pub private_writable: bool,
    /// A thread's or the main stack as far as the kernel names it, or some
    /// other mapping that the kernel treats specially.
    pub special: bool,
}

/// Calls `visit` for each mapping that ends above `from`, in order, until it
/// returns false.
pub fn each_mapping(from: u64, mut visit: impl FnMut(&Mapping) -> bool) -> io::Result<()> {
    let file = open_self(c"/proc/self/maps")?;
    let mut buffer = [0_u8; 8192];
    let mut filled = 0;
    loop {
        let got = read(&file, &mut buffer[filled..])?;
        filled += got;
        let mut rest = &buffer[..filled];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            if let Some(mapping) = parse(&rest[..end]) {
                if mapping.end > from && !visit(&mapping) {
                    return Ok(());
                }
            }
            rest = &rest[end + 1..];
        }
        let left = rest.len();
        if got == 0 {
            return Ok(());
        }
        let start = filled - left;
        if start == 0 && filled == buffer.len() {
            // A line longer than any path: not one that matters here.
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        buffer.copy_within(start..filled, 0);
        filled = left;
    }
}

pub(super) fn open_self(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: a plain open of a constant path; the descriptor is ours.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn read(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(fd, &mut *buffer) {
            Ok(got) => return Ok(got),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// `start-end perms offset major:minor inode  path`
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut at = 0;
    let start = number(line, &mut at, 16, b'-')?;
    let end = number(line, &mut at, 16, b' ')?;
    let perms = line.get(at..at + 4)?;
    at += 5;
    let offset = number(line, &mut at, 16, b' ')?;
    let major = number(line, &mut at, 16, b':')?;
    let minor = number(line, &mut at, 16, b' ')?;
    let inode = number(line, &mut at, 10, b' ')?;
    let path = line.get(at..).unwrap_or_default().trim_ascii();
    Some(Mapping {
        start,
        end,
        offset,
        device: (major as u32, minor as u32),
        inode,
        shared: perms[3] == b's',
        readable: perms[0] == b'r',
        writable: perms[1] == b'w',
        private_writable: perms == b"rw-p",
        special: path.starts_with(b"[") && path != b"[heap]" && !path.starts_with(b"[anon:"),
    })
}

/// Reads a number and steps over `terminator` (or the line's end).
fn number(line: &[u8], at: &mut usize, radix: u32, terminator: u8) -> Option<u64> {
    let mut value = 0_u64;
    let begin = *at;
    while let Some(&byte) = line.get(*at) {
        if byte == terminator {
            *at += 1;
            break;
        }
        let digit = (byte as char).to_digit(radix)?;
        value = value.checked_mul(radix.into())?.checked_add(digit.into())?;
        *at += 1;
    }
    (*at > begin).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let line = b"7f01a000-7f01c000 rw-p 00002000 fe:01 1234   /usr/lib/x y.so";
        let mapping = parse(line).unwrap();
        assert_eq!(mapping.start, 0x7f01_a000);
        assert_eq!(mapping.end, 0x7f01_c000);
        assert_eq!(mapping.offset, 0x2000);
        assert_eq!(mapping.device, (0xfe, 1));
        assert_eq!(mapping.inode, 1234);
        assert!(mapping.private_writable && !mapping.special);
        let stack = parse(b"7ffc0000-7ffc2000 rw-p 00000000 00:00 0    [stack]").unwrap();
        assert!(stack.special);
        let anonymous = parse(b"7ffc0000-7ffc2000 rw-p 00000000 00:00 0 ").unwrap();
        assert!(anonymous.private_writable && !anonymous.special && anonymous.inode == 0);
        assert_eq!(parse(b"garbage"), None);
    }

    #[test]
    fn own_variables_are_in_some_mapping() {
        let here = Box::new(0_u8);
        let address = &raw const *here as u64;
        let mut found = None;
        each_mapping(address, |mapping| {
            found = Some(*mapping);
            false
        })
        .unwrap();
        let found = found.unwrap();
        assert!(found.start <= address && address < found.end && found.private_writable);
    }
}
