//! Carrying packets from card to card as frames.

use fpga_regs::regs::port;

use super::area::LinkArea;
use super::capture::Recorder;
use super::{frames, route};
use crate::env::{DmaFault, Env, Work};
use crate::packet::{Packet, Payload, PortId};
use crate::wire::{DropReason, EncodeError};
use crate::world::World;

/// What the wire asks of the cards' surroundings beside [`Env`].
pub trait LinkEnv: Env {
    /// Reads bytes of a payload at its sender, from byte `offset` on.
    fn fetch(&mut self, payload: &Payload, offset: usize, to: &mut [u8]) -> Result<(), DmaFault>;
    /// Puts the payload of a received frame where it stays until the next call.
    fn land(&mut self, bytes: &[u8]) -> Payload;
    /// Notes the QP that is worked on next, for whoever finds this process dead.
    fn note(&mut self, card: u8, qpn: u32);
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
    to: PortId,
    bytes: Vec<u8>,
}

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
            let Ok(len) = made else { break };
            if area.capture() {
                self.recorder.record(area, &self.frame[..len]);
            }
            if exact {
                self.put_on_wire(area, world, p.dst, len, env);
            }
        }
        if !exact {
            world.step(&Work::Packet(*p), env);
        }
    }

    /// One frame, the first `len` bytes of the buffer, with all that may happen to it.
    fn put_on_wire(
        &mut self,
        area: &LinkArea,
        world: &mut World,
        to: PortId,
        len: usize,
        env: &mut impl LinkEnv,
    ) {
        self.count += 1;
        let fate = area.fate(len);
        let frame = &mut self.frame[..len];
        fate.damage(frame);
        if fate.twice {
            // The copy takes the straight way.
            arrive(world, to, frame, env);
        }
        if fate.passed_by != 0 && !fate.lost {
            self.held.push(Held { due: self.count + fate.passed_by, to, bytes: frame.to_vec() });
        } else if !fate.lost {
            arrive(world, to, frame, env);
        }
        while let Some(index) = self.held.iter().position(|held| held.due <= self.count) {
            let held = self.held.remove(index);
            arrive(world, held.to, &held.bytes, env);
        }
    }

    /// When nothing else is under way: delivers the oldest frame that is held back. False if there is
    /// none.
    pub fn release(&mut self, world: &mut World, env: &mut impl LinkEnv) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let held = self.held.remove(0);
        arrive(world, held.to, &held.bytes, env);
        true
    }

    /// The end of a run.
    pub fn end_run(&mut self, area: &LinkArea) {
        self.recorder.flush(area);
    }
}

/// A frame reaches the port `to`.
fn arrive(world: &mut World, to: PortId, frame: &[u8], env: &mut impl LinkEnv) {
    match frames::decode(frame) {
        Ok((mut p, payload)) => {
            if !payload.is_empty() {
                p.payload = env.land(payload);
            }
            env.note(p.dst.card, p.dest_qpn);
            world.step(&Work::Packet(p), env);
        }
        Err(DropReason::Icrc) => count(world, to, port::RX_ICRC_ERRORS),
        Err(_) => count(world, to, port::RX_MALFORMED),
    }
}

/// Counts a dropped frame at the port that it was meant for (at every card, if for all).
fn count(world: &mut World, to: PortId, counter: u32) {
    let n = world.count as usize;
    for card in &mut world.cards[..n] {
        if to == PortId::ALL || to.card == card.id {
            let port = to.port as usize % crate::packet::PORTS;
            *card.counters[port].at(counter) += 1;
        }
    }
}
