//! Packets as frames in simulated time: faults and records.
//!
//! What happens to a frame is drawn when it takes its place on the wire, in the order of events, so that
//! it follows from the seed. Its bytes wait with the packet's slot and are checked where they arrive.

use super::engine::Engine;
use super::event::Event;
use crate::link::capture::Recorder;
use crate::link::{exact, frames};
use crate::packet::{Packet, Payload};
use crate::wire::EncodeError;

/// Most bytes around a payload.
const AROUND: usize = crate::wire::frame::MAX_OVERHEAD;
/// Bits that a fault flips at most.
const FLIPPED: usize = 3;

/// What is around a packet's payload in its frame, and what happens to it on its way.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Frame {
    head: u8,
    tail: u8,
    flipped: [u16; FLIPPED],
    bytes: [u8; AROUND],
}

/// A process's buffers. Empty while nobody has the lock.
#[derive(Default)]
pub(crate) struct Tap {
    frame: Vec<u8>,
    recorder: Recorder,
}

impl Frame {
    /// Keeps what is around the payload at `at..at + len`.
    fn keep(&mut self, frame: &[u8], at: usize, len: usize) {
        let (head, tail) = (&frame[..at], &frame[at + len..]);
        (self.head, self.tail) = (head.len() as u8, tail.len() as u8);
        self.bytes[..head.len()].copy_from_slice(head);
        self.bytes[head.len()..][..tail.len()].copy_from_slice(tail);
    }

    /// The whole frame, as it was sent or as it arrives.
    fn assemble(&self, payload: &[u8], received: bool, frame: &mut Vec<u8>) {
        let (head, rest) = self.bytes.split_at(self.head.into());
        frame.clear();
        frame.extend_from_slice(head);
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&rest[..self.tail.into()]);
        if received {
            for bit in self.flipped.into_iter().filter(|&bit| bit != 0) {
                frame[usize::from(bit / 8)] ^= 1 << (bit % 8);
            }
        }
    }
}

impl Engine<'_> {
    /// A packet that leaves at a time and is received at `arrival` becomes a frame. `passing`: the time that it
    /// takes on the wire, when its first bit leaves, and when its last one has come.
    #[cold]
    pub(super) fn put_on_wire(&mut self, slot: u16, arrival: u64, passing: (u64, u64, u64)) {
        let (took, leaves, comes) = passing;
        let packet = self.env.sim.slots.get(slot.into()).packet;
        let Ok(len) = self.encode(slot, &packet) else {
            self.env.sim.release(slot);
            return;
        };
        if !self.link.exact() {
            self.see(slot, &packet, leaves, Some(comes));
            self.env.sim.at(arrival, Event::Arrive { slot });
            return;
        }
        let fate = self.link.fate(len);
        let sim = &mut *self.env.sim;
        sim.frames[slot as usize].flipped = fate.flipped.map(|bit| bit as u16);
        // So many frames of its length pass it.
        let late = fate.passed_by * took;
        self.see(slot, &packet, leaves, (!fate.lost).then_some(comes + late));
        if fate.twice {
            // The copy takes the straight way.
            self.see_received(slot, &packet, comes);
            self.env.sim.slots.get_mut(slot.into()).refs += 1;
            self.env.sim.at(arrival, Event::Arrive { slot });
        }
        match fate.lost {
            true => self.env.sim.release(slot),
            false => self.env.sim.at(arrival + late, Event::Arrive { slot }),
        }
    }

    fn encode(&mut self, slot: u16, packet: &Packet) -> Result<usize, EncodeError> {
        let path = crate::link::route::path(self.world, packet);
        let len = packet.payload.len();
        let sim = &mut *self.env.sim;
        let payload = &sim.payload[slot as usize][..len];
        let frame = &mut self.env.step.tap.frame;
        frame.resize(frames::MAX_FRAME, 0);
        let fill = |to: &mut [u8]| -> Result<(), EncodeError> {
            to.copy_from_slice(payload);
            Ok(())
        };
        let (at, whole) = frames::encode(packet, &path, len, frame, fill)?;
        let kept = &mut sim.frames[slot as usize];
        kept.keep(&frame[..whole], at, len);
        kept.flipped = [0; FLIPPED];
        Ok(whole)
    }

    /// Records the frame where it is to be seen.
    fn see(&mut self, slot: u16, packet: &Packet, leaves: u64, comes: Option<u64>) {
        if self.link.sees_sent(packet.src) {
            self.record_at(slot, leaves, false);
        }
        if let Some(comes) = comes {
            self.see_received(slot, packet, comes);
        }
    }

    fn see_received(&mut self, slot: u16, packet: &Packet, comes: u64) {
        if self.link.sees_received(packet.src, packet.dst) {
            self.record_at(slot, comes, true);
        }
    }

    fn record_at(&mut self, slot: u16, at: u64, received: bool) {
        self.env.sim.slots.get_mut(slot.into()).refs += 1;
        self.env.sim.at(at, Event::Record { slot, received });
    }

    /// A frame is recorded.
    #[cold]
    pub(super) fn record(&mut self, slot: u16, received: bool) {
        let at = self.env.sim.now / 1000;
        self.assemble(slot, received);
        let tap = &mut self.env.step.tap;
        tap.recorder.record(self.link, at, &tap.frame);
        self.env.sim.release(slot);
    }

    fn assemble(&mut self, slot: u16, received: bool) {
        let sim = &*self.env.sim;
        let len = sim.slots.get(slot.into()).packet.payload.len();
        let payload = &sim.payload[slot as usize][..len];
        sim.frames[slot as usize].assemble(payload, received, &mut self.env.step.tap.frame);
    }

    /// A frame arrives: its packet is received if it is whole.
    #[cold]
    pub(super) fn receive_frame(&mut self, slot: u16) {
        let to = self.env.sim.slots.get(slot.into()).packet.dst;
        self.assemble(slot, true);
        match frames::decode(&self.env.step.tap.frame) {
            Ok((mut packet, payload)) => {
                if !payload.is_empty() {
                    // Its bytes are those of the slot, as the ICRC says.
                    packet.payload = Payload::Stash(slot.into(), payload.len() as u32);
                }
                self.receive(&packet);
            }
            Err(reason) => exact::count(self.world, to, reason),
        }
    }

    /// Before the lock is given up: what was recorded is written.
    #[inline]
    pub(crate) fn end_link(&mut self) {
        if self.link.is_on() {
            self.env.step.tap.recorder.flush(self.link);
        }
    }
}
