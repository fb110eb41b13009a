//! What a process remembers of frames for the express lane.
//!
//! Which rule takes a frame depends on those of its [fields](Fields) that rules ask for, and on tables that only commands
//! change. What was found out about it, and about the queues at both ends, counts for as long as the
//! [generation](super::Express::generation) of their island is the same.

use super::piece::Piece;
use crate::device::raw::MAX_FRAME;
use crate::here::Here;
use crate::packet::PortId;
use crate::steering::{Fields, Taken};

/// Places for senders, receivers and flows. Those of the same place take turns.
pub(super) const SENDERS: usize = 4;
pub(super) const RECEIVERS: usize = 16;
pub(super) const FLOWS: usize = 256;

/// A queue: card and index.
pub(super) type Place = (u16, u16);

/// What a process has found out about the frames of an island. Empty until one is sent.
#[derive(Default)]
pub struct Flows {
    pub(super) senders: Vec<Option<Sender>>,
    pub(super) receivers: Vec<Option<Receiver>>,
    pub(super) flows: Vec<Option<Flow>>,
    /// The frame that is looked at. Nobody else changes it meanwhile.
    pub(super) frame: Vec<u8>,
}

/// A queue pair that sends frames. As all that follows, it counts for its generation only.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) generation: u64,
    pub(super) place: Place,
    /// The port that they leave.
    pub(super) port: PortId,
    /// A mask of the fields that rules ask for.
    pub(super) asked: Fields,
    pub(super) sq_mask: u32,
    pub(super) sq: Here,
    /// Where frames came from last.
    pub(super) from: Piece,
}

/// A queue that gets frames.
#[derive(Clone, Copy)]
pub(super) struct Receiver {
    pub(super) generation: u64,
    pub(super) place: Place,
    pub(super) rq_mask: u32,
    pub(super) rq_stride_log: u8,
    pub(super) rq: Here,
    /// Where frames went last.
    pub(super) to: Piece,
}

/// Frames of a port that are the same to all rules, which are for one port and taken by one rule.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub(super) generation: u64,
    pub(super) from: PortId,
    /// Those of their fields that rules ask for.
    pub(super) fields: Fields,
    /// The port that they come to.
    pub(super) at: PortId,
    /// What takes them there.
    pub(super) rule: Taken,
    /// Their sender waits for receives.
    pub(super) pauses: bool,
}

impl Flows {
    /// Takes memory for it, before the first frame.
    pub(super) fn make_room(&mut self) {
        if self.frame.is_empty() {
            self.senders.resize_with(SENDERS, || None);
            self.receivers.resize_with(RECEIVERS, || None);
            self.flows.resize_with(FLOWS, || None);
            self.frame.resize(MAX_FRAME as usize, 0);
        }
    }
}

impl Flow {
    /// Whether it is that of the frames of a port with these of the fields that rules ask for.
    #[inline(always)]
    pub(super) fn is_of(&self, generation: u64, from: PortId, fields: &Fields) -> bool {
        self.generation == generation && self.from == from && self.fields == *fields
    }
}
