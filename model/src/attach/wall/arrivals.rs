//! Packets from outside are brought to the cards, with the lock of the island of the queue pair that they are for.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::time::{Duration, Instant};

use fpga_regs::regs::port as registers;

use super::env::WallEnv;
use super::runner::{make_way, Runner, TRIES};
use super::scratch::Again;
use crate::device::tables::MAX_QPS;
use crate::device::{Counters, Outcome};
use crate::journal::{self, Journal};
use crate::link::outside::{Arrival, Arrivals, Drop, OutsidePort};
use crate::link::LinkEnv;
use crate::packet::{Packet, PortId, PORTS};
use crate::segment::{Entry, Label, Segment};
use crate::wire::{Extra, Operation, Transport};
use crate::world::World;

/// How long packets wait for the cards.
const PATIENCE: Duration = Duration::from_secs(1);
/// The general services' QP, and the QPN of a multicast group's members.
const SPECIAL: [u32; 2] = [crate::cm::mad::GSI_QPN, 0xff_ffff];

/// Which lock packets need.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// That of the queue pair's island, if it has one.
    Island(u16, Label),
    /// All the cards.
    All(u16),
}

impl<S: Borrow<Segment>> Runner<S> {
    /// Delivers packets that have come to a port from outside.
    pub fn arrive(&self, (id, port): (PortId, &OutsidePort), arrivals: &Arrivals) {
        arrivals.dropped().for_each(|(why, count)| self.count((id, port), why, count));
        let (mut list, bytes) = arrivals.packets();
        while let Some(first) = list.first() {
            let Some(need) = self.need(id, &first.packet) else {
                self.count((id, port), Drop::NoQp, 1);
                list = &list[1..];
                continue;
            };
            let rest = list.iter().skip(1).take_while(|next| self.need(id, &next.packet) == Some(need));
            let (now, later) = list.split_at(1 + rest.count());
            self.arrive_together((id, port), need, now, bytes);
            list = later;
        }
    }

    /// `None`: there is no such queue pair, which costs nobody anything.
    fn need(&self, port: PortId, p: &Packet) -> Option<Need> {
        if p.transport == Transport::UD && SPECIAL.contains(&p.dest_qpn) {
            return Some(Need::All(0));
        }
        let index = (p.dest_qpn & 0xffff) as u16;
        let bells = self.net().bells.get(usize::from(port.card))?.qp.get(usize::from(index))?;
        if usize::from(index) >= MAX_QPS || !(bells.exists() || p.transport == Transport::XRC) {
            return None;
        }
        // Keys that are invalidated concern routes of any island.
        let all = p.transport == Transport::XRC || p.extra == Extra::Invalidate;
        Some(if all { Need::All(index) } else { Need::Island(index, bells.label()) })
    }

    fn arrive_together(&self, port: (PortId, &OutsidePort), need: Need, list: &[Arrival], bytes: &[u8]) {
        let card = port.0.card;
        let (qp, all) = match need {
            Need::Island(qp, _) => (qp, false),
            Need::All(qp) => (qp, true),
        };
        let until = Instant::now() + PATIENCE;
        for tries in 0.. {
            match self.enter(Again { card, qp, all }) {
                Entry::Entered(island) => {
                    let more = self.run(&island, |world, env| {
                        env.take_all(world, port, list, bytes);
                        env.finish(world)
                    });
                    drop(island);
                    self.run_again(more);
                    return;
                }
                Entry::Busy if tries < TRIES => make_way(tries),
                Entry::Busy if Instant::now() < until => {
                    self.segment().wait_outside(self.bells(card, qp).label(), PATIENCE);
                }
                Entry::Busy => break,
                Entry::Closed => {
                    let Ok(guard) = self.segment().lock(PATIENCE) else { break };
                    self.run_all(guard, |world, env| {
                        env.take_all(world, port, list, bytes);
                        let ends = world.connection((card, qp.into()));
                        env.join(world, ends);
                    });
                    return;
                }
            }
        }
        self.count(port, Drop::Busy, list.len() as u64);
    }

    /// Counts packets that are dropped, by reason and as the card's registers have it.
    fn count(&self, (id, port): (PortId, &OutsidePort), why: Drop, count: u64) {
        // SAFETY: a port's counters are atomics, which need no lock.
        let counters = unsafe { &raw const (*self.net().world.get()).cards[usize::from(id.card)].counters };
        // SAFETY: as above.
        unsafe { count_drop(&*counters, (id, port), why, count) };
    }
}

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
            if let Err(why) = check(world, id, arrival) {
                let counters = &world.cards[usize::from(id.card)].counters;
                count_drop(counters, (id, port), why, 1);
                continue;
            }
            let mut p = arrival.packet;
            let payload = bytes.get(arrival.payload.clone()).unwrap_or_default();
            if !payload.is_empty() {
                p.payload = self.land(payload);
            }
            let plain = matches!(p.operation, Operation::Send | Operation::Write);
            if owed.is_some_and(|(before, _)| before.dest_qpn != p.dest_qpn || !plain) {
                self.acknowledge(world, id, &mut owed);
            }
            self.note(journal::one(id.card, p.dest_qpn));
            match world.cards[usize::from(id.card)].receive(&p, self) {
                Outcome::Acknowledge { psn, .. } => {
                    if owed.replace((p, psn)).is_some() {
                        world.cards[usize::from(id.card)].unsent_ack(p.dest_qpn);
                    }
                }
                Outcome::Management => world.management(&p, self),
                // The sender is not here, so nothing of its memory is read.
                Outcome::Done | Outcome::Unread => {}
            }
        }
        self.acknowledge(world, id, &mut owed);
    }

    fn acknowledge(&mut self, world: &mut World, port: PortId, owed: &mut Owed) {
        if let Some((p, psn)) = owed.take() {
            world.cards[usize::from(port.card)].send_plain_ack(&p, psn, self);
        }
    }
}

fn count_drop(counters: &[Counters; PORTS], (id, port): (PortId, &OutsidePort), why: Drop, count: u64) {
    port.dropped(why, count);
    let register = match why {
        Drop::Icrc => registers::RX_ICRC_ERRORS,
        Drop::Malformed | Drop::Pkey => registers::RX_MALFORMED,
        Drop::NoQp | Drop::Stranger | Drop::NotHere => registers::RX_NO_QP,
        Drop::Busy => registers::RX_OVERFLOW,
        Drop::Unsent => return,
    };
    counters[usize::from(id.port) % PORTS].add(register, count);
}

/// Whether a packet may touch the queue pair that it names: only the connected peer's address may.
fn check(world: &World, port: PortId, arrival: &Arrival) -> Result<(), Drop> {
    let Arrival { packet: p, from, to, .. } = arrival;
    let card = &world.cards[usize::from(port.card)];
    if p.transport == Transport::UD {
        let group = crate::wire::path::multicast_mac(to).is_some();
        return if group || card.gids.has(port, to) { Ok(()) } else { Err(Drop::NotHere) };
    }
    let qp = &card.qps[card.find_qp(p.dest_qpn).ok_or(Drop::NoQp)?];
    if qp.port != port || qp.transport() != p.transport || !qp.receives() {
        return Err(Drop::NoQp);
    }
    if qp.dest != PortId::NOBODY || qp.attributes.dgid() != *from {
        return Err(Drop::Stranger);
    }
    match card.gids.source(port, qp.attributes.sgid_index()) == *to {
        true => Ok(()),
        false => Err(Drop::NotHere),
    }
}
