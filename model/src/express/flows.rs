//! What a process remembers of frames for the express lane.
//!
//! Who gets a frame depends on its [fields](Fields) and on tables that only commands change. What was found out about it, and
//! about the queues at both ends, counts for as long as the [generation](super::Express::generation) of their island is the same.

use super::piece::Piece;
use crate::device::raw::MAX_FRAME;
use crate::here::Here;
use crate::packet::PortId;
use crate::steering::{Copy, Fields};

/// Places for senders, receivers and flows. Those of the same place take turns.
pub(super) const SENDERS: usize = 4;
pub(super) const RECEIVERS: usize = 16;
pub(super) const FLOWS: usize = 1024;

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

/// Frames of a port with the same fields.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    pub(super) generation: u64,
    pub(super) from: PortId,
    /// Only of this queue pair: what others of its card send goes to it, too.
    pub(super) only: Option<u16>,
    pub(super) fields: Fields,
    /// The queue that gets them.
    pub(super) copy: Copy,
    /// Card and place of the rule that counts them.
    pub(super) counted: Option<(u16, u16)>,
    /// Their sender waits for its receives.
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
    /// Whether it is that of the frames of a queue pair of a port with these fields.
    #[inline(always)]
    pub(super) fn is_of(&self, generation: u64, (from, q): (PortId, u16), fields: &Fields) -> bool {
        let only = self.only.is_none_or(|only| only == q);
        self.generation == generation && self.from == from && only && self.fields == *fields
    }
}
