//! A pipe of event records that a program reads and this provider fills.
//!
//! libibverbs reads completion channels and `async_fd` with plain `read`, so both are pipes. What
//! the kernel does and a pipe does not: forget the unread events of an object that is destroyed.
//! [`EventPipe::forget`] does it by moving the pipe's contents [`Aside`] with `splice`, which never
//! blocks here, whatever flags the program has set on its end.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::errno::{Errno, Result};

/// The filling end, with records that wait for room.
pub struct EventPipe<const N: usize> {
    tx: OwnedFd,
    /// Descriptor of the program's end; the program closes it.
    rx: RawFd,
    waiting: VecDeque<[u8; N]>,
    /// Bytes written.
    written: u64,
}

fn pipe(flags: i32) -> Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | flags) } != 0 {
        return Err(Errno::last());
    }
    // SAFETY: two fresh descriptors, which have no other owner.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// An empty pipe, into which others are emptied. There from the start, as the program may have no descriptor left when it
/// is needed. One thread uses it at a time.
pub struct Aside(OwnedFd, OwnedFd);

impl Aside {
    /// A pipe.
    pub fn new() -> Result<Self> {
        pipe(libc::O_NONBLOCK).map(|(rx, tx)| Self(rx, tx))
    }

    fn take_unread<const N: usize>(&mut self, rx: RawFd) -> Vec<[u8; N]> {
        let (null, mut unread) = (std::ptr::null_mut(), Vec::new());
        loop {
            // SAFETY: both are pipes; splice moves bytes between them without touching memory of ours.
            let moved =
                unsafe { libc::splice(rx, null, self.1.as_raw_fd(), null, 4096, libc::SPLICE_F_NONBLOCK) };
            if moved <= 0 {
                return unread;
            }
            let mut record = [0; N];
            // SAFETY: N writable bytes; the pipe holds whole records.
            while unsafe { libc::read(self.0.as_raw_fd(), record.as_mut_ptr().cast(), N) } == N as isize {
                unread.push(record);
            }
        }
    }
}

impl<const N: usize> EventPipe<N> {
    /// A pipe, and the program's end of it (blocking, close-on-exec).
    pub fn new() -> Result<(Self, OwnedFd)> {
        let (rx, tx) = pipe(0)?;
        // SAFETY: only sets a flag of our own descriptor.
        if unsafe { libc::fcntl(tx.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(Errno::last());
        }
        Ok((Self { tx, rx: rx.as_raw_fd(), waiting: VecDeque::new(), written: 0 }, rx))
    }

    /// Descriptor number of the program's end.
    pub fn rx(&self) -> RawFd {
        self.rx
    }

    /// Sends a record, in order; one that finds no room waits for [`Self::flush`].
    pub fn send(&mut self, record: [u8; N]) {
        self.waiting.push_back(record);
        self.flush();
    }

    /// Sends what waits; true when nothing waits any more.
    pub fn flush(&mut self) -> bool {
        while let Some(record) = self.waiting.front() {
            super::timeline::writes_pipe(self.tx.as_raw_fd(), self.written + N as u64);
            // SAFETY: N readable bytes. A record is far below PIPE_BUF, so it goes in whole.
            let sent = unsafe { libc::write(self.tx.as_raw_fd(), record.as_ptr().cast(), N) };
            if sent == N as isize || !matches!(Errno::last().0, libc::EAGAIN | libc::EINTR) {
                self.waiting.pop_front();
                self.written += N as u64;
            } else if Errno::last().0 == libc::EAGAIN {
                return false;
            }
        }
        true
    }

    /// Its inode.
    pub fn inode(&self) -> Option<u64> {
        super::timeline::inode(self.tx.as_raw_fd())
    }

    /// Whether the program has closed its end.
    pub fn closed(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.tx.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one valid entry, no waiting.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 && poll.revents & libc::POLLERR != 0 }
    }

    /// Removes the unread records that `gone` names; returns how many those were.
    pub fn forget(&mut self, aside: &mut Aside, gone: impl Fn(&[u8; N]) -> bool) -> usize {
        self.forget_at(self.rx, aside, gone)
    }

    /// The same, by a descriptor of the program's end that is surely open: the first one may be closed, or another
    /// file by now.
    pub fn forget_at(&mut self, rx: RawFd, aside: &mut Aside, gone: impl Fn(&[u8; N]) -> bool) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|record| !gone(record));
        let mut forgotten = before - self.waiting.len();
        let unread = aside.take_unread(rx);
        if !unread.is_empty() {
            // The program has not read them and never will: its position in the stream is before them.
            self.written -= (unread.len() * N) as u64;
            super::timeline::writes_pipe(self.tx.as_raw_fd(), self.written);
        }
        let mut kept: VecDeque<_> = unread.iter().filter(|record| !gone(record)).copied().collect();
        forgotten += unread.len() - kept.len();
        kept.append(&mut self.waiting);
        self.waiting = kept;
        self.flush();
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

    fn read<const N: usize>(from: &mut File) -> [u8; N] {
        let mut record = [0; N];
        from.read_exact(&mut record).unwrap();
        record
    }

    #[test]
    fn forgets_only_what_is_named_and_keeps_the_order() {
        let ((mut pipe, rx), mut aside) = (EventPipe::<8>::new().unwrap(), Aside::new().unwrap());
        let mut rx = File::from(rx);
        for n in [1u64, 2, 1, 3, 1] {
            pipe.send(n.to_le_bytes());
        }
        assert_eq!(u64::from_le_bytes(read(&mut rx)), 1);
        assert_eq!(pipe.forget(&mut aside, |r| u64::from_le_bytes(*r) == 1), 2);
        assert_eq!(u64::from_le_bytes(read(&mut rx)), 2);
        assert_eq!(u64::from_le_bytes(read(&mut rx)), 3);
        assert_eq!(pipe.forget(&mut aside, |_| true), 0);
        assert_eq!(pipe.written, 3 * 8, "as far as the program has read");
    }

    #[test]
    fn forgets_by_another_descriptor() {
        let (mut pipe, rx) = EventPipe::<1>::new().unwrap();
        let other = rx.try_clone().unwrap();
        drop(rx);
        pipe.send([1]);
        assert_eq!(pipe.forget_at(other.as_raw_fd(), &mut Aside::new().unwrap(), |_| true), 1);
        assert!(!pipe.closed());
    }

    #[test]
    fn a_full_pipe_loses_nothing() {
        let (mut pipe, rx) = EventPipe::<16>::new().unwrap();
        let mut rx = File::from(rx);
        let total = 10_000u128;
        for n in 0..total {
            pipe.send(n.to_le_bytes());
        }
        assert!(!pipe.flush(), "a pipe that holds all of it tests nothing");
        for n in 0..total {
            assert_eq!(u128::from_le_bytes(read(&mut rx)), n);
            pipe.flush();
        }
        assert!(pipe.flush());
    }

    #[test]
    fn notices_that_the_program_has_closed_it() {
        let (pipe, rx) = EventPipe::<8>::new().unwrap();
        assert!(!pipe.closed());
        drop(rx);
        assert!(pipe.closed());
    }
}
