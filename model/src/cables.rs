//! The cables of a net: which ports reach each other, and what is lost where one is pulled.
//!
//! With two cards, port P of one and port P of the other are the ends of one cable; with one card, its two ports are. Beyond
//! that the net is a switch, and each port has a cable to it.

use fpga_regs::regs::port;

use crate::env::Env;
use crate::packet::{PortId, PORTS};
use crate::world::World;

impl World {
    /// The port at the other end of a port's cable; `None` if that is a switch, or outside.
    pub fn far_end(&self, PortId { card, port }: PortId) -> Option<PortId> {
        let other = match self.count() {
            1 => PortId { card, port: (port + 1) % PORTS as u8 },
            2 => PortId { card: 1 - card.min(1), port },
            _ => return None,
        };
        (!self.is_outside(PortId { card, port }) && !self.is_outside(other)).then_some(other)
    }

    /// Whether the link of a port is up at `now` (ns); that of a port of another net is.
    #[inline]
    pub(crate) fn is_up(&self, port: PortId, now: impl FnOnce() -> u64) -> bool {
        port.card >= self.count() || self.cards[usize::from(port.card)].link_at(port.port, now)
    }

    /// Whether a port has traffic at `now` (ns): its link is up, and it is not left out by those that it is one with.
    #[inline]
    fn carries(&self, port: PortId, now: impl FnOnce() -> u64) -> bool {
        let card = self.cards.get(usize::from(port.card));
        self.is_up(port, now) && card.is_none_or(|card| card.lag.takes_part(port.port))
    }

    /// Pulls the cable of a port or plugs it in, at both of its ends.
    pub fn plug(&mut self, port: PortId, pulled: bool, env: &mut impl Env) {
        for end in [Some(port), self.far_end(port)].into_iter().flatten() {
            self.cards[usize::from(end.card)].plug(end.port, pulled, env);
        }
    }

    /// Once ports were disabled or enabled: those at the other ends of their cables follow.
    pub(crate) fn follow_peers(&mut self, env: &mut impl Env) {
        for card in 0..self.count() {
            for port in 0..PORTS as u8 {
                let end = self.far_end(PortId { card, port });
                let no_signal =
                    end.is_some_and(|end| self.cards[usize::from(end.card)].is_disabled(end.port));
                self.cards[usize::from(card)].set_no_signal(port, no_signal, env);
            }
        }
    }

    /// Whether what goes from port to port is lost because the link of one of them is down at `now` (ns).
    /// What stays within a port needs no link.
    #[inline]
    pub fn is_cut(&self, (from, to): (PortId, PortId), mut now: impl FnMut() -> u64) -> bool {
        from != to && !(self.carries(from, &mut now) && self.carries(to, now))
    }

    /// Whether both ends of a way have a link at `now` (ns).
    pub(crate) fn both_up(&self, (from, to): (PortId, PortId), now: u64) -> bool {
        self.is_up(from, || now) && self.is_up(to, || now)
    }

    /// Counts what a pulled cable loses on its way from port to port.
    #[cold]
    pub(crate) fn count_cut(&self, (from, to): (PortId, PortId), count: u64, now: u64) {
        let reached = |&at: &PortId| to == at || to == PortId::ALL && self.takes_of_all(from, at);
        self.count_lost(from, self.ports().filter(reached), count, now);
    }

    /// Counts what is lost on its way to ports without a link: where it does not leave, or else where it does not arrive.
    pub(crate) fn count_lost(&self, from: PortId, to: impl Iterator<Item = PortId>, count: u64, now: u64) {
        let lose = |at: PortId| {
            if let Some(card) = self.cards.get(usize::from(at.card)) {
                card.counters[usize::from(at.port) % PORTS].add(port::LINK_LOST, count);
            }
        };
        if !self.carries(from, || now) {
            return lose(from);
        }
        to.filter(|&at| at != from && !self.carries(at, || now)).for_each(lose);
    }
}
