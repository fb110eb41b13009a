//! What a medium outside of the segment does: opened by the keeper, which receives; sent to by every process of the net.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::PollFlags;

use super::area::{Role, Setting};
use super::arrivals::Arrivals;
use super::station::SharedStation;
use crate::address::Gid;
use crate::gids::GidEntry;
use crate::packet::PortId;
use crate::wire::{frame, Ethernet};

/// What was being done when it failed, and why it did.
pub(super) type Failed = (String, io::Error);

/// A port whose medium is open.
pub struct Opened {
    /// The port.
    pub port: PortId,
    /// What all processes are to know of it.
    pub setting: Setting,
    /// Its GIDs at the start.
    pub gids: Vec<GidEntry>,
    /// The largest path MTU whose packets pass.
    pub mtu: u32,
    /// Its medium's link when it was opened: see [`Receiver::link`].
    pub link: Option<u64>,
    /// By these every process of the net sends: at least one, at most [`MAX_DESCRIPTORS`](super::area::MAX_DESCRIPTORS).
    pub descriptors: Vec<OwnedFd>,
    /// By this programs that poll receive, if they can.
    pub shared: Option<OwnedFd>,
    /// By this the keeper receives.
    pub receiver: Box<dyn Receiver>,
}

/// The largest path MTU whose packets pass a link of `bytes`, of IP and what is in it.
pub fn path_mtu(bytes: u32) -> u32 {
    let overhead = frame::MAX_OVERHEAD - Ethernet::BYTES - Ethernet::TAG_BYTES;
    let room = bytes.saturating_sub(overhead as u32);
    [4096, 2048, 1024, 512].into_iter().find(|&mtu| mtu <= room).unwrap_or(256)
}

/// Receives frames, in the keeper.
pub trait Receiver: Send {
    /// What tells that [`receive`](Self::receive) is to be called: descriptors, and what is waited for on each.
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)>;

    /// Reads some of what has come, without waiting, and [takes](Arrivals::take) the frames in it. False: nothing is left.
    fn receive(&mut self, port: PortId, into: &mut Arrivals) -> io::Result<bool>;

    /// The number of the medium's link, which is another one whenever it was lost, or leads to another peer; `None`: it has none.
    fn link(&mut self) -> Option<u64> {
        Some(1)
    }

    /// Who the port is on its link, if it carries Ethernet frames.
    fn station(&self) -> Option<SharedStation> {
        None
    }

    /// The port has this role from now on; a member is who the first of its card's ports is. After an error it has its old one.
    fn set_role(&mut self, _role: Role, _first: Option<&SharedStation>) -> io::Result<()> {
        Ok(())
    }

    /// Queue pairs of the port are in these multicast groups, and in no others.
    fn receive_groups(&mut self, _groups: &[Gid]) {}

    /// Sends what processes have given to be sent by this thread: one of them may wait for that, and have the cards for
    /// which this thread waits. True: some of it waits, until the medium takes more or a
    /// neighbour has answered.
    fn forward(&mut self) -> bool {
        false
    }
}
