//! The queues that get a copy of a frame.

use smallvec::SmallVec;

use crate::packet::PortId;
use crate::plain::{Flag, Plain};

/// Most copies of a frame.
const MOST: usize = 256;
/// Copies for which there is room without an allocation.
const FEW: usize = 4;

/// A copy of a frame.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub(crate) struct Copy {
    /// The port that it comes to.
    pub at: PortId,
    /// The index of the queue that gets it.
    pub queue: u16,
    /// The hash by which it comes there, or 0.
    pub hash: u32,
    /// The rule by which it comes marks it with `mark`.
    pub marked: Flag,
    /// The mark.
    pub mark: u32,
}

/// A list of queues, by the port that the frame comes to and their index, in which each is once.
pub(crate) struct Copies {
    list: SmallVec<[Copy; FEW]>,
    /// By card and index.
    sender: (u16, u16),
    /// Copies for which there was no room.
    pub lost: u32,
    /// The ports at which a rule drops the frame and none of its priority gives it to a queue.
    pub dropped: SmallVec<[PortId; 2]>,
    /// The rules that count it, by card and place.
    pub counted: SmallVec<[(u16, u16); 2]>,
}

impl Copies {
    /// None, of a frame that a queue pair sends.
    pub fn of(sender: (u16, u16)) -> Copies {
        Copies { list: SmallVec::new(), sender, lost: 0, dropped: SmallVec::new(), counted: SmallVec::new() }
    }

    /// The index of the sender, if it is of this card.
    pub fn sender_on(&self, card: u16) -> Option<u16> {
        (self.sender.0 == card).then_some(self.sender.1)
    }

    /// A queue gets a copy, unless it has one.
    pub fn add(&mut self, copy: Copy) {
        let is = |has: &Copy| (has.at.card, has.queue) == (copy.at.card, copy.queue);
        if self.all().iter().any(is) {
            return;
        }
        match self.list.len() {
            MOST => self.lost += 1,
            _ => self.list.push(copy),
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Copy] {
        &self.list
    }
}
