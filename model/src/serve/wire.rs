//! Messages of a client, from and to its socket.
//!
//! What a client sends is never trusted: sizes are checked before anything is kept, and descriptors that no
//! message asks for are closed.

use std::io::{self, IoSlice, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fpga_regs::vfio_user::{flag, Command, Header, MAX_FDS, MAX_MESSAGE};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{sendmsg, SendFlags};

use crate::passing::receive_with;

/// How long a client may take for a message, or for one access.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// A message with its descriptors.
pub struct Message {
    /// Its header.
    pub header: Header,
    /// What follows it.
    pub body: Vec<u8>,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// Why no message came.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The client has closed the connection between two messages.
    #[error("the client has closed the connection")]
    Closed,
    /// It has closed it within a message.
    #[error("the client has closed the connection in the middle of a message ({got} of {want} bytes)")]
    Truncated {
        /// Bytes that came.
        got: usize,
        /// Bytes that were announced.
        want: usize,
    },
    /// The header's size cannot be.
    #[error(
        "a message of {0} bytes (16 to {MAX_MESSAGE} are allowed): the connection makes no sense any more"
    )]
    Size(u32),
    /// The system said something else.
    #[error("reading from the client: {0}")]
    System(#[from] io::Error),
}

/// Waits for the next message.
pub fn receive(socket: &UnixStream) -> Result<Message, WireError> {
    let mut head = [0; Header::BYTES];
    let mut fds = Vec::new();
    let mut got = 0;
    while got < head.len() {
        // Descriptors belong to the first byte of a message, but may arrive with any part of it that is read at once.
        match receive_some(socket, &mut head[got..], &mut fds)? {
            0 if got == 0 => return Err(WireError::Closed),
            0 => return Err(WireError::Truncated { got, want: head.len() }),
            n => got += n,
        }
    }
    let (header, _) = Header::decode(&head).expect("as many bytes as it needs");
    if !matches!(Command(header.command), Command::DMA_MAP | Command::SET_IRQS) {
        fds.clear();
    }
    let size = header.size as usize;
    if !(Header::BYTES..=MAX_MESSAGE).contains(&size) {
        return Err(WireError::Size(header.size));
    }
    let mut body = vec![0; size - Header::BYTES];
    let mut got = 0;
    while got < body.len() {
        match (&*socket).read(&mut body[got..]) {
            Ok(0) => return Err(WireError::Truncated { got: Header::BYTES + got, want: size }),
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Message { header, body, fds })
}

fn receive_some(socket: &UnixStream, to: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    match receive_with(socket, to, MAX_FDS) {
        // A client that dies with unread replies resets the connection.
        Err(Errno::CONNRESET) => Ok(0),
        received => {
            let (length, passed) = received?;
            fds.extend(passed);
            Ok(length)
        }
    }
}

/// Answers a command: with the parts of a body, or an errno.
pub fn reply(socket: &UnixStream, to: &Header, answer: Result<&[&[u8]], i32>) -> io::Result<()> {
    let parts = answer.unwrap_or_default();
    let size = Header::BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    let (flags, error) = match answer {
        Ok(_) => (flag::REPLY, 0),
        Err(errno) => (flag::REPLY | flag::ERROR, errno as u32),
    };
    let header = Header { id: to.id, command: to.command, size: size as u32, flags, error };
    send(socket, &header, parts)
}

/// Sends a message in one piece; it is taken within [`PATIENCE`], however many steps that takes.
pub fn send(socket: &UnixStream, header: &Header, parts: &[&[u8]]) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::with_capacity(header.size as usize);
    bytes.extend(header.encode());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let mut left = &bytes[..];
    while !left.is_empty() {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match sendmsg(socket, &[IoSlice::new(left)], &mut Default::default(), flags) {
            Ok(n) => left = &left[n..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for_room(socket, until)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for_room(socket: &UnixStream, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let left = Timespec::try_from(left).expect("at most the patience");
    match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&left)) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// What a message asked for, for people.
pub fn name(command: u16) -> String {
    let known = Command::VALUES.iter().find(|named| named.value == u64::from(command));
    known.map_or_else(|| format!("command {command}"), |named| named.name.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::passing::send_with;

    #[test]
    fn descriptors_are_closed_unless_the_command_takes_some() {
        let (own, clients) = UnixStream::pair().expect("a pair");
        let two = [own.as_fd(); 2];
        for command in Command::VALUES.iter().map(|named| named.value as u16) {
            let head = Header { command, size: Header::BYTES as u32, ..Header::default() }.encode();
            send_with(&clients, &head, &two).expect("sent");
            let takes = matches!(Command(command), Command::DMA_MAP | Command::SET_IRQS);
            assert_eq!(receive(&own).expect("a message").fds.len(), if takes { 2 } else { 0 });
        }
    }
}
