//! Finds out what is remembered of frames ([`Flows`](super::Flows)).

use fpga_regs::{Access, WqeSge};

use super::flows::{Flow, Place, Receiver, Rule, Sender};
use super::piece::Piece;
use super::route::ring;
use super::Express;
use crate::device::qp::Qp;
use crate::device::Device;
use crate::dma::Addr;
use crate::packet::PortId;
use crate::steering::Fields;
use crate::world::World;

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

    /// What frames of a queue pair need, unless it has a rate limit.
    #[cold]
    pub(super) fn frame_sender(&self, place: Place, env: &mut impl Express) -> Option<Sender> {
        let qp = &self.cards[usize::from(place.0)].qps[usize::from(place.1)];
        if qp.attributes.rate_limit() != 0 {
            return None;
        }
        let sq = Addr { iova: qp.sq_iova, domain: qp.domain };
        let sq = ring(sq, (u64::from(qp.sq_mask) + 1) << 6, env)?;
        let port = PortId { port: qp.leaves, ..qp.port };
        let cards = self.present();
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
