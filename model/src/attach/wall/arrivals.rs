//! Packets from outside are brought to the cards, with the lock of the island of the queue pair that they are for.
//! Those that nobody takes are dropped without one.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::time::{Duration, Instant};

use fpga_regs::regs::port as registers;

use super::env::WallEnv;
use super::runner::{make_way, Runner};
use super::scratch::Again;
use crate::cm::mad::GSI_QPN;
use crate::device::{Counters, Device, Outcome, MULTICAST_QPN};
use crate::env::Env;
use crate::journal;
use crate::link::outside::{Arrival, Arrivals, Drop, OutsidePort};
use crate::packet::{Packet, PortId, CONGESTION, PORTS};
use crate::segment::{Entry, Label, LockError, Segment};
use crate::wire::{Extra, Operation, Transport};
use crate::world::World;

/// How long packets wait for a thread that has a part of the cards, while those for other parts wait for them. Longer than a
/// thread is without a core on a busy machine: what is lost is repeated after a time-out only.
const PATIENCE: Duration = Duration::from_millis(100);
/// For this long, packets do not wait for cards that others have waited for in vain.
const STUCK: Duration = Duration::from_secs(1);
/// How long they wait for one that has all the cards: no packet gets further meanwhile.
const STOPPED: Duration = Duration::from_secs(1);
/// Tries to have a part of the cards before the thread sleeps until it is free.
const MOMENTS: u32 = 4;
/// How long the thread waits before it looks after other things.
const SLICE: Duration = Duration::from_micros(500);
/// Bytes of READs that are answered before others have a turn at the cards, if it is more than one READ.
const MOST_ANSWERED: u64 = 16 << 20;
/// The general services' QP, and the QPN of a multicast group's members.
const SPECIAL: [u32; 2] = [GSI_QPN, MULTICAST_QPN];

/// Which lock packets need.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// That of the queue pair's island, if it has one.
    Island(u16, Label),
    /// All the cards.
    All(u16),
}

/// Locks that could not be had in time, of islands or of all the cards (a label that is void): until when packets do not
/// wait for them. Their holders may be stopped.
#[derive(Default)]
pub(in crate::attach) struct Stuck(Vec<(Label, Instant)>);

impl Stuck {
    /// How long to wait for a lock.
    fn patience(&mut self, label: Label, now: Instant) -> Duration {
        self.0.retain(|&(_, until)| now < until);
        if self.0.iter().any(|&(stuck, _)| stuck == label) {
            Duration::ZERO
        } else {
            PATIENCE
        }
    }

    /// It could not be had.
    fn note(&mut self, label: Label) {
        self.forget(label);
        self.0.push((label, Instant::now() + STUCK));
    }

    /// It was had.
    fn forget(&mut self, label: Label) {
        self.0.retain(|&(stuck, _)| stuck != label);
    }
}

impl<S: Borrow<Segment>> Runner<S> {
    /// Delivers packets that have come to a port from outside. While it waits for the cards it does something else, a
    /// little at a time: whoever has them may wait for that.
    pub fn arrive(
        &self,
        (id, port): (PortId, &OutsidePort),
        arrivals: &Arrivals,
        stuck: &mut Stuck,
        meanwhile: &mut dyn FnMut(),
    ) {
        self.record(id, arrivals, stuck, meanwhile);
        arrivals.dropped().for_each(|(why, count)| self.count((id, port), why, count));
        let [packets, bytes] = arrivals.foreign();
        if packets != 0 {
            self.net().counters(id.card)[usize::from(id.port) % PORTS].came(packets, bytes);
        }
        let (mut list, bytes) = arrivals.packets();
        while let Some(first) = list.first() {
            let need = match self.need(first, bytes) {
                Ok(need) => need,
                Err(why) => {
                    lose(self.net().counters(id.card), (id, port), why, &list[..1]);
                    list = &list[1..];
                    continue;
                }
            };
            let mut asked = asks_for(first);
            let rest = list.iter().skip(1).take_while(|next| {
                asked += asks_for(next);
                asked <= MOST_ANSWERED && self.need(next, bytes) == Ok(need)
            });
            let (now, later) = list.split_at(1 + rest.count());
            if !self.arrive_together((id, port), (need, now, bytes), stuck, meanwhile) {
                lose(self.net().counters(id.card), (id, port), Drop::Busy, now);
            }
            list = later;
        }
    }

    /// Delivers whole frames that have come to a port, if somebody asks for such. What cannot be delivered in time is lost.
    pub fn arrive_whole(
        &self,
        (id, port): (PortId, &OutsidePort),
        arrivals: &Arrivals,
        meanwhile: &mut dyn FnMut(),
    ) {
        let count = arrivals.whole().count() as u64;
        // SAFETY: a card of this net.
        if count == 0 || !unsafe { Device::asks_for_frames(self.net().card(id.card)) } {
            return;
        }
        if !self.with_all(PATIENCE, meanwhile, |world, env| env.take_whole(world, id, arrivals)) {
            self.count((id, port), Drop::Busy, count);
        }
    }

    /// Who observes the net sees what has come to a port as it came, before anything is decided about it.
    fn record(&self, id: PortId, arrivals: &Arrivals, stuck: &mut Stuck, meanwhile: &mut dyn FnMut()) {
        let count = arrivals.came().len() as u64;
        if count == 0 {
            return;
        }
        let all = Label::default();
        match self.with_all(stuck.patience(all, Instant::now()), meanwhile, |world, env| {
            env.record(world, id, arrivals);
        }) {
            true => stuck.forget(all),
            false => {
                stuck.note(all);
                self.net().link.live().miss((PortId::NOBODY, id), true, count);
            }
        }
    }

    /// Does something with all the cards; false if they cannot be had in this time.
    fn with_all(
        &self,
        patience: Duration,
        meanwhile: &mut dyn FnMut(),
        work: impl FnOnce(&mut World, &mut WallEnv<'_>),
    ) -> bool {
        let begin = Instant::now();
        loop {
            match self.segment().lock(SLICE) {
                Ok(guard) => {
                    self.run_all(guard, work);
                    return true;
                }
                Err(LockError::TimedOut { .. }) if begin.elapsed() < patience => meanwhile(),
                Err(_) => return false,
            }
        }
    }

    /// The lock that a packet needs; or why nobody takes it, which costs nobody anything.
    fn need(&self, arrival: &Arrival, bytes: &[u8]) -> Result<Need, Drop> {
        let Arrival { packet: p, from, to, payload } = arrival;
        let (payload, port) = (bytes.get(payload.clone()).unwrap_or_default(), p.dst);
        // SAFETY: a card of this net.
        unsafe { Device::admits(self.net().card(port.card), (p, payload), (from, to)) }?;
        if p.transport == Transport::UD && SPECIAL.contains(&p.dest_qpn) {
            return Ok(Need::All(0));
        }
        let index = (p.dest_qpn & 0xffff) as u16;
        // Keys that are invalidated concern routes of any island.
        let all = p.transport == Transport::XRC || p.extra == Extra::Invalidate;
        Ok(if all { Need::All(index) } else { Need::Island(index, self.bells(port.card, index).label()) })
    }

    /// False: the lock that they need could not be had in time.
    fn arrive_together(
        &self,
        port: (PortId, &OutsidePort),
        (need, list, bytes): (Need, &[Arrival], &[u8]),
        stuck: &mut Stuck,
        meanwhile: &mut dyn FnMut(),
    ) -> bool {
        let card = port.0.card;
        let (qp, label, all) = match need {
            Need::Island(qp, label) => (qp, label, false),
            Need::All(qp) => (qp, Label::default(), true),
        };
        let begin = Instant::now();
        let patience = stuck.patience(label, begin);
        // How long a thread that has less than all the cards was in the way.
        let mut waited = Duration::ZERO;
        for tries in 0_u32.. {
            let entry = match self.enter(Again { card, qp, all }) {
                Entry::Entered(island) => {
                    let more = self.run(&island, |world, env| {
                        env.take_all(world, port, list, bytes);
                        env.finish(world)
                    });
                    drop(island);
                    stuck.forget(label);
                    self.run_again(more);
                    return true;
                }
                // Not for longer: the thread in the way may wait for this core.
                Entry::Busy if tries < MOMENTS && !patience.is_zero() => {
                    make_way(0);
                    continue;
                }
                entry => entry,
            };
            meanwhile();
            let from = Instant::now();
            let segment = self.segment();
            if segment.is_stopped() && segment.seems_locked() && begin.elapsed() < STOPPED {
                segment.wait_outside(label, SLICE);
                continue;
            }
            if matches!(entry, Entry::Busy) {
                if waited >= patience {
                    break;
                }
                segment.wait_outside(label, SLICE);
                waited += from.elapsed();
                continue;
            }
            match segment.lock(patience.saturating_sub(waited).max(SLICE)) {
                Ok(guard) => {
                    stuck.forget(label);
                    self.run_all(guard, |world, env| {
                        env.take_all(world, port, list, bytes);
                        let ends = world.connection((card, qp.into()));
                        env.join(world, ends);
                    });
                    return true;
                }
                Err(LockError::TimedOut { .. }) => waited += from.elapsed(),
                Err(_) => break,
            }
            if waited >= patience {
                break;
            }
        }
        stuck.note(label);
        false
    }

    /// See [`count_drop`].
    fn count(&self, (id, port): (PortId, &OutsidePort), why: Drop, count: u64) {
        count_drop(self.net().counters(id.card), (id, port), why, count);
    }
}

/// In place of a queue pair that sends.
const NOT_HERE: (u16, u16) = (u16::MAX, u16::MAX);

/// An acknowledgement that a later one may stand for.
type Owed = Option<(Packet, u32)>;

impl WallEnv<'_> {
    /// Gives packets to the cards. Of acknowledgements in a row only the last is sent.
    fn take_all(
        &mut self,
        world: &mut World,
        (id, port): (PortId, &OutsidePort),
        list: &[Arrival],
        bytes: &[u8],
    ) {
        let mut owed: Owed = None;
        for arrival in list {
            let card = &world.cards[usize::from(id.card)];
            if !card.has_link(id.port) || !card.lag.takes_part(id.port) {
                world.count_cut((PortId::NOBODY, id), 1, self.now());
                continue;
            }
            let payload = bytes.get(arrival.payload.clone()).unwrap_or_default();
            if let Err(why) = check(world, arrival, payload) {
                lose(&card.counters, (id, port), why, std::slice::from_ref(arrival));
                continue;
            }
            let mut p = arrival.packet;
            if p.ecn == CONGESTION {
                card.counters[usize::from(id.port)].add(registers::RX_ECN_MARKED, 1);
            }
            let plain = matches!(p.operation, Operation::Send | Operation::Write);
            if owed.is_some_and(|(before, _)| before.dest_qpn != p.dest_qpn || !plain) {
                self.acknowledge(world, id, &mut owed);
            }
            self.note(journal::one(id.card, p.dest_qpn));
            world.arrives(&p, id);
            match self.with_arrived(payload, |env, payload| {
                p.payload = payload;
                let outcome = world.cards[usize::from(id.card)].receive(&p, env);
                if outcome == Outcome::Management {
                    world.management(&p, env);
                }
                outcome
            }) {
                Outcome::Acknowledge { psn, .. } => {
                    if owed.replace((p, psn)).is_some() {
                        world.cards[usize::from(id.card)].unsent_ack(p.dest_qpn);
                    }
                }
                // The sender is not here, so nothing of its memory is read.
                Outcome::Done | Outcome::Unread | Outcome::Management => {}
            }
        }
        self.acknowledge(world, id, &mut owed);
    }

    /// Records what has come. What a link that is down has lost has not.
    fn record(&mut self, world: &World, id: PortId, arrivals: &Arrivals) {
        if world.cards[usize::from(id.card)].has_link(id.port) {
            self.with_wire(|wire, area, _| arrivals.came().for_each(|came| wire.arrived(area, id, came)));
        }
    }

    /// Gives whole frames to those whose rules ask for them.
    fn take_whole(&mut self, world: &mut World, id: PortId, arrivals: &Arrivals) {
        for frame in arrivals.whole() {
            if !world.cards[usize::from(id.card)].has_link(id.port) {
                world.count_cut((PortId::NOBODY, id), 1, self.now());
                continue;
            }
            self.with_arrived(frame, |env, payload| {
                world.arrive_frame((PortId::NOBODY, id), NOT_HERE, (frame, &payload), env);
            });
        }
    }

    fn acknowledge(&mut self, world: &mut World, port: PortId, owed: &mut Owed) {
        if let Some((p, psn)) = owed.take() {
            world.cards[usize::from(port.card)].send_plain_ack(&p, psn, self);
        }
    }
}

/// Bytes of the answer to a packet.
fn asks_for(arrival: &Arrival) -> u64 {
    match arrival.packet.operation {
        Operation::ReadRequest => arrival.packet.dma_len.into(),
        _ => 0,
    }
}

/// Counts packets that are dropped, by reason and as the card's registers have it.
pub(super) fn count_drop(
    counters: &[Counters; PORTS],
    (id, port): (PortId, &OutsidePort),
    why: Drop,
    count: u64,
) {
    port.dropped(why, count);
    let register = match why {
        Drop::Icrc => registers::RX_ICRC_ERRORS,
        Drop::Malformed => registers::RX_MALFORMED,
        Drop::Pkey => registers::RX_PKEY_ERRORS,
        Drop::NoQp | Drop::Stranger | Drop::NotHere => registers::RX_NO_QP,
        Drop::Qkey => registers::RX_QKEY_ERRORS,
        Drop::Busy => registers::RX_OVERFLOW,
        Drop::Unsent => registers::TX_DISCARDS,
    };
    counters[usize::from(id.port) % PORTS].add(register, count);
}

/// Packets that came whole are dropped.
fn lose(counters: &[Counters; PORTS], (id, port): (PortId, &OutsidePort), why: Drop, lost: &[Arrival]) {
    let packets = lost.len() as u64;
    counters[usize::from(id.port) % PORTS].came(packets, lost.iter().map(Arrival::wire_bytes).sum());
    count_drop(counters, (id, port), why, packets);
}

/// Whether somebody takes a packet: see [`Device::admits`]; and it is for an address that the port has.
fn check(world: &World, arrival: &Arrival, payload: &[u8]) -> Result<(), Drop> {
    let Arrival { packet: p, from, to, .. } = arrival;
    let (port, card) = (p.dst, &world.cards[usize::from(p.dst.card)]);
    // SAFETY: with the lock nobody changes it.
    unsafe { Device::admits(card, (p, payload), (from, to)) }?;
    let here = if p.transport == Transport::UD {
        (crate::wire::path::multicast_mac(to).is_some() || card.gids.has(port, to))
            && card.gids.takes(port, to, p.encapsulation)
    } else {
        let connected = card.find_qp(p.dest_qpn).map(|q| &card.qps[q]);
        connected.is_some_and(|qp| card.gids.source(port, qp.attributes.sgid_index()).gid == *to)
    };
    here.then_some(()).ok_or(Drop::NotHere)
}

#[cfg(test)]
#[path = "arrivals_tests.rs"]
mod tests;
