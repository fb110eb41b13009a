//! A file that one net writes and no other: made anew, and locked as long as its keeper holds it. The processes of the net open
//! it by its path, and write only if it is still there.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

use crate::plain::Plain;

/// Longest path.
const MAX_PATH: usize = 4096;
/// How long the keeper of a net that is ending may still have the file.
const PATIENCE: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(10);

/// A file that was made, and which it is.
pub(crate) type Made = (File, Metadata);

/// Makes the file, empty but for its header. `WouldBlock`: another net has it. The path has to be absolute, since
/// processes in other directories open it.
pub(crate) fn make(path: &Path, header: &[u8]) -> io::Result<Made> {
    let wrong = |what| Err(io::Error::new(ErrorKind::InvalidInput, what));
    if !path.is_absolute() {
        return wrong("the path is not absolute");
    }
    if path.as_os_str().len() > MAX_PATH {
        return wrong("the path is too long");
    }
    let start = Instant::now();
    loop {
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let found = file.metadata()?;
        // A device has as many writers as it likes.
        if !found.is_file() {
            file.write_all(header)?;
            return Ok((file, found));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(ErrorKind::WouldBlock.into()),
            // Some file systems know no locks.
            Ok(()) | Err(_) => {
                // Or it was replaced before the lock was ours.
                if std::fs::metadata(path).is_ok_and(|now| which(&now) == which(&found)) {
                    file.set_len(0)?;
                    file.write_all(header)?;
                    return Ok((file, found));
                }
                if start.elapsed() >= PATIENCE {
                    return Err(ErrorKind::WouldBlock.into());
                }
            }
        }
    }
}

/// Which file it is: device and inode.
fn which(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// An error of such a file, for who reads it.
pub(crate) fn told(error: io::Error) -> io::Error {
    match error.raw_os_error() == Some(libc::ESTALE) {
        true => io::Error::other("another file has its place"),
        false => error,
    }
}

/// Where such a file is, and which it is. Zero is none.
#[derive(Plain)]
#[repr(C)]
pub(crate) struct Place {
    length: AtomicU32,
    path: [AtomicU8; MAX_PATH],
    device: AtomicU64,
    inode: AtomicU64,
}

impl Place {
    /// Notes where the file that was made is.
    pub fn note(&self, path: &Path, made: &Metadata) {
        let bytes = path.as_os_str().as_bytes();
        self.path.iter().zip(bytes).for_each(|(to, &from)| to.store(from, Relaxed));
        self.length.store(bytes.len().min(MAX_PATH) as u32, Relaxed);
        let (device, inode) = which(made);
        self.device.store(device, Relaxed);
        self.inode.store(inode, Relaxed);
    }

    /// The path by which it was made.
    pub fn path(&self) -> PathBuf {
        let length = (self.length.load(Relaxed) as usize).min(MAX_PATH);
        OsString::from_vec(self.path[..length].iter().map(|byte| byte.load(Relaxed)).collect()).into()
    }

    /// Opens it to write. ENOENT: it is not there any more; ESTALE: another is, perhaps of another net.
    pub fn open(&self) -> io::Result<File> {
        let file = OpenOptions::new().write(true).open(self.path())?;
        match which(&file.metadata()?) == (self.device.load(Relaxed), self.inode.load(Relaxed)) {
            true => Ok(file),
            false => Err(Errno::STALE.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::zeroed;

    #[test]
    fn a_file_has_one_writer_and_a_device_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "what was there before").unwrap();
        let first = make(&path, b"header").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"header");
        assert_eq!(make(&path, b"other").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(std::fs::read(&path).unwrap(), b"header");
        // Its owner ends meanwhile.
        let waits = std::thread::spawn(move || make(&path, b"other").map(|_| ()));
        std::thread::sleep(PAUSE);
        drop(first);
        waits.join().unwrap().unwrap();
        let null = Path::new("/dev/null");
        let _held = make(null, b"header").unwrap();
        make(null, b"header").unwrap();
    }

    #[test]
    fn another_file_of_its_path_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let place: Place = zeroed();
        let (_held, made) = make(&path, b"header").unwrap();
        place.note(&path, &made);
        place.open().unwrap().write_all(b"spans!").unwrap();
        std::fs::rename(&path, directory.path().join("kept")).unwrap();
        assert_eq!(place.open().unwrap_err().kind(), ErrorKind::NotFound);
        let _other = make(&path, b"other").unwrap();
        assert_eq!(place.open().unwrap_err().raw_os_error(), Some(libc::ESTALE));
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
        assert_eq!(std::fs::read(directory.path().join("kept")).unwrap(), b"spans!");
    }
}
