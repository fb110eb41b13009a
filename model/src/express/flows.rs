//! What a process remembers of frames for the express lane.
//!
//! Who gets a frame depends on those of its [fields](Fields) that rules and hashes ask for, and on tables that only commands
//! change. What was found out about it, and about the queues at both ends, counts for as long as the
//! [generation](super::Express::generation) of their island is the same.

use fpga_regs::MAX_FRAME;

use super::piece::Piece;
use crate::here::Here;
use crate::packet::PortId;
use crate::steering::{Copy, Fields, Taken};

/// Places for senders, receivers and flows. Those of the same place take turns.
pub(super) const SENDERS: usize = 4;
pub(super) const RECEIVERS: usize = 16;
const FLOWS: usize = 1024;

/// A queue: card and index.
pub(super) type Place = (u16, u16);

/// What a process has found out about the frames of an island. Empty until one is sent.
#[derive(Default)]
pub struct Flows {
    pub(super) senders: Vec<Option<Sender>>,
    pub(super) receivers: Vec<Option<Receiver>>,
    pub(super) flows: Known<Flow>,
    pub(super) rules: Known<Rule>,
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
    /// And of those that hashes may be of, if any card spreads frames.
    pub(super) hashed: Fields,
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
    pub(super) recv_cq: u16,
    /// Where its CQ is, if this process can say.
    pub(super) cq: Option<Here>,
    /// Where frames went last.
    pub(super) to: Piece,
}

/// Frames that are the same in what is asked for: those of a port with such fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) generation: u64,
    pub(super) from: PortId,
    pub(super) fields: Fields,
}

/// What was found out about such frames.
pub(super) struct Known<T>(Vec<Option<(Key, T)>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known(Vec::new())
    }
}

impl<T> Known<T> {
    #[inline(always)]
    pub(super) fn find(&mut self, key: &Key, find: impl FnOnce() -> Option<T>) -> Option<&T> {
        let place = key.fields.hash(key.from.port.into()) >> 48;
        let known = &mut self.0[place as usize % FLOWS];
        if !known.as_ref().is_some_and(|(of, _)| of == key) {
            *known = find().map(|found| (*key, found));
        }
        known.as_ref().map(|(_, found)| found)
    }
}

/// The one rule that takes frames, for one port.
pub(super) struct Rule {
    /// The port that they come to.
    pub(super) at: PortId,
    /// What takes them there.
    pub(super) rule: Taken,
    /// Their sender waits for receives.
    pub(super) pauses: bool,
}

/// Who gets frames that are the same to rules and hashes.
pub(super) struct Flow {
    /// The copy that one of them becomes.
    pub(super) copy: Copy,
    /// The place of the rule, if it counts.
    pub(super) counts: Option<u16>,
    /// Their sender waits for receives.
    pub(super) pauses: bool,
}

impl Flows {
    /// Takes memory for it, before the first frame.
    pub(super) fn make_room(&mut self) {
        if self.frame.is_empty() {
            self.senders.resize_with(SENDERS, || None);
            self.receivers.resize_with(RECEIVERS, || None);
            self.flows.0.resize_with(FLOWS, || None);
            self.rules.0.resize_with(FLOWS, || None);
            self.frame.resize(MAX_FRAME as usize, 0);
        }
    }
}
