//! Which queue pairs have to be run by one thread at a time: an *island* is what hangs together by connections, CQs and
//! SRQs.
//!
//! A connection joins an island when one of its ends sends for the first time, with all the cards. Whatever changes
//! what hangs together makes all labels void ([`Device::islands_void`](crate::device::Device)); connections in use join
//! again with their next message. A queue pair without a valid label is run with all the cards.

use fpga_regs::QpType;

use crate::cells::Bells;
use crate::segment::{Label, Reach};
use crate::world::{World, MAX_CARDS};

/// A queue pair: card and index.
type Place = (u8, usize);

impl World {
    /// Joins a queue pair and its peer, if they are connected with each other, and the functions of neither are `apart`.
    /// With all the cards.
    #[cold]
    pub(crate) fn join(
        &mut self,
        bells: &[Bells; MAX_CARDS],
        own: Place,
        reach: &Reach<'_>,
        apart: impl Fn(u8, u16) -> bool,
    ) {
        let Some(peer) = self.peer(own) else { return };
        if [own, peer].iter().any(|&(card, q)| apart(card, self.cards[card as usize].qps[q].function)) {
            return;
        }
        let segment = reach.segment();
        let mut joined: Option<Label> = None;
        for place in [own, peer] {
            for label in self.labels(bells, place).into_iter().filter(|&label| segment.is_valid(label)) {
                match joined {
                    Some(joined) if joined != label => self.rename(bells, label, joined),
                    _ => joined = Some(label),
                }
            }
        }
        let label = joined.unwrap_or_else(|| reach.new_island(own.1 as u32));
        for (card, q) in [own, peer] {
            let device = &mut self.cards[card as usize];
            let qp = &device.qps[q];
            let (send, recv, srq) = (qp.send_cq, qp.recv_cq, qp.has_srq.get().then_some(qp.srq));
            device.cqs[send as usize].island = label;
            device.cqs[recv as usize].island = label;
            if let Some(srq) = srq {
                device.srqs[srq as usize].island = label;
            }
            bells[card as usize].qp[q].set_label(label);
        }
        // What was found out about them before is another generation's.
        segment.control(label.island()).new_generation();
    }

    /// The queue pair that one is connected with, if that is connected with it.
    fn peer(&self, (card, q): Place) -> Option<Place> {
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

    fn labels(&self, bells: &[Bells; MAX_CARDS], (card, q): Place) -> [Label; 4] {
        let device = &self.cards[card as usize];
        let qp = &device.qps[q];
        let srq = qp.has_srq.get().then(|| device.srqs[qp.srq as usize].island);
        [
            bells[card as usize].qp[q].label(),
            device.cqs[qp.send_cq as usize].island,
            device.cqs[qp.recv_cq as usize].island,
            srq.unwrap_or_default(),
        ]
    }

    /// One island becomes a part of another.
    fn rename(&mut self, bells: &[Bells; MAX_CARDS], from: Label, to: Label) {
        let count = usize::from(self.count());
        for (device, bells) in self.cards[..count].iter_mut().zip(bells) {
            device.rename_island(from, to);
            let qps = device.qps_from(0).map(|q| &bells.qp[q]);
            qps.filter(|bells| bells.label() == from).for_each(|bells| bells.set_label(to));
        }
    }

    /// Whether what hangs together has changed.
    pub(crate) fn islands_are_void(&self) -> bool {
        self.cards[..usize::from(self.count())].iter().any(|card| card.islands_void.get())
    }

    /// All labels are void.
    pub(crate) fn find_islands_anew(&mut self) {
        self.cards.iter_mut().for_each(|card| card.islands_void = false.into());
    }
}
