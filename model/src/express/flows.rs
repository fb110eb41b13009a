//! What a process finds out about frames for the express lane, and remembers.
//!
//! Who gets a frame depends on those of its [fields](Fields) that rules and hashes ask for, and on tables that only commands
//! change. What was found out about it, and about the queues at both ends, counts for as long as the
//! [generation](super::Express::generation) of their island is the same.

use fpga_regs::{Access, WqeSge};

use super::piece::Piece;
use super::route::ring;
use super::Express;
use crate::device::qp::Qp;
use crate::device::raw::MAX_FRAME;
use crate::device::Device;
use crate::dma::Addr;
use crate::here::Here;
use crate::packet::PortId;
use crate::steering::{Copy, Fields, Taken};
use crate::world::World;

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

impl World {
    /// What takes frames of a sender with these fields, if it is one rule for one port.
    #[cold]
    pub(super) fn rule(&self, sender: Place, fields: &Fields, env: &mut impl Express) -> Option<Rule> {
        if fields.is_multicast() {
            return None;
        }
        let way = self.frame_way(sender, fields);
        let (at, rule) = self.only_rule(way, fields, env.now())?;
        Some(Rule { at, rule, pauses: self.pauses(way.0, at) })
    }

    /// Who gets frames with these fields by a rule.
    #[cold]
    pub(super) fn flow(&self, Rule { at, rule, pauses }: &Rule, fields: &Fields) -> Option<Flow> {
        let copy = self.cards[usize::from(at.card)].copy_by(rule, *at, fields)?;
        Some(Flow { copy, counts: rule.counts, pauses: *pauses })
    }

    /// What frames of a queue pair need.
    #[cold]
    pub(super) fn frame_sender(&self, place: Place, env: &mut impl Express) -> Option<Sender> {
        let qp = &self.cards[usize::from(place.0)].qps[usize::from(place.1)];
        let sq = Addr { iova: qp.sq_iova, domain: qp.domain };
        let sq = ring(sq, (u64::from(qp.sq_mask) + 1) << 6, env)?;
        let port = PortId { port: qp.leaves, ..qp.port };
        let cards = &self.cards[..usize::from(self.count())];
        let asked = cards.iter().fold(Fields::always(), |asked, card| asked.union(&card.rules.asked()));
        let hashed = match cards.iter().any(Device::spreads_frames) {
            true => asked.union(&Fields::hashed()),
            false => asked,
        };
        let (generation, sq_mask, from) = (env.generation(), qp.sq_mask, Piece::NONE);
        Some(Sender { generation, place, port, asked, hashed, sq_mask, sq, from })
    }

    /// What frames for a queue need, if it is of this island.
    #[cold]
    pub(super) fn frame_receiver(&self, place: Place, env: &mut impl Express) -> Option<Receiver> {
        let qp = &self.cards[usize::from(place.0)].qps[usize::from(place.1)];
        let Qp { rq_mask, rq_stride_log, recv_cq, .. } = *qp;
        let plain = !qp.has_srq.get() && !qp.scatter_fcs.get() && rq_stride_log >= 5;
        if !plain || !env.has(place.0, place.1) {
            return None;
        }
        let rq = Addr { iova: qp.rq_iova, domain: qp.domain };
        let rq = ring(rq, (u64::from(rq_mask) + 1) << rq_stride_log, env)?;
        let cq = &self.cards[usize::from(place.0)].cqs[usize::from(recv_cq)];
        let cq = ring(cq.ring, (u64::from(cq.mask) + 1) << 6, env);
        let (generation, to) = (env.generation(), Piece::NONE);
        Some(Receiver { generation, place, rq_mask, rq_stride_log, rq, recv_cq, cq, to })
    }

    /// Memory that a queue may use.
    #[cold]
    pub(super) fn frame_memory(
        &self,
        (card, q): Place,
        sge: &WqeSge,
        rights: Access,
        env: &mut impl Express,
    ) -> Option<Piece> {
        let device = &self.cards[usize::from(card)];
        let pd = device.qps[usize::from(q)].pd;
        device.piece(sge.lkey(), sge.addr(), sge.length(), env, |key, va, length| {
            device.check_key(pd, 0, key, va, length, rights)
        })
    }
}
