//! All cards of a segment, and the wire between them.

use std::ops::Range;

use crate::address::{Gid, Guids};
use crate::cm::tables::{Cm, Manager, OutsidePorts};
use crate::device::{Device, Outcome, Outside, PortSetting};
use crate::env::Env;
use crate::gid_options::GidOptions;
use crate::gids::GidEntry;
use crate::packet::{Packet, PortId, PORTS};
use crate::plain::Plain;
use crate::wire::psn;

pub use crate::packet::MAX_CARDS;

/// The cards of a segment, or of a net in one process. Zero bytes are a world without cards.
pub type World = WorldOf<[Device]>;

/// The cards of a segment, which has room for a fixed number.
pub(crate) type SharedWorld = WorldOf<[Device; MAX_CARDS]>;

/// See [`World`].
#[derive(Plain)]
#[repr(C)]
pub struct WorldOf<C: ?Sized> {
    /// How many cards there are.
    count: u16,
    /// Their connection manager.
    pub cm: Cm,
    /// The cards.
    pub cards: C,
}

impl World {
    /// Makes `count` cards of zeroed memory.
    pub fn init(&mut self, count: u16, limits: fpga_regs::CardLimits, port: PortSetting) {
        self.count = count.min(self.cards.len() as u16);
        for id in 0..self.count {
            self.cards[id as usize].init(id, self.count, limits, port);
        }
    }

    /// How many cards there are; never more than there can be, whatever is in shared memory.
    #[inline(always)]
    pub fn count(&self) -> u16 {
        self.count.min(self.cards.len() as u16)
    }

    /// The cards that there are.
    #[inline]
    pub(crate) fn present(&self) -> &[Device] {
        &self.cards[..usize::from(self.count())]
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn present_mut(&mut self) -> &mut [Device] {
        let count = usize::from(self.count());
        &mut self.cards[..count]
    }

    /// The cards keep so many packets of each side of a queue pair that come out of order: selective repeat; 0: go-back-N.
    pub fn set_reorder(&mut self, packets: u32) {
        self.cards.iter_mut().for_each(|card| card.reorder.set_limit(packets));
    }

    /// The cards have these GUIDs. What they number, queue pairs and connections, has other numbers than with another
    /// `salt`: a peer elsewhere may still have connections of an earlier net, with the same GUIDs.
    pub fn name_cards(&mut self, guids: Guids, salt: u32) {
        self.cm.salt = salt;
        self.cards.iter_mut().for_each(|card| (card.guids, card.salt) = (guids, salt as u8));
    }

    /// Connects a port to something outside of the segment, where it has these GIDs.
    pub fn connect_outside(&mut self, port: PortId, outside: Outside, gids: &[GidEntry]) {
        let own = self.present_mut().get_mut(usize::from(port.card));
        if let Some(to) = own.and_then(|card| card.outside.get_mut(usize::from(port.port))) {
            *to = outside;
            self.present_mut().iter_mut().for_each(|card| card.gids.set(port, gids));
        }
    }

    /// Adds what the GID tables of a new net are to have.
    pub fn add_gids(&mut self, options: &GidOptions) {
        let gids = &self.cards[0].gids;
        let own = self.ports().flat_map(|port| gids.of(port).map(move |entry| (port, *entry)));
        // Those of ports that lead outside are here already.
        let all = options.complete(own.collect());
        self.present_mut().iter_mut().for_each(|card| card.gids.follow(&all));
    }

    /// All ports.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> {
        PortId::of_cards(self.count())
    }

    /// Whether there is such a port.
    pub(crate) fn has_port(&self, port: PortId) -> bool {
        port.card < self.count() && usize::from(port.port) < PORTS
    }

    /// Whether the medium of a port is outside of the segment.
    pub fn is_outside(&self, port: PortId) -> bool {
        let card = self.present().get(usize::from(port.card));
        card.and_then(|card| card.outside.get(usize::from(port.port))).is_some_and(|outside| outside.on.get())
    }

    /// The ports have these GIDs from now on, but for those that lead outside: see [`GidTables::follow`](crate::gids::GidTables::follow).
    pub fn follow(&mut self, wanted: &[(PortId, GidEntry)]) {
        let here = |port: PortId| port.card < self.count() && !self.is_outside(port);
        let kept = self.ports().filter(|&port| self.is_outside(port));
        let kept = kept.flat_map(|port| self.cards[0].gids.of(port).map(move |gid| (port, *gid)));
        let wanted: Vec<_> = wanted.iter().filter(|(port, _)| here(*port)).copied().chain(kept).collect();
        self.present_mut().iter_mut().for_each(|card| card.gids.follow(&wanted));
    }

    /// Closes all functions of a process that is gone.
    pub fn detach(&mut self, member: u16, env: &mut impl Env) {
        // First: its events are told to a function.
        self.manager(env).member_gone(member);
        self.present_mut().iter_mut().for_each(|card| card.detach_domain(member, env));
        // Its threads may have left queue pairs pending whose other ends they had.
        for card in self.present_mut() {
            card.end_all_overrun_cqs(env);
            card.qps_from(0).for_each(|q| card.resume_send(q, env));
        }
    }

    /// The cards that a packet reaches: that of its port, or all (multicast; the sender's own card loops it back to its
    /// other QPs).
    #[inline(always)]
    pub fn reached(&self, p: &Packet) -> Range<u16> {
        let (card, count) = (p.dst.card, self.count());
        match p.dst {
            _ if card < count => card..card + 1,
            PortId::ALL => 0..count,
            _ => 0..0,
        }
    }

    /// A packet arrives at every card that it reaches: see [`deliver_to`](Self::deliver_to).
    #[inline(always)]
    pub fn deliver(&mut self, p: &Packet, direct: bool, env: &mut impl Env) {
        for card in self.reached(p) {
            self.deliver_to(card, p, direct, env);
        }
    }

    /// A packet arrives at a card that it [reaches](Self::reached). `direct`: an acknowledgement may be given to the
    /// requester at once, instead of as a packet, because no frame is observed.
    #[inline(always)]
    pub fn deliver_to(&mut self, card: u16, p: &Packet, direct: bool, env: &mut impl Env) {
        let known = p.src.card < self.count();
        match self.cards[card as usize].receive(p, env) {
            Outcome::Done => {}
            Outcome::Acknowledge { psn, to } => {
                // To the QP that the responder is connected to, which need not be the requester.
                let direct = direct && known && to == p.src_qpn;
                if !(direct && self.cards[p.src.card as usize].acknowledged(p, psn, env)) {
                    self.cards[card as usize].send_plain_ack(p, psn, env);
                }
            }
            Outcome::Management => self.management(p, env),
            Outcome::Unread => {
                self.cards[card as usize].never_came(p);
                self.unread(p, env);
            }
        }
    }

    /// The connection manager, to be given something to do.
    pub fn manager<'a, E: Env>(&'a mut self, env: &'a mut E) -> Manager<'a, E> {
        let mut outside = OutsidePorts::default();
        self.ports().filter(|&port| self.is_outside(port)).for_each(|port| outside.insert(port));
        let (cards, card) = (self.count(), &self.cards[0]);
        Manager {
            cards,
            devices: &self.cards,
            guids: card.guids,
            gids: &card.gids,
            port: card.port,
            outside,
            cm: &mut self.cm,
            env,
        }
    }

    /// Neighbours on a port's link have answered, as [`Env::ask`] has asked for them.
    pub fn found(&mut self, port: PortId, ips: &[Gid], env: &mut impl Env) {
        let mut manager = self.manager(env);
        ips.iter().for_each(|ip| manager.found(port, ip));
    }

    /// A datagram for QP 1, the general services' QP.
    #[cold]
    pub(crate) fn management(&mut self, p: &Packet, env: &mut impl Env) {
        // What cannot be read is lost.
        let _ = self.manager(env).datagram(p);
    }

    /// The payload of a packet cannot be read: its sender's memory failed.
    #[cold]
    pub fn unread(&mut self, p: &Packet, env: &mut impl Env) {
        if p.src.card < self.count() {
            self.cards[p.src.card as usize].unread(p, env);
        }
    }

    /// The payload of a packet is read, whatever became of the packet: without an answer to wait for, its sender is done.
    #[inline]
    pub fn left(&mut self, p: &Packet, env: &mut impl Env) {
        // More frames of its message follow.
        let goes_on = p.is_frame() && !p.last;
        let Some(card) = self.cards.get_mut(p.src.card as usize).filter(|_| !goes_on) else { return };
        if let Some(q) = card.find_qp(p.src_qpn) {
            card.left_before(q, psn::add(p.psn, p.count), env);
        }
    }

    /// The earliest deadline (ns) of the cards' queue pairs and completion queues, and of the connection manager.
    pub fn next_deadline(&self) -> Option<u64> {
        let cards = self.present().iter().filter_map(Device::next_deadline).min();
        cards.into_iter().chain(self.cm.next_deadline()).min()
    }

    /// Runs all timers that are due; returns the next deadline.
    pub fn run_timers(&mut self, env: &mut impl Env) -> Option<u64> {
        let cards = self.present_mut().iter_mut().filter_map(|card| card.run_timers(env, |_| {})).min();
        let lacp = self.run_lacp(env);
        cards.into_iter().chain(self.manager(env).run_timers()).chain(lacp).min()
    }
}
