//! Carrying packets from card to card as frames.

use fpga_regs::regs::port;

use super::area::LinkArea;
use super::capture::Recorder;
use super::{frames, route};
use crate::dma::DmaFault;
use crate::journal::{self, Journal};
use crate::packet::{Packet, Payload, PortId};
use crate::wire::{DropReason, EncodeError};
use crate::world::World;

/// What the wire asks of the cards' surroundings beside what a card needs.
pub trait LinkEnv: Journal {
    /// Reads bytes of a payload at its sender, from byte `offset` on.
    fn fetch(&mut self, payload: &Payload, offset: usize, to: &mut [u8]) -> Result<(), DmaFault>;
    /// Puts the payload of a received frame where it stays until the next call.
    fn land(&mut self, bytes: &[u8]) -> Payload;
}

/// One process's end of the wire: buffers, and frames that are held back. Empty between runs.
#[derive(Default)]
pub struct Tap {
    frame: Vec<u8>,
    recorder: Recorder,
    /// Frames carried.
    count: u64,
    held: Vec<Held>,
}

/// A frame that others pass.
struct Held {
    /// It arrives when so many frames were carried.
    due: u64,
    way: Way,
    bytes: Vec<u8>,
}

/// The port that a frame leaves, and the one that it is for.
type Way = (PortId, PortId);

/// A packet cannot be made a frame.
struct Unsent;

impl From<EncodeError> for Unsent {
    fn from(_: EncodeError) -> Self {
        Unsent
    }
}

impl From<DmaFault> for Unsent {
    fn from(_: DmaFault) -> Self {
        Unsent
    }
}

impl Tap {
    /// Carries a packet or train to its port.
    pub fn carry(&mut self, area: &LinkArea, world: &mut World, p: &Packet, env: &mut impl LinkEnv) {
        let exact = area.exact();
        if exact && world.is_cut(p, env.now()) {
            return;
        }
        let path = route::path(world, p);
        self.frame.resize(frames::MAX_FRAME, 0);
        for piece in frames::pieces(p) {
            let fill = |to: &mut [u8]| Ok(env.fetch(&p.payload, piece.offset, to)?);
            let made = frames::encode::<Unsent>(&piece.packet, &path, piece.len, &mut self.frame, fill);
            // The sender's memory is gone, and with it the rest of the message.
            let Ok((_, len)) = made else { break };
            if area.sees_sent(p.src) || (!exact && area.sees_received(p.src, p.dst)) {
                self.recorder.record(area, now(), &self.frame[..len]);
            }
            if exact {
                self.put_on_wire(area, world, (p.src, p.dst), len, env);
            }
        }
        if !exact {
            world.deliver(p, false, env);
        }
    }

    /// One frame, the first `len` bytes of the buffer, with all that may happen to it.
    fn put_on_wire(
        &mut self,
        area: &LinkArea,
        world: &mut World,
        way: Way,
        len: usize,
        env: &mut impl LinkEnv,
    ) {
        self.count += 1;
        let fate = area.fate(len);
        let frame = &mut self.frame[..len];
        fate.damage(frame);
        if fate.twice {
            // The copy takes the straight way.
            self.recorder.arrive(area, world, way, frame, env);
        }
        if fate.passed_by != 0 && !fate.lost {
            self.held.push(Held { due: self.count + fate.passed_by, way, bytes: frame.to_vec() });
        } else if !fate.lost {
            self.recorder.arrive(area, world, way, frame, env);
        }
        while let Some(index) = self.held.iter().position(|held| held.due <= self.count) {
            let held = self.held.remove(index);
            self.recorder.arrive(area, world, held.way, &held.bytes, env);
        }
    }

    /// When nothing else is under way: delivers the oldest frame that is held back. False if there is
    /// none.
    pub fn release(&mut self, area: &LinkArea, world: &mut World, env: &mut impl LinkEnv) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let held = self.held.remove(0);
        self.recorder.arrive(area, world, held.way, &held.bytes, env);
        true
    }

    /// The end of a run.
    pub fn end_run(&mut self, area: &LinkArea) {
        self.recorder.flush(area);
    }
}

impl Recorder {
    /// A frame reaches its port.
    fn arrive(
        &mut self,
        area: &LinkArea,
        world: &mut World,
        (from, to): Way,
        frame: &[u8],
        env: &mut impl LinkEnv,
    ) {
        if area.sees_received(from, to) {
            self.record(area, now(), frame);
        }
        match frames::decode(frame) {
            Ok((mut p, payload)) => {
                if !payload.is_empty() {
                    p.payload = env.land(payload);
                }
                env.note(journal::one(p.dst.card, p.dest_qpn));
                world.deliver(&p, false, env);
            }
            Err(reason) => count(world, to, reason),
        }
    }
}

/// The machine's time, nanoseconds since 1970.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Counts a dropped frame at the port that it was meant for (at every card, if for all).
pub(crate) fn count(world: &mut World, to: PortId, reason: DropReason) {
    let counter = match reason {
        DropReason::Icrc => port::RX_ICRC_ERRORS,
        _ => port::RX_MALFORMED,
    };
    let n = world.count() as usize;
    for card in &mut world.cards[..n] {
        if to == PortId::ALL || to.card == card.id {
            let port = to.port as usize % crate::packet::PORTS;
            *card.counters[port].at(counter) += 1;
        }
    }
}
