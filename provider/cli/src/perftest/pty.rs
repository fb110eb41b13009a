//! A terminal for the client's output, so that perftest prints each row when
//! it has it: into a pipe, the C library would hold them back until the end.

use std::fs::File;
use std::io::{self, Read};
use std::process::Stdio;

use rustix::pty::{ioctl_tiocgptpeer, openpt, unlockpt, OpenptFlags};
use rustix::termios::{tcgetattr, tcsetattr, OptionalActions};

/// Our end, and the end that is given to the program.
pub fn open() -> io::Result<(File, Stdio)> {
    // The programs need neither end but as their output.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    // No carriage returns are added.
    let mut settings = tcgetattr(&theirs)?;
    settings.make_raw();
    tcsetattr(&theirs, OptionalActions::Now, &settings)?;
    Ok((File::from(ours), Stdio::from(theirs)))
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
