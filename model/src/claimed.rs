//! A file that one net writes and no other: made anew, and locked as long as it is held.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

/// How long the keeper of a net that is ending may still have the file.
const PATIENCE: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(10);

/// Makes the file, empty but for its header. `WouldBlock`: another net has it. The path has to be absolute, since
/// processes in other directories open it, and no longer than `longest`.
pub(crate) fn make(path: &Path, longest: usize, header: &[u8]) -> io::Result<File> {
    let wrong = |what| Err(io::Error::new(ErrorKind::InvalidInput, what));
    if !path.is_absolute() {
        return wrong("the path is not absolute");
    }
    if path.as_os_str().len() > longest {
        return wrong("the path is too long");
    }
    let start = Instant::now();
    loop {
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let found = file.metadata()?;
        // A device has as many writers as it likes.
        if !found.is_file() {
            file.write_all(header)?;
            return Ok(file);
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if start.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(ErrorKind::WouldBlock.into()),
            // Some file systems know no locks.
            Ok(()) | Err(_) => {
                // Or it was replaced before the lock was ours.
                let same = std::fs::metadata(path).is_ok_and(|now| now.ino() == found.ino());
                if same || start.elapsed() >= PATIENCE {
                    file.set_len(0)?;
                    file.write_all(header)?;
                    return Ok(file);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_writer_and_a_device_many() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "what was there before").unwrap();
        let first = make(&path, 100, b"header").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"header");
        assert_eq!(make(&path, 100, b"other").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(std::fs::read(&path).unwrap(), b"header");
        // Its owner ends meanwhile.
        let waits = std::thread::spawn(move || make(&path, 100, b"other").map(|_| ()));
        std::thread::sleep(PAUSE);
        drop(first);
        waits.join().unwrap().unwrap();
        let null = Path::new("/dev/null");
        let _held = make(null, 100, b"header").unwrap();
        make(null, 100, b"header").unwrap();
    }
}
