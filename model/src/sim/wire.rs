//! Packets as frames in simulated time.
//!
//! The fate of a frame is drawn when it takes its place on the wire, in the order of events, so that the
//! seed determines it. Its bytes stay with the packet's slot and are checked when they arrive.

use super::engine::Engine;
use super::event::Event;
use super::state::Sim;
use crate::link::capture::Recorder;
use crate::link::faults::{Changes, Time, LATEST};
use crate::link::late::End;
use crate::link::live::Seen;
use crate::link::medium::{self, Medium, Passage};
use crate::link::{exact, frames};
use crate::packet::{Packet, Payload, CONGESTION};
use crate::plain::Plain;
use crate::wire::sum::checksum;
use crate::wire::{EncodeError, Ethernet, Ipv4};

/// Most bytes around a payload.
const AROUND: usize = crate::wire::frame::MAX_OVERHEAD;

/// What is around a packet's payload in its frame, and what happens to it on its way.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Frame {
    head: u8,
    tail: u8,
    changes: Changes,
    /// When frames were kept for this packet: see [`Live::era`](crate::link::live::Live::era).
    era: u32,
    bytes: [u8; AROUND],
}

/// A process's buffers. Empty while the lock is free.
#[derive(Default)]
pub(crate) struct Buffers {
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

    /// The frame met congestion: both of its ECN bits are set, which the ICRC does not cover.
    pub(super) fn mark(&mut self) {
        let ip = match self.bytes[12..14] {
            [0x81, 0] => Ethernet::BYTES + Ethernet::TAG_BYTES,
            _ => Ethernet::BYTES,
        };
        match self.bytes[ip] >> 4 {
            4 => {
                let header = &mut self.bytes[ip..ip + Ipv4::BYTES];
                header[1] |= CONGESTION;
                header[10..12].fill(0);
                let sum = checksum(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            _ => self.bytes[ip + 1] |= CONGESTION << 4,
        }
    }

    /// The whole frame, as it was sent or as it arrives.
    fn assemble(&self, payload: &[u8], received: bool, frame: &mut Vec<u8>) {
        let (head, rest) = self.bytes.split_at(self.head.into());
        frame.clear();
        frame.extend_from_slice(head);
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&rest[..self.tail.into()]);
        if received {
            self.changes.apply(frame);
        }
    }
}

/// When a frame is where, in picoseconds.
pub(super) struct Times {
    /// How long it takes on the wire.
    pub took: u64,
    /// Its first bit leaves.
    pub leaves: u64,
    /// Its last bit arrives.
    pub comes: u64,
    /// It has passed the receiver's port.
    pub arrival: u64,
    /// Its last bit arrives at the switch, whose time is not known yet, instead of at the receiver.
    pub switched: bool,
}

/// The medium that takes time: frames are in the slots of their packets until their events.
struct Timed<'a> {
    sim: &'a mut Sim,
    slot: u32,
    times: Times,
}

impl Timed<'_> {
    fn at(&mut self, time: u64, event: Event) {
        self.sim.slots.get_mut(self.slot).refs += 1;
        self.sim.at(time, event);
    }

    /// Frames of its own length pass it, or it is delayed.
    fn late(&self, passage: &Passage<'_>) -> u64 {
        passage.passed_by.saturating_mul(self.times.took).saturating_add(passage.late.0).min(LATEST.0)
    }
}

impl Medium for Timed<'_> {
    fn send(&mut self, passage: &Passage<'_>) {
        self.sim.frames[self.slot as usize].changes = passage.changes;
        let slot = self.slot;
        let event =
            if self.times.switched { Event::ToSwitch { slot, by: 0 } } else { Event::Arrive { slot } };
        self.at(self.times.arrival + self.late(passage), event);
    }

    fn record(&mut self, passage: &Passage<'_>, end: End) {
        let received = end == End::Receiver;
        if received && self.times.switched {
            // Recorded when it leaves the switch.
            return;
        }
        let time = if received { self.times.comes + self.late(passage) } else { self.times.leaves };
        self.at(time, Event::Record { slot: self.slot, received: received.into() });
    }
}

impl Engine<'_> {
    /// The packet in a slot becomes a frame.
    #[cold]
    pub(super) fn put_on_wire(&mut self, slot: u32, times: Times) {
        let packet = self.env.sim.slots.get(slot).packet.get();
        if let Ok(len) = self.encode(slot, &packet) {
            let frame = &self.env.step.buffers.frame[..len];
            let at = Time(times.leaves);
            let timed = Timed { sim: self.env.sim, slot, times };
            medium::wrapped(self.link, timed).send(&Passage::new((packet.src, packet.dst), frame, at));
        }
        self.env.sim.release(slot);
    }

    fn encode(&mut self, slot: u32, packet: &Packet) -> Result<usize, EncodeError> {
        if packet.is_frame() {
            return Ok(self.keep_whole(slot, packet.payload.len()));
        }
        let packet = &self.world.known(packet);
        let path = crate::link::route::path(self.world, packet);
        let len = packet.payload.len();
        let sim = &mut *self.env.sim;
        let payload = &sim.payload[slot as usize][..len];
        let frame = &mut self.env.step.buffers.frame;
        frame.resize(frames::MAX_ROCE_FRAME, 0);
        let fill = |to: &mut [u8]| -> Result<(), EncodeError> {
            to.copy_from_slice(payload);
            Ok(())
        };
        let (at, whole) = frames::encode(&frames::headers(packet), &path, len, frame, fill)?;
        let kept = &mut sim.frames[slot as usize];
        kept.keep(&frame[..whole], at, len);
        (kept.changes, kept.era) = (Changes::default(), self.link.live().era());
        Ok(whole)
    }

    /// A whole frame has nothing around it.
    fn keep_whole(&mut self, slot: u32, len: usize) -> usize {
        let sim = &mut *self.env.sim;
        let frame = &mut self.env.step.buffers.frame;
        frame.clear();
        frame.extend_from_slice(&sim.payload[slot as usize][..len]);
        let kept = &mut sim.frames[slot as usize];
        (kept.head, kept.tail, kept.changes) = (0, 0, Changes::default());
        kept.era = self.link.live().era();
        len
    }

    /// What happened to a whole frame on its way happens to its bytes. False: it is damaged.
    pub(super) fn arrives_whole(&mut self, slot: u32, len: usize) -> bool {
        let sim = &mut *self.env.sim;
        let changes = sim.frames[slot as usize].changes;
        let damaged = self.link.exact() && changes.damage_it();
        if self.link.exact() && !damaged {
            changes.apply(&mut sim.payload[slot as usize][..len]);
        }
        !damaged
    }

    /// A frame is recorded.
    #[cold]
    pub(super) fn record(&mut self, slot: u32, received: bool) {
        let sim = &*self.env.sim;
        // A packet that was on its way when the first capture began has no frame.
        let p = sim.slots.get(slot).packet.get();
        let way = if received { self.last_part(&p) } else { (p.src, p.dst) };
        if sim.frames[slot as usize].era == self.link.live().era() && !self.is_cut(way) {
            let card = self.world.cards.get(usize::from(p.src.card)).filter(|_| p.is_frame());
            let sender = card.and_then(|card| card.qps.get(p.src_qpn as usize));
            let src_qpn = sender.map_or(p.src_qpn, |qp| qp.qpn);
            let seen = Seen::new((p.src, p.dst), received, [src_qpn, p.dest_qpn], sim.now / 1000);
            self.assemble(slot, received);
            let buffers = &mut self.env.step.buffers;
            buffers.recorder.record(self.link, &seen, &buffers.frame);
        }
        self.env.sim.release(slot);
    }

    fn assemble(&mut self, slot: u32, received: bool) {
        let sim = &*self.env.sim;
        let len = sim.slots.get(slot).packet.get().payload.len();
        let payload = &sim.payload[slot as usize][..len];
        sim.frames[slot as usize].assemble(payload, received, &mut self.env.step.buffers.frame);
    }

    /// A frame arrives: its packet is received if it is whole.
    #[cold]
    pub(super) fn receive_frame(&mut self, slot: u32) {
        let p = self.env.sim.slots.get(slot).packet.get();
        let way = (p.src, p.dst);
        self.assemble(slot, true);
        let Some((mut packet, payload)) = exact::open(self.world, way, &self.env.step.buffers.frame) else {
            return;
        };
        if !payload.is_empty() {
            // Its bytes are those of the slot, as the ICRC says.
            packet.payload = Payload::Stash(slot, payload.len() as u32);
        }
        self.receive(&packet, way.1);
    }

    /// Before the lock is released: writes the records collected so far.
    #[inline]
    pub(crate) fn end_link(&mut self) {
        if self.link.is_on() {
            self.env.step.buffers.recorder.flush(self.link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{frame, Bth, BthOpcode, Headers, Ipv6, Network, Path};

    /// The frame stays whole: its check sums are right, or do not cover the mark.
    #[test]
    fn a_mark_is_in_the_header_of_the_network() {
        let bth = Bth { opcode: BthOpcode(0x04), ..Bth::default() };
        let headers = Headers { bth, ..Headers::default() };
        let v4 = Network::V4(Ipv4 { tos: 0xa6, ttl: 64, src: [198, 18, 0, 1], ..Ipv4::default() });
        let v6 = Network::V6(Ipv6 { traffic_class: 0xa6, flow_label: 0xf_ffff, ..Ipv6::default() });
        for (network, vlan) in [(v4, None), (v6, None), (v4, Some(5)), (v6, Some(5))] {
            let path = Path { network, vlan, ..Path::default() };
            let mut bytes = vec![0; 200];
            let len = frame::encode(&path, &headers, &[7; 64], &mut bytes).unwrap();
            let at = len - 64 - 4;
            let mut kept =
                Frame { head: 0, tail: 0, changes: Changes::default(), era: 0, bytes: [0; AROUND] };
            kept.keep(&bytes[..len], at, 64);
            kept.mark();
            let mut marked = Vec::new();
            kept.assemble(&[7; 64], false, &mut marked);
            let decoded = frame::decode(&marked).expect("it is whole");
            let mut expected = path;
            expected.network.set_ecn(3);
            assert_eq!((decoded.path, decoded.payload), (expected, &[7u8; 64][..]));
        }
    }
}
