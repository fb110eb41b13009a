//! A terminal for the client's output, so that perftest prints each row when
//! it has it: into a pipe, the C library would hold them back until the end.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;

/// Our end, and the end that is given to the program.
pub fn open() -> io::Result<(File, Stdio)> {
    let (mut ours, mut theirs) = (0, 0);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: both places are valid; null asks for the defaults.
    if unsafe { libc::openpty(&mut ours, &mut theirs, name, settings, size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and without another owner.
    let (ours, owned) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // SAFETY: `termios` is plain data that tcgetattr() fills in; the descriptors
    // are open. Raw mode: no carriage returns are added.
    unsafe {
        let mut termios: libc::termios = std::mem::zeroed();
        libc::tcgetattr(theirs, &mut termios);
        libc::cfmakeraw(&mut termios);
        libc::tcsetattr(theirs, libc::TCSANOW, &termios);
        // openpty() knows no close-on-exec, and the programs need neither end.
        for fd in [std::os::fd::AsRawFd::as_raw_fd(&ours), theirs] {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
    Ok((ours, Stdio::from(owned)))
}

/// Reads like a pipe: the last writer's end is the end of the text.
pub struct Reader(pub File);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(0),
            other => other,
        }
    }
}
