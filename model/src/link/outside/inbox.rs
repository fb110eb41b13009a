//! Where the frames that are given to the keeper's thread come out. That thread gives some itself, and makes room for them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Weak};

use rustix::io::Errno;
use rustix::net::{recv, RecvFlags};

use super::ethernet::WAITING;
use crate::panics::lock;

/// Most bytes of a batch with its length.
pub(super) const LARGEST: usize = 1 << 16;

/// Where what is given comes out.
pub(super) struct Inbox {
    here: Arc<OwnedFd>,
    /// What was taken only to make room, the oldest first, and its bytes.
    taken: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// Those of the ports that this process keeps, each by the inode of the socket that leads to it.
static INBOXES: Mutex<Vec<(u64, Weak<Mutex<Inbox>>)>> = Mutex::new(Vec::new());

impl Inbox {
    /// Of what comes out here.
    pub fn new(here: &Arc<OwnedFd>) -> Inbox {
        Inbox { here: Arc::clone(here), taken: VecDeque::new(), bytes: 0 }
    }

    /// Remembers one, and forgets those that are gone.
    pub fn note(inbox: &Arc<Mutex<Inbox>>, there: BorrowedFd<'_>) -> io::Result<()> {
        let socket = rustix::fs::fstat(there)?.st_ino;
        let mut inboxes = lock(&INBOXES);
        inboxes.retain(|(_, inbox)| inbox.strong_count() != 0);
        inboxes.push((socket, Arc::downgrade(inbox)));
        Ok(())
    }

    /// Takes the oldest frames out of a full socket, if its other end is in this process. False: that is elsewhere. It
    /// fails if too much waits: nobody but this thread may be there to send it.
    #[cold]
    pub fn make_room(there: BorrowedFd<'_>) -> io::Result<bool> {
        let socket = rustix::fs::fstat(there)?.st_ino;
        let inboxes = lock(&INBOXES);
        let found = inboxes.iter().find(|(known, _)| *known == socket).and_then(|(_, inbox)| inbox.upgrade());
        drop(inboxes);
        let Some(inbox) = found else { return Ok(false) };
        let mut inbox = lock(&inbox);
        if inbox.bytes > WAITING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut batch = vec![0; LARGEST];
        match recv(&inbox.here, &mut batch, RecvFlags::DONTWAIT) {
            Ok((len, _)) => {
                batch.truncate(len);
                inbox.bytes += len;
                inbox.taken.push_back(batch);
            }
            // Somebody else has.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Reads the oldest frames; none if there are none.
    pub fn take(&mut self, into: &mut [u8]) -> Option<usize> {
        if let Some(batch) = self.taken.pop_front() {
            self.bytes -= batch.len();
            into[..batch.len()].copy_from_slice(&batch);
            return Some(batch.len());
        }
        recv(&self.here, into, RecvFlags::DONTWAIT).ok().map(|(len, _)| len)
    }
}
