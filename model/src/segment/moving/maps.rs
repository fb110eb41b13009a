//! What this process has mapped where.
//!
//! Looked up with a fixed buffer and no allocation, because the child of a `fork`
//! needs it before anything else works.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// One line of /proc/self/maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// One past the last address.
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
    if ask_each(&file, from, &mut visit)? {
        return Ok(());
    }
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

/// `struct procmap_query` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    access: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: libc::c_ulong = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// Asks the kernel for one mapping after the other (Linux 6.11): mappings below `from` cost nothing. False if the
/// kernel does not support that.
fn ask_each(file: &OwnedFd, from: u64, visit: &mut impl FnMut(&Mapping) -> bool) -> io::Result<bool> {
    let mut name = [0_u8; libc::PATH_MAX as usize];
    let mut address = from;
    loop {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: COVERING_OR_NEXT,
            address,
            name_size: name.len() as u32,
            name: name.as_mut_ptr() as u64,
            ..Query::default()
        };
        // SAFETY: the kernel writes the query, and into `name` as much as it has room for.
        if unsafe { libc::ioctl(file.as_raw_fd(), PROCMAP_QUERY, &raw mut query) } != 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                // There is none at or above `from`.
                Some(libc::ENOENT) => return Ok(true),
                // Nothing was visited yet: the caller may try the other way.
                _ if address == from => return Ok(false),
                _ => return Err(error),
            }
        }
        let access = query.access & (READABLE | WRITABLE | EXECUTABLE | SHARED);
        // With the zero at its end; no name has no bytes.
        let name = &name[..(query.name_size as usize).saturating_sub(1).min(name.len())];
        let mapping = Mapping {
            start: query.start,
            end: query.end,
            offset: query.offset,
            device: (query.major, query.minor),
            inode: query.inode,
            shared: access & SHARED != 0,
            readable: access & READABLE != 0,
            writable: access & WRITABLE != 0,
            private_writable: access == READABLE | WRITABLE,
            special: is_special(name),
        };
        if !visit(&mapping) || query.end <= address {
            return Ok(true);
        }
        address = query.end;
    }
}

/// Whether the kernel treats a mapping of this name specially.
fn is_special(name: &[u8]) -> bool {
    name.starts_with(b"[") && name != b"[heap]" && !name.starts_with(b"[anon:")
}

pub(in crate::segment) fn open_self(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
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
        special: is_special(path),
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

    /// The kernel's answers and its list agree.
    #[test]
    fn both_ways_find_the_same() {
        let mut asked = Vec::new();
        let file = open_self(c"/proc/self/maps").unwrap();
        let mut collect = |mapping: &Mapping| {
            asked.push(*mapping);
            true
        };
        if !ask_each(&file, 0, &mut collect).unwrap() {
            println!("this kernel has no PROCMAP_QUERY: it is compared with nothing");
            return;
        }
        let text = std::fs::read("/proc/self/maps").unwrap();
        let listed: Vec<Mapping> = text.split(|&byte| byte == b'\n').filter_map(parse).collect();
        // Other tests map memory meanwhile, and the processor's own pages are in the list only.
        let same = listed.iter().filter(|mapping| asked.contains(mapping)).count();
        assert!(same * 10 > listed.len() * 8 && same > 10, "{same} of {}", listed.len());
        assert!(asked.iter().any(|mapping| mapping.special && listed.contains(mapping)));
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
