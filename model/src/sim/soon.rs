//! What the next events need, asked for before their time.
//!
//! With many cards each event is of another card than the last one, and what it needs is in no cache. Near the top of
//! the queue it is known which events are next: while others are executed, the processor fetches what these will read.

use super::engine::Engine;
use super::event::Event;
use super::fabric::connector;
use super::heap::{self, Depth};
use super::state::{place, CardTime, Sim};
use crate::device::Device;
use crate::here::Here;
use crate::packet::{PortId, MAX_CARDS};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Asks for the first lines of something.
#[inline(always)]
fn lines<T>(it: &T, count: u64) {
    let at = Here::new(std::ptr::from_ref(it).cast_mut().cast());
    (0..count).for_each(|n| at.add(n * LINE).prefetch());
}

impl Engine<'_> {
    /// Takes the first event of the queue.
    #[inline]
    pub(super) fn take_next(&mut self) -> Option<heap::Event> {
        let Sim { queue, events, slots, switch, cards: times, payload, .. } = &mut *self.env.sim;
        let cards = &self.world.cards;
        // The caches hold what so few need.
        if cards.len() <= MAX_CARDS {
            return queue.pop(|_, _| {});
        }
        // Each step asks for what the next one reads: the event, its packet, the state of its card.
        queue.pop(|depth, item| {
            let place = place(item);
            if depth == Depth::Third {
                return lines(events.get(place), 2);
            }
            let Some(event) = events.get(place).read() else { return };
            let first = depth == Depth::First;
            match event {
                Event::Ready { slot } | Event::Arrive { slot } | Event::ToSwitch { slot, .. } if !first => {
                    lines(slots.get(slot), 4);
                }
                Event::Ready { slot } | Event::Arrive { slot } | Event::ToSwitch { slot, .. } => {
                    let Some(packet) = slots.get(slot).packet.read() else { return };
                    match event {
                        Event::ToSwitch { .. } => [packet.src, packet.dst]
                            .map(|id| connector(id).into_iter().for_each(|at| lines(&switch.ports[at], 3))),
                        Event::Ready { .. } => {
                            [port(times, packet.src), pair(cards, times, packet.src.card, packet.src_qpn)]
                        }
                        _ => [port(times, packet.dst), pair(cards, times, packet.dst.card, packet.dest_qpn)],
                    };
                }
                _ if first => {}
                Event::Mac { card, port: number } | Event::Depart { card, port: number, .. } => {
                    port(times, PortId { card, port: number });
                }
                Event::Due { card, port: number, flow } => {
                    port(times, PortId { card, port: number });
                    pair(cards, times, card, u32::from(flow / 2));
                }
                Event::Send { card, qp } => pair(cards, times, card, qp.into()),
                Event::Write { slot, .. } => lines(&payload[slot as usize], 4),
                _ => {}
            }
        })
    }
}

/// The state of a port.
#[inline]
fn port(times: &[CardTime], PortId { card, port }: PortId) {
    let Some(card) = times.get(usize::from(card)) else { return };
    lines(card, 4);
    card.ports.get(usize::from(port)).into_iter().for_each(|port| lines(port, 2));
}

/// The state of a queue pair: the times, and what the card knows of it.
#[inline]
fn pair(cards: &[Device], times: &[CardTime], card: u16, qpn: u32) {
    let (card, qp) = (usize::from(card), (qpn & 0xffff) as usize);
    if let Some(qp) = times.get(card).and_then(|card| card.qps.get(qp)) {
        lines(qp, 4);
    }
    if let Some(qp) = cards.get(card).and_then(|card| card.qps.get(qp)) {
        lines(qp, 3);
        lines(&qp.req, 4);
        lines(&qp.resp, 2);
        lines(&qp.recv, 2);
    }
}
