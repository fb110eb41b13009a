//! Which queue pairs have to be run by one thread at a time: an *island* is what hangs together by connections,
//! datagrams, frames and SRQs. A CQ may be shared by several.
//!
//! A connection joins an island when one of its ends sends for the first time, with all the cards; a UD queue pair
//! joins that of each one that it sends to, and a raw packet queue pair those of all that get a copy. Whatever changes what
//! hangs together makes all labels void ([`Device::islands_void`](crate::device::Device)), and from time to time a thread
//! that others are in the way of does; queue pairs in use join again with their next message. One without a valid label is
//! run with all the cards.

use fpga_regs::QpType;

use crate::cells::Bells;
use crate::packet::{Packet, PortId};
use crate::segment::{Label, Reach};
use crate::world::World;

/// A queue pair: card and index.
type Place = (u16, usize);
/// The queue pairs that messages go between, as far as they exist.
pub(crate) type Ends = [Option<Place>; 2];

impl World {
    /// Joins queue pairs, if the functions of none of them are `apart`. With all the cards.
    #[cold]
    pub(crate) fn join(
        &mut self,
        bells: &[Bells],
        ends: Ends,
        reach: &Reach<'_>,
        apart: impl Fn(u16, u16) -> bool,
    ) {
        let ends = || ends.into_iter().flatten();
        if ends().any(|(card, q)| apart(card, self.cards[card as usize].qps[q].function)) {
            return;
        }
        let segment = reach.segment();
        let mut joined: Option<Label> = None;
        for place in ends() {
            for label in self.labels(bells, place).into_iter().filter(|&label| segment.is_valid(label)) {
                match joined {
                    Some(joined) if joined != label => self.rename(bells, label, joined),
                    _ => joined = Some(label),
                }
            }
        }
        let label = joined.unwrap_or_else(|| reach.new_island(ends().next().map_or(0, |(_, q)| q as u32)));
        for (card, q) in ends() {
            let device = &mut self.cards[card as usize];
            let qp = &device.qps[q];
            let (cqs, srq) = ([qp.send_cq, qp.recv_cq], qp.has_srq.get().then_some(qp.srq));
            for cqn in cqs {
                let cq = &mut device.cqs[cqn as usize];
                let known = segment.is_valid(cq.island);
                cq.shared = (known && (cq.shared.get() || cq.island != label)).into();
                cq.special = (cq.shared.get() || cq.overrun.get() || cq.stamped.get()).into();
                if !known {
                    cq.island = label;
                }
            }
            if let Some(srq) = srq {
                device.srqs[srq as usize].island = label;
            }
            bells[card as usize].qp[q].set_label(label);
        }
        // What was found out about them before is another generation's.
        segment.control(label.island()).new_generation();
    }

    /// A queue pair and the one that it is connected with, if that is connected with it. Alone is one whose peer is
    /// outside of the segment.
    pub(crate) fn connection(&self, own: Place) -> Ends {
        let peer = self.peer(own);
        let alone = || self.leads_outside(own).then_some(own);
        [peer.map(|_| own).or_else(alone), peer]
    }

    /// Whether a queue pair is connected to one outside of the segment.
    fn leads_outside(&self, (card, q): Place) -> bool {
        let Some(qp) = self.cards.get(usize::from(card)).and_then(|card| card.qps.get(q)) else {
            return false;
        };
        let connected = matches!(qp.qp_type, QpType::RC | QpType::UC) && qp.used.get();
        connected && qp.dest == PortId::NOBODY && self.is_outside(qp.port)
    }

    /// The queue pairs that a datagram goes between. Alone is a sender to nobody, or to a group.
    pub(crate) fn ends(&self, p: &Packet) -> Ends {
        [(p.src.card, p.src_qpn), (p.dst.card, p.dest_qpn)].map(|(card, qpn)| {
            let device = (card < self.count()).then(|| &self.cards[card as usize])?;
            let found = device.find_qp(qpn).filter(|&q| device.qps[q].qp_type == QpType::UD);
            found.map(|q| (card, q))
        })
    }

    /// The queue pair that one is connected with, if that is connected with it.
    pub(crate) fn peer(&self, (card, q): Place) -> Option<Place> {
        let qp = &self.cards[card as usize].qps[q];
        let connected = matches!(qp.qp_type, QpType::RC | QpType::UC) && qp.used.get();
        if !connected || qp.dest.card >= self.count() {
            return None;
        }
        let device = &self.cards[qp.dest.card as usize];
        let peer = device.find_qp(qp.dest_qpn)?;
        let other = &device.qps[peer];
        let mutual = other.qp_type == qp.qp_type
            && other.dest == qp.port
            && other.dest_qpn == qp.qpn
            && other.port == qp.dest;
        mutual.then_some((qp.dest.card, peer))
    }

    fn labels(&self, bells: &[Bells], (card, q): Place) -> [Label; 2] {
        let device = &self.cards[card as usize];
        let qp = &device.qps[q];
        let srq = qp.has_srq.get().then(|| device.srqs[qp.srq as usize].island);
        [bells[card as usize].qp[q].label(), srq.unwrap_or_default()]
    }

    /// One island becomes a part of another.
    fn rename(&mut self, bells: &[Bells], from: Label, to: Label) {
        for (device, bells) in self.present_mut().iter_mut().zip(bells) {
            device.rename_island(from, to);
            let qps = device.qps_from(0).map(|q| &bells.qp[q]);
            qps.filter(|bells| bells.label() == from).for_each(|bells| bells.set_label(to));
        }
    }

    /// What hangs together may have changed.
    pub(crate) fn void_islands(&mut self) {
        self.cards[0].islands_void = true.into();
    }

    /// Whether it may have.
    pub(crate) fn islands_are_void(&self) -> bool {
        self.present().iter().any(|card| card.islands_void.get())
    }

    /// All labels are void.
    pub(crate) fn find_islands_anew(&mut self) {
        self.cards.iter_mut().for_each(|card| card.islands_void = false.into());
    }
}
