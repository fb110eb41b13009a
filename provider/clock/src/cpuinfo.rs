//! `/proc/cpuinfo` with the frequency of the virtual time stamp counter: programs that scale the
//! counter compare what they measure with what they find there, and take either.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, CStr};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{FromRawFd, IntoRawFd, RawFd};

use crate::next::replace;
use crate::sys::sys;

const PATH: &CStr = c"/proc/cpuinfo";

/// The line of each processor, in MHz: see `read_clock::cycles`.
const LINE: &str = "cpu MHz\t\t: 1000.000";

fn rewritten(text: &str) -> String {
    let line = |line: &str| if line.starts_with("cpu MHz") { LINE.to_owned() } else { line.to_owned() };
    text.lines().map(|text| line(text) + "\n").collect()
}

/// A copy of the file in memory, read from its start.
fn copy() -> std::io::Result<RawFd> {
    let open = |fd: isize| {
        if fd < 0 {
            return Err(std::io::Error::from_raw_os_error(-fd as c_int));
        }
        // SAFETY: a new descriptor, which has no other owner.
        Ok(unsafe { File::from_raw_fd(fd as RawFd) })
    };
    let mut text = String::new();
    // SAFETY: valid names.
    let (file, memory) = unsafe {
        (
            sys!(libc::SYS_openat, libc::AT_FDCWD, PATH.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC),
            sys!(libc::SYS_memfd_create, c"cpuinfo".as_ptr(), libc::MFD_CLOEXEC),
        )
    };
    open(file)?.read_to_string(&mut text)?;
    let mut memory = open(memory)?;
    memory.write_all(rewritten(&text).as_bytes())?;
    memory.rewind()?;
    Ok(memory.into_raw_fd())
}

/// The copy, if `path` is the file and it is there.
unsafe fn instead_of(path: *const c_char) -> Option<RawFd> {
    // SAFETY: the caller keeps the contract of open(2).
    let wanted = !path.is_null() && unsafe { CStr::from_ptr(path) } == PATH;
    wanted.then(|| copy().ok()).flatten()
}

replace! {
    /// open(2)
    fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
        match instead_of(path) {
            Some(fd) => fd,
            None => next(path, flags, mode),
        }
    }

    /// open(2) with large files
    fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
        open(path, flags, mode)
    }

    /// fopen(3)
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        match instead_of(path) {
            Some(fd) => libc::fdopen(fd, mode),
            None => next(path, mode),
        }
    }

    /// fopen(3) with large files
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        fopen(path, mode)
    }
}

#[cfg(test)]
mod tests {
    use super::rewritten;

    #[test]
    fn only_the_frequency_changes() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2596.136\ncache size\t: 1 KB\n";
        assert_eq!(rewritten(text), "processor\t: 0\ncpu MHz\t\t: 1000.000\ncache size\t: 1 KB\n");
    }
}
