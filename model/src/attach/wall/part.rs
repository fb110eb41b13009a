//! A run of a part of the cards: an island, or all of them; and what it leaves to another run.
#![allow(unsafe_code)]

use super::env::WallEnv;
use super::queue::Work;
use super::scratch::Again;
use crate::cells::QpBells;
use crate::env::Env;
use crate::islands::Ends;
use crate::journal;
use crate::packet::Payload;
use crate::segment::{Turn, ALL};
use crate::wire::Transport;
use crate::world::World;

/// The longest wait for the turn to use event queues and the like (ns).
pub(super) const LONGEST_TURN: u64 = 1_000_000_000;
/// And to use a CQ, which a thread that continues after that would damage.
pub(super) const LONGEST_CQ_TURN: u64 = 60_000_000_000;

impl WallEnv<'_> {
    /// Does something when it is its turn, in at most `longest` (ns).
    pub(super) fn in_turn<R>(
        &mut self,
        turn: &Turn,
        longest: u64,
        work: impl FnOnce(&mut Self, bool) -> R,
    ) -> R {
        let died = turn.take(self.guard, longest);
        let result = work(self, died);
        turn.give(self.guard);
        result
    }

    /// Does all work in the queue and what it leads to. Gives the QPs to be run again.
    #[inline]
    pub(super) fn finish(&mut self, world: &mut World) -> Vec<Again> {
        // On a wire with faults, frames may be held back that left without work in the queue.
        if self.has_work() || self.mode.is_linked() {
            self.drain(world);
        }
        while let Some((card, qp)) = self.watched() {
            world.cards[card as usize].arm_if_waiting(qp as usize, self);
        }
        self.end();
        self.again()
    }

    #[inline(never)]
    fn drain(&mut self, world: &mut World) {
        loop {
            while let Some(work) = self.next() {
                // SAFETY: the queue leaves the item alone until the next call of `next`.
                let work = unsafe { &*work };
                // What is being worked on, for crash recovery.
                match work {
                    Work::Packet(p) => {
                        self.note(journal::pair(p.dst.card, p.dest_qpn));
                        self.forget_routes_of(p.src.card, p.src_qpn as u16);
                        self.carry(world, p);
                        if !p.transport.is_reliable() {
                            self.note(journal::one(p.src.card, p.src_qpn));
                            world.left(p, self);
                            if p.transport == Transport::UD && self.guard.island() == ALL {
                                let ends = world.ends(p);
                                self.join(world, ends);
                            }
                        }
                        if let Payload::Stash(stash, _) = p.payload {
                            self.unstash(stash);
                        }
                    }
                    Work::Send { card, qp } => {
                        if self.gives_way(*card, *qp) {
                            continue;
                        }
                        let own = world.cards[usize::from(*card)]
                            .is_of((*qp).into(), self.guard.segment().member());
                        let word = if own { journal::one } else { journal::anothers };
                        self.note(word(*card, (*qp).into()));
                        self.run_send(world, *card, *qp);
                    }
                }
            }
            if !self.release(world) {
                break;
            }
        }
    }

    /// Takes the QPs to be run again.
    #[inline]
    pub fn again(&mut self) -> Vec<Again> {
        std::mem::take(&mut self.scratch.again)
    }

    /// Queue pairs send to each other, with all the cards: next time they need only their island, if nobody observes the
    /// wire, and no end is served to another machine, whose memory is reached by messages.
    pub(super) fn join(&mut self, world: &mut World, ends: Ends) {
        if self.mode.is_observed() {
            return;
        }
        let net = self.net;
        let mut labels = ends.iter().flatten().map(|&(card, q)| net.bells[card as usize].qp[q].label());
        let Some(label) = labels.next() else { return };
        if !self.guard.segment().is_valid(label) || labels.any(|other| other != label) {
            let served = |card: u16, function: u16| net.servers[card as usize][function as usize].is_served();
            world.join(&net.bells, ends, self.guard, served);
        }
    }

    /// Whether a queue pair is of the island of this run.
    pub(super) fn is_of_island(&self, qp: &QpBells) -> bool {
        let label = qp.label();
        label.island() == self.guard.island() && self.guard.segment().is_valid(label)
    }

    /// Whether a datagram may be delivered in this island: to a queue pair of it, or to nobody.
    pub(super) fn may_receive(&self, (card, qp): (u16, u16)) -> bool {
        let bells = self.net.bells.get(usize::from(card)).and_then(|bells| bells.qp.get(usize::from(qp)));
        bells.is_none_or(|qp| !qp.exists() || self.is_of_island(qp))
    }

    /// Makes the routes of a queue pair and its peer void.
    #[inline]
    pub fn forget_routes_of(&mut self, card: u16, qp: u16) {
        self.guard.control().new_generation();
        if self.guard.island() == ALL {
            let label = self.net.bells[card as usize].qp[qp as usize].label();
            if self.guard.segment().is_valid(label) {
                self.guard.segment().control(label.island()).new_generation();
            }
        }
    }

    /// Whether a QP that is not finished leaves, because a thread waits for all the cards; it is run again.
    pub fn gives_way(&mut self, card: u16, qp: u16) -> bool {
        let way = self.guard.island() != ALL && self.guard.segment().is_stopped();
        if way {
            self.scratch.again.push(Again { card, qp, all: false });
        }
        way
    }

    /// Whether QPs are to be run again.
    #[inline]
    pub fn has_again(&self) -> bool {
        !self.scratch.again.is_empty()
    }
}
