//! What the processes of a net give to the thread of the keeper that sends by a port of Ethernet frames.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{sendmsg, SendAncillaryBuffer, SendFlags};

use super::batch::Batch;
use super::inbox::Inbox;
use crate::address::Gid;
use crate::gids::GidEntry;

/// What stands in place of the frames' length before a question.
pub(super) const QUESTION: [u8; 2] = [0; 2];
/// A bit of that length: one whole frame, which is sent as it is.
pub(super) const WHOLE: u16 = 1 << 15;

/// Gives frames of one length, but for the last, to the keeper's thread.
pub(super) fn give(sockets: &[BorrowedFd<'_>], batch: &Batch) -> io::Result<()> {
    let length = batch.frames().next().map_or(0, <[u8]>::len) as u16;
    give_all(sockets, &length.to_ne_bytes(), batch.frames())
}

/// Gives a whole frame to the keeper's thread.
pub(super) fn give_whole(sockets: &[BorrowedFd<'_>], frame: &[u8]) -> io::Result<()> {
    give_all(sockets, &WHOLE.to_ne_bytes(), std::iter::once(frame))
}

fn give_all<'a>(
    sockets: &[BorrowedFd<'_>],
    length: &'a [u8; 2],
    frames: impl Iterator<Item = &'a [u8]>,
) -> io::Result<()> {
    let Some(socket) = sockets.first() else { return Err(io::ErrorKind::NotFound.into()) };
    let mut slices = vec![IoSlice::new(length)];
    slices.extend(frames.map(IoSlice::new));
    let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        match sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if flags.contains(SendFlags::DONTWAIT) => {
                // Another process waits.
                if !Inbox::make_room(*socket)? {
                    flags.remove(SendFlags::DONTWAIT);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The keeper's thread looks at the port anew.
pub(super) fn wake(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    // A question without an address.
    give_all(sockets, &QUESTION, std::iter::empty())
}

/// Gives the keeper's thread a question: who on the link has an IP address? It comes from an own one.
pub(super) fn ask(sockets: &[BorrowedFd<'_>], own: &GidEntry, ip: &Gid) -> io::Result<()> {
    let Some(socket) = sockets.first() else { return Err(io::ErrorKind::NotFound.into()) };
    let vlan = own.vlan.to_ne_bytes();
    let slices = [IoSlice::new(&QUESTION), IoSlice::new(&vlan), IoSlice::new(&own.gid), IoSlice::new(ip)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags)?;
    Ok(())
}
