//! The medium `stream:PATH`: frames in a UNIX stream, each after its length in four bytes, as QEMU's `-netdev stream` has
//! it. The port listens, and has a link while a peer is connected; one that connects when there is one already takes its place,
//! once what that one has sent is read.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::dgram::{not_bound, remove_stale, LARGEST};
use super::ethernet::{Found, Wire, WAITING};
use super::station::Host;
use crate::address::Guids;
use crate::packet::PortId;

/// Bytes of a frame's length.
const PREFIX: usize = 4;
/// No Ethernet frame that a peer can send is longer (QEMU's limit).
const LONGEST: usize = 68 << 10;
/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// A listener, and the peer that is connected.
pub(super) struct Stream {
    listener: UnixListener,
    path: PathBuf,
    peer: Option<Peer>,
    /// How many have connected.
    peers: u64,
}

struct Peer {
    socket: UnixStream,
    /// What was read and is no whole frame yet, from `taken` on.
    read: Vec<u8>,
    taken: usize,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    /// It has closed its end. What it sent before is still to be read.
    closed: bool,
}

/// Opens it.
pub(super) fn open(card: (PortId, Guids), path: &Path) -> Found {
    let listener = remove_stale(path, |path| UnixStream::connect(path).map(drop))
        .and_then(|()| UnixListener::bind(path))
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| not_bound(path, error))?;
    let wire = Stream { listener, path: path.into(), peer: None, peers: 0 };
    Ok((Box::new(wire), Host::own(card, LARGEST)))
}

impl Wire for Stream {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let peer = self.peer.as_ref().map(|peer| {
            let room = if peer.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            (peer.socket.as_fd(), PollFlags::IN | room)
        });
        std::iter::once((self.listener.as_fd(), PollFlags::IN)).chain(peer).collect()
    }

    fn flush(&mut self) -> u64 {
        // One that has closed its end is gone when all has been read.
        let _ = self.peer.as_mut().map(Peer::flush);
        0
    }

    fn keeps(&self) -> bool {
        self.peer.as_ref().is_some_and(|peer| !peer.unsent.is_empty())
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(peer) = &mut self.peer else { return Err(io::ErrorKind::NotConnected.into()) };
        peer.send(frame)
    }

    fn link(&mut self) -> Option<u64> {
        if self.peer.is_none() {
            let (socket, _) = self.listener.accept().ok()?;
            self.peer = Some(Peer { socket, read: Vec::new(), taken: 0, unsent: Vec::new(), closed: false });
            self.peers += 1;
        }
        Some(self.peers)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.peer.as_mut().map(|peer| peer.receive(into)) {
            Some(Ok(Some(len))) => return Ok(Some(len)),
            Some(Ok(None)) if !self.has_successor() => {}
            _ => self.peer = None,
        }
        Ok(None)
    }
}

impl Stream {
    /// Whether another peer waits for the place of the one that is connected.
    fn has_successor(&self) -> bool {
        let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec::default())) == Ok(1)
    }
}

impl Peer {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if self.unsent.len() + frame.len() > WAITING {
            self.flush()?;
            if self.unsent.len() + frame.len() > WAITING {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.unsent.extend((frame.len() as u32).to_be_bytes());
        self.unsent.extend(frame);
        self.flush()
    }

    /// Gives the socket what it takes.
    fn flush(&mut self) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut sent = 0;
        let mut result = Ok(());
        while sent < self.unsent.len() && result.is_ok() {
            match rustix::net::send(&self.socket, &self.unsent[sent..], flags) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(error) => result = Err(error),
            }
        }
        self.unsent.drain(..sent);
        match result {
            // The rest goes when the peer has read.
            Ok(()) | Err(Errno::AGAIN) => Ok(()),
            Err(error) => {
                self.closed = true;
                self.unsent.clear();
                // If it is there after all, it finds out, and can connect again.
                let _ = self.socket.shutdown(Shutdown::Write);
                Err(error.into())
            }
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let rest = &self.read[self.taken..];
            if let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() {
                let len = u32::from_be_bytes(*prefix) as usize;
                if len > LONGEST {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                if let Some(frame) = rest.get(..len) {
                    let kept = len.min(into.len());
                    into[..kept].copy_from_slice(&frame[..kept]);
                    self.taken += PREFIX + len;
                    return Ok(Some(kept));
                }
            }
            self.read.drain(..self.taken);
            self.taken = 0;
            let mut piece = [0; PIECE];
            match rustix::net::recv(&self.socket, &mut piece, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((count, _)) => self.read.extend_from_slice(&piece[..count]),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl std::ops::Drop for Stream {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use super::super::ethernet::tests::expect_ready;
    use super::*;

    /// It is read though it takes nothing any more, and before what its successor sends.
    #[test]
    fn what_a_peer_sent_before_it_closed_arrives() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("port");
        let (mut wire, _) = open((PortId { card: 0, port: 0 }, Guids::INSIDE), &path).expect("a socket");
        let give = |peer: &mut UnixStream, byte: u8| {
            for _ in 0..10 {
                peer.write_all(&60_u32.to_be_bytes())
                    .and_then(|()| peer.write_all(&[byte; 60]))
                    .expect("it is read");
            }
        };
        assert_eq!(wire.link(), None);
        let mut first = UnixStream::connect(&path).expect("the port listens");
        give(&mut first, 1);
        let mut frame = [0; 100];
        let link = wire.link().expect("a peer");
        assert_eq!(wire.receive(&mut frame).expect("no error"), Some(60));
        drop(first);
        wire.send(&[9; 60]).expect_err("nobody takes it");
        assert_eq!(wire.flush(), 0);
        let mut second = UnixStream::connect(&path).expect("the port listens");
        give(&mut second, 2);
        let mut came = vec![frame[0]];
        for sent in [&[1; 10][1..], &[2; 10]] {
            while let Some(len) = wire.receive(&mut frame).expect("no error") {
                assert_eq!(len, 60);
                came.push(frame[0]);
            }
            assert!(came.ends_with(sent));
            assert_ne!(wire.link().expect("a peer"), link);
        }
        assert_eq!(came, [[1; 10], [2; 10]].concat());
        wire.send(&[9; 60]).expect("the second takes it");
    }

    #[test]
    fn the_end_of_what_was_sent_arrives_without_more() {
        const MANY: usize = 2000;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("port");
        let (mut wire, _) = open((PortId { card: 0, port: 0 }, Guids::INSIDE), &path).expect("a socket");
        let mut peer = UnixStream::connect(&path).expect("the port listens");
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        assert!(wire.link().is_some());
        // More than the kernel keeps for a peer that does not read.
        (0..MANY).for_each(|n| wire.send(&[n as u8; 1000]).expect("it is sent, or waits"));
        let wants_room = |wire: &dyn Wire| {
            let all = wire.descriptors();
            all.into_iter().any(|(_, flags)| flags.contains(PollFlags::OUT))
        };
        assert!(wants_room(&*wire));
        let reader = std::thread::spawn(move || {
            let mut bytes = vec![0; MANY * (PREFIX + 1000)];
            peer.read_exact(&mut bytes).map(|()| bytes)
        });
        let mut turns = 0;
        while wants_room(&*wire) {
            expect_ready(wire.descriptors(), 20, "nothing tells of room");
            assert_eq!(wire.flush(), 0);
            turns += 1;
        }
        assert!(turns <= 10 * MANY, "{turns} turns: it does not wait");
        let bytes = reader.join().expect("the reader").expect("all of it");
        for (n, frame) in bytes.chunks(PREFIX + 1000).enumerate() {
            assert!(frame[..PREFIX] == 1000u32.to_be_bytes() && frame[PREFIX..] == [n as u8; 1000]);
        }
    }
}
