//! Selective repeat: packets that come out of order are kept whole until those before them have come.
//!
//! A card has memory for some sides of queue pairs at a time, each with room for so many packets, as an FPGA has packet
//! memory beside it. What finds no room is dropped, and the side goes back to what is missing, as all of them do with go-back-N.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::env::Env;
use crate::packet::{Packet, Payload};
use crate::plain::{Kept, Plain};
use crate::wire::{psn, Operation};

/// Most packets that one side of a queue pair keeps.
pub const MAX_KEPT: usize = 128;
/// Sides of queue pairs, of those of one card, that keep packets at the same time.
const BUFFERS: usize = 32;
/// Most bytes of a packet's payload.
const MTU: usize = 4096;
/// In a PSN: there is a packet.
const TAKEN: u32 = 1 << 31;
/// And it is an acknowledgement, which may have the PSN of an answer with data.
const ACK: u32 = 1 << 30;

/// A side of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The responder, which keeps requests.
    Requests,
    /// The requester, which keeps answers.
    Answers,
}

impl Side {
    /// Its name among those of a card; not 0, which is nobody's.
    fn of(self, q: usize) -> u32 {
        (q as u32) << 1 | 1 << 31 | u32::from(self == Side::Answers)
    }
}

/// What became of a packet that came out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is kept.
    Kept,
    /// It was kept already.
    Again,
    /// There is no room for it beside those that are kept.
    Full,
    /// The side keeps nothing.
    Refused,
}

/// Packets of one side.
#[derive(Plain)]
#[repr(C)]
struct Buffer {
    /// PSNs, with [`TAKEN`] and [`ACK`].
    psns: [u32; MAX_KEPT],
    packets: [Kept<Packet>; MAX_KEPT],
    payloads: [[u8; MTU]; MAX_KEPT],
}

impl Buffer {
    fn kept(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.psns.iter().copied().enumerate().filter(|(_, psn)| psn & TAKEN != 0)
    }
}

/// The packet memory of a card.
#[derive(Plain)]
#[repr(C)]
pub struct Reorder {
    /// Packets that one side of a queue pair may keep; 0: go-back-N.
    limit: u32,
    /// By buffer: the side that it is of. Atomic, as queue pairs of several islands take one.
    owners: [AtomicU32; BUFFERS],
    buffers: [Buffer; BUFFERS],
}

impl Reorder {
    /// One side of a queue pair may keep so many packets, at most [`MAX_KEPT`]; with 0 the card goes back.
    pub(crate) fn set_limit(&mut self, packets: u32) {
        self.limit = packets.min(MAX_KEPT as u32);
    }

    /// See [`set_limit`](Self::set_limit).
    #[inline]
    pub(super) fn limit(&self) -> u32 {
        self.limit.min(MAX_KEPT as u32)
    }

    fn find(&self, owner: u32) -> Option<usize> {
        self.owners.iter().position(|place| place.load(Ordering::Relaxed) == owner)
    }

    fn buffer(&self, q: usize, side: Side) -> Option<&Buffer> {
        self.find(side.of(q)).map(|at| &self.buffers[at])
    }

    /// The buffer of a side, which takes one if it has none.
    fn take(&mut self, q: usize, side: Side) -> Option<&mut Buffer> {
        let owner = side.of(q);
        if let Some(at) = self.find(owner) {
            return Some(&mut self.buffers[at]);
        }
        let free = |place: &AtomicU32| {
            place.compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let at = self.owners.iter().position(free)?;
        self.buffers[at].psns = [0; MAX_KEPT];
        Some(&mut self.buffers[at])
    }

    /// Keeps a packet, with its payload.
    pub(super) fn keep(&mut self, q: usize, side: Side, p: &Packet, env: &mut impl Env) -> Fate {
        let (limit, len) = (self.limit() as usize, p.payload.len());
        // Trains do not get lost, nor do they come out of order.
        if limit == 0 || p.count != 1 || len > MTU {
            return Fate::Refused;
        }
        let Some(buffer) = self.take(q, side) else { return Fate::Refused };
        let taken = p.psn & !ACK | TAKEN | if p.operation == Operation::Acknowledge { ACK } else { 0 };
        if buffer.psns.contains(&taken) {
            return Fate::Again;
        }
        let Some(place) = buffer.psns[..limit].iter().position(|psn| psn & TAKEN == 0) else {
            return Fate::Full;
        };
        if env.payload(&p.payload, &mut buffer.payloads[place][..len]).is_err() {
            return Fate::Full;
        }
        // Where its bytes are now.
        let payload = if len == 0 { Payload::None } else { Payload::Stash(0, len as u32) };
        buffer.packets[place].set(Packet { payload, ..*p });
        buffer.psns[place] = taken;
        Fate::Kept
    }

    /// The kept packet with the lowest PSN, those before `from` included, and its place.
    pub(super) fn first(&self, q: usize, side: Side, from: u32) -> Option<(usize, Packet)> {
        let buffer = self.buffer(q, side)?;
        let (place, _) = buffer.kept().min_by_key(|(_, psn)| (psn::diff(*psn, from), psn & ACK))?;
        Some((place, buffer.packets[place].get()))
    }

    /// One past the highest PSN that is kept, at least `from`.
    pub(super) fn end(&self, q: usize, side: Side, from: u32) -> u32 {
        let kept = self.buffer(q, side).into_iter().flat_map(Buffer::kept);
        let ahead = kept.map(|(_, psn)| psn::diff(psn, from) + 1).max().unwrap_or(0);
        psn::add(from, ahead.max(0) as u32)
    }

    /// Takes a packet out of its place, whose payload is the environment's then: [`Env::stash`].
    pub(super) fn remove(
        &mut self,
        q: usize,
        side: Side,
        place: usize,
        env: &mut impl Env,
    ) -> Option<Packet> {
        let at = self.find(side.of(q))?;
        let buffer = &mut self.buffers[at];
        let taken = buffer.psns.get_mut(place)?;
        *taken = 0;
        let mut p = buffer.packets[place].get();
        let len = p.payload.len().min(MTU);
        p.payload = if len == 0 { Payload::None } else { env.stash(&buffer.payloads[place][..len]) };
        Some(p)
    }

    /// A side keeps nothing any more.
    pub(super) fn release(&self, q: usize, side: Side) {
        if let Some(at) = self.find(side.of(q)) {
            self.owners[at].store(0, Ordering::Release);
        }
    }
}
