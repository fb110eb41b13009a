//! What the kernel says of the memory at an address, without the C library's help: this is asked for in a
//! signal handler.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::sys::sys;

/// Code beyond so many bytes is not searched: it would take too long.
const LARGEST: usize = 4 << 20;

/// As much of a line as counts: addresses, protection, offset, device, inode.
const LINE: usize = 128;

/// A line of /proc/self/maps.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    addresses: Range<usize>,
    /// Private, to be read and executed and not to be written.
    is_code: bool,
    can_be_read: bool,
    offset: usize,
    /// Device and inode; an inode of 0 is no file.
    file: (u64, u64),
}

fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let hex = |text: &str| usize::from_str_radix(text, 16).ok();
    let (first, end) = fields.next()?.split_once('-')?;
    let protection = fields.next()?;
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (hex(major)? as u64) << 32 | hex(minor)? as u64;
    Some(Mapping {
        addresses: hex(first)?..hex(end)?,
        is_code: protection == "r-xp",
        can_be_read: protection.starts_with('r'),
        offset,
        file: (device, fields.next()?.parse().ok()?),
    })
}

/// Calls `each` with all mappings until it gives something.
fn find<R>(mut each: impl FnMut(Mapping) -> Option<R>) -> Option<R> {
    // SAFETY: a valid path.
    let fd = unsafe { sys!(libc::SYS_openat, libc::AT_FDCWD, c"/proc/self/maps".as_ptr(), libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    let (mut buffer, mut line, mut length) = ([0u8; 2048], [0u8; LINE], 0);
    let found = 'read: loop {
        // SAFETY: the buffer is valid for writing.
        let got = unsafe { sys!(libc::SYS_read, fd, buffer.as_mut_ptr(), buffer.len()) };
        if got <= 0 {
            break None;
        }
        for &byte in &buffer[..got as usize] {
            if byte != b'\n' {
                if length < LINE {
                    line[length] = byte;
                    length += 1;
                }
                continue;
            }
            // A path that is cut off, perhaps in the middle of a character, does not count.
            let text = &line[..line[..length].iter().position(|b| *b >= 0x80).unwrap_or(length)];
            length = 0;
            if let Some(found) = parse(text).and_then(&mut each) {
                break 'read Some(found);
            }
        }
    };
    // SAFETY: opened above.
    unsafe { sys!(libc::SYS_close, fd) };
    found
}

/// The mapping that holds `address`, if that is code of an ELF file which is mapped privately.
pub fn code_at(address: usize) -> Option<&'static [u8]> {
    let mut header = None;
    let (addresses, file) = find(|it| {
        if it.offset == 0 && it.can_be_read {
            header = Some((it.file, it.addresses.start));
        }
        it.addresses.contains(&address).then_some((it.is_code.then_some(it.addresses)?, it.file))
    })?;
    let (_, start) = header.filter(|(of, _)| *of == file && file.1 != 0)?;
    // SAFETY: the start of a file that is mapped readable, and not beyond its first page.
    let magic = unsafe { *(start as *const [u8; 4]) };
    // SAFETY: mapped readable; `address` in it is being executed, and what code is does not change but by us.
    let code = || unsafe { std::slice::from_raw_parts(addresses.start as *const u8, addresses.len()) };
    (magic == *b"\x7fELF" && addresses.len() <= LARGEST).then(code)
}

#[cfg(test)]
mod tests {
    use super::{code_at, find, parse, Mapping};

    #[test]
    fn lines_are_understood() {
        let line =
            b"7f0123400000-7f0123456000 r-xp 00001000 fe:01 1234567    /usr/lib/with a blank.so (deleted)";
        let expected = Mapping {
            addresses: 0x7f01_2340_0000..0x7f01_2345_6000,
            is_code: true,
            can_be_read: true,
            offset: 0x1000,
            file: (0xfe_0000_0001, 1_234_567),
        };
        assert_eq!(parse(line), Some(expected));
        assert!(!parse(b"1000-2000 rwxp 0 0:0 0").expect("a line").is_code);
        assert!(!parse(b"1000-2000 r-xs 0 0:0 0").expect("a line").is_code);
        assert_eq!(parse(b"anything"), None);
    }

    #[test]
    fn code_of_files_and_nothing_else() {
        let here = code_of_files_and_nothing_else as fn() as usize;
        let code = code_at(here).expect("our own code");
        assert!(code.as_ptr_range().contains(&(here as *const u8)));
        let (local, boxed) = (0u8, Box::new(0u8));
        assert_eq!(code_at(&raw const local as usize), None, "the stack");
        assert_eq!(code_at(&raw const *boxed as usize), None, "the heap");
        // SAFETY: reads what the kernel passed.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        assert_eq!(code_at(vdso), None, "the vDSO is no file");
        assert_eq!(code_at(8), None, "nothing");
        let mut count = 0;
        assert_eq!(
            find(|_| -> Option<()> {
                count += 1;
                None
            }),
            None
        );
        let lines = std::fs::read_to_string("/proc/self/maps").expect("readable").lines().count();
        assert!(count > 10 && lines.abs_diff(count) < 10, "{count} of {lines}");
    }
}
