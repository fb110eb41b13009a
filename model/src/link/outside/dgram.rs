//! The medium `dgram:LOCAL,REMOTE`: each frame in a datagram between two UNIX sockets, as QEMU's `-netdev dgram` has it.
//!
//! The kernel keeps a few frames for a peer that does not read at the moment; it may keep as few as ten. Further ones wait
//! here, never the thread: two ports that both waited for the other to read would not get further.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;

use super::ethernet::{Found, Wire, WAITING};
use super::opened::Failed;
use super::station::Host;
use crate::address::Guids;
use crate::packet::PortId;
use crate::segment::now_ns;

/// The path MTU: the medium has no limit of its own.
pub(super) const LARGEST: u32 = 4096;
/// The first pause before frames that wait are tried again, and the longest (ns): no descriptor tells when the peer has read.
const PAUSES: std::ops::RangeInclusive<u64> = 100_000..=10_000_000;
/// After this time (ns) in which the peer has read nothing, what waits for it is given up. One that answers long READs reads
/// nothing meanwhile.
const STUCK: u64 = 5_000_000_000;

/// Two sockets' names: ours, which exists as long as this does, and the peer's, which may come later.
pub(super) struct Dgram {
    socket: UnixDatagram,
    local: PathBuf,
    remote: PathBuf,
    /// Frames that wait until the peer has read others, and their bytes.
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Since when it has read nothing (ns).
    since: u64,
    /// When it is tried again (ns), and the pause before that.
    due: u64,
    pause: u64,
}

/// Opens it.
pub(super) fn open(card: (PortId, Guids), local: &Path, remote: &Path) -> Found {
    let bound = remove_stale(local, |path| UnixDatagram::unbound()?.connect(path))
        .and_then(|()| UnixDatagram::bind(local))
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    let socket = bound.map_err(|error| not_bound(local, error))?;
    Ok((Box::new(Dgram::new(socket, local, remote)), Host::own(card, LARGEST)))
}

/// Why a UNIX socket cannot be made.
pub(super) fn not_bound(path: &Path, error: io::Error) -> Failed {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => "is there already: another net has it, or it is no socket",
        io::ErrorKind::NotFound => "cannot be made, its directory is missing",
        _ => "cannot be made",
    };
    (format!("the socket {} {what}", path.display()), error)
}

/// Removes a socket that a process has left behind which is gone. Whatever else is there stays, and is in the way.
pub(super) fn remove_stale(path: &Path, connect: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

impl Dgram {
    fn new(socket: UnixDatagram, local: &Path, remote: &Path) -> Dgram {
        let (local, remote, waiting) = (local.into(), remote.into(), VecDeque::new());
        Dgram { socket, local, remote, waiting, bytes: 0, since: 0, due: 0, pause: 0 }
    }

    /// The peer has just read something, or is tried for the first time.
    fn hope(&mut self, now: u64) {
        (self.since, self.pause) = (now, *PAUSES.start());
        self.due = now + self.pause;
    }

    /// Lets a frame wait.
    fn keep(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.bytes + frame.len() > WAITING {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.bytes += frame.len();
        self.waiting.push_back(frame.to_vec());
        Ok(())
    }
}

impl Wire for Dgram {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        vec![(self.socket.as_fd(), PollFlags::IN)]
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if !self.waiting.is_empty() {
            return self.keep(frame);
        }
        match self.socket.send_to(frame, &self.remote) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.hope(now_ns());
                self.keep(frame)
            }
            sent => sent.map(drop),
        }
    }

    fn flush(&mut self) -> u64 {
        let (now, mut lost, before) = (now_ns(), 0, self.waiting.len());
        while let Some(frame) = self.waiting.front() {
            match self.socket.send_to(frame, &self.remote) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => {
                    lost += u64::from(sent.is_err());
                    self.bytes -= frame.len();
                    self.waiting.pop_front();
                }
            }
        }
        if self.waiting.len() < before {
            self.hope(now);
        } else if now >= self.since.saturating_add(STUCK) {
            lost += self.waiting.len() as u64;
            self.waiting.clear();
            self.bytes = 0;
        } else if now >= self.due {
            self.pause = (2 * self.pause).min(*PAUSES.end());
            self.due = now + self.pause;
        }
        lost
    }

    fn due(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.due)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        // A longer one is cut off, which its ICRC shows.
        match rustix::net::recv(&self.socket, into, rustix::net::RecvFlags::DONTWAIT) {
            Ok((len, _)) => Ok(Some(len)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl std::ops::Drop for Dgram {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Two ports whose sockets are each other's peer.
    fn pair(directory: &Path) -> [Dgram; 2] {
        let [one, other] = ["one", "other"].map(|name| directory.join(name));
        [(&one, &other), (&other, &one)].map(|(local, remote)| {
            let socket = UnixDatagram::bind(local).expect("a socket");
            socket.set_nonblocking(true).expect("a socket that does not block");
            Dgram::new(socket, local, remote)
        })
    }

    fn frame(n: u32) -> Vec<u8> {
        [&n.to_ne_bytes()[..], &[7; 996]].concat()
    }

    #[test]
    fn two_that_send_before_they_read_lose_nothing() {
        const MANY: u32 = 3000;
        let directory = tempfile::tempdir().expect("a directory");
        let mut ports = pair(directory.path());
        let begin = Instant::now();
        for n in 0..MANY {
            ports.iter_mut().for_each(|port| port.send(&frame(n)).expect("it is sent, or waits"));
        }
        assert!(begin.elapsed() < Duration::from_nanos(STUCK) - Duration::from_secs(1), "a send waited");
        assert!(ports.iter().all(|port| port.due().is_some()), "more than the kernel keeps");
        let (mut came, mut into) = ([0; 2], [0; 2000]);
        while came != [MANY; 2] {
            for (port, came) in ports.iter_mut().zip(&mut came) {
                while let Some(len) = port.receive(&mut into).expect("a socket") {
                    assert!(into[..len] == frame(*came)[..], "frame {came}");
                    *came += 1;
                }
                assert_eq!(port.flush(), 0);
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{came:?} frames came");
        }
        assert!(ports.iter().all(|port| port.due().is_none() && port.bytes == 0));
    }

    #[test]
    fn what_nobody_reads_is_given_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let [mut port, _other] = pair(directory.path());
        let sent = (0..).take_while(|&n| port.send(&frame(n)).is_ok()).count() as u64;
        let waiting = port.waiting.len() as u64;
        assert!(port.bytes <= WAITING && waiting > 0 && sent > waiting);
        let mut lost = 0;
        let until = Instant::now() + Duration::from_secs(20);
        while let Some(due) = port.due() {
            assert!(Instant::now() < until, "it waits for ever");
            std::thread::sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
            lost += port.flush();
        }
        assert_eq!(lost, waiting);
        // A peer that is gone is no reason to wait.
        std::fs::remove_file(&port.remote).expect("the socket");
        port.send(&frame(0)).expect_err("nobody is there");
        assert_eq!(port.due(), None);
    }
}
