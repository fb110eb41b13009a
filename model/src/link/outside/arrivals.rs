//! Frames that have come from outside, decoded, on their way to the cards.

use std::ops::Range;

use super::area::{Drop, OutsidePort};
use crate::address::Gid;
use crate::link::frames;
use crate::packet::{Packet, PortId};
use crate::wire::{DropReason, Frame};

/// Bytes that one call of a receiver reads at most.
pub const ROOM: usize = 1 << 16;
/// The default partition; a limited member's key lacks the highest bit, and may be sent to a full one (IB spec 10.9.3).
const PARTITION: u16 = 0x7fff;

/// A packet from outside.
#[derive(Debug)]
pub struct Arrival {
    /// The packet, without its payload, at the port that it came to.
    pub packet: Packet,
    /// Who sent it, by the IP header.
    pub from: Gid,
    /// Whom it is for.
    pub to: Gid,
    /// Its payload among the bytes that came with it.
    pub payload: Range<usize>,
}

/// What one call of a receiver has read, and the packets in it.
pub struct Arrivals {
    /// The bytes, to be read into.
    pub bytes: Vec<u8>,
    list: Vec<Arrival>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals { bytes: vec![0; ROOM], list: Vec::new() }
    }
}

impl Arrivals {
    /// Begins anew.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Takes the frame that `decode` finds in bytes that were read; what is wrong is counted at the port.
    pub fn take(
        &mut self,
        port: (PortId, &OutsidePort),
        bytes: Range<usize>,
        decode: impl FnOnce(&[u8]) -> Result<Frame<'_>, DropReason>,
    ) {
        let (id, port) = port;
        let slice = self.bytes.get(bytes.clone()).unwrap_or_default();
        let packet = decode(slice).and_then(|frame| {
            let (mut packet, payload) = frames::packet(&frame)?;
            (packet.src, packet.dst) = (PortId::NOBODY, id);
            // The payload is a part of the slice.
            let start = bytes.start + (payload.as_ptr().addr() - slice.as_ptr().addr());
            let network = &frame.path.network;
            let (from, to) = (network.src_gid(), network.dst_gid());
            let ours = frame.headers.bth.pkey & PARTITION == PARTITION;
            let payload = start..start + payload.len();
            Ok((ours, Arrival { packet, from, to, payload }))
        });
        match packet {
            Ok((true, arrival)) => self.list.push(arrival),
            Ok((false, _)) => port.dropped(Drop::Pkey, 1),
            Err(DropReason::Icrc) => port.dropped(Drop::Icrc, 1),
            Err(_) => port.dropped(Drop::Malformed, 1),
        }
    }

    /// The packets in the order in which they came, and the bytes of their payload.
    pub fn packets(&self) -> (&[Arrival], &[u8]) {
        (&self.list, &self.bytes)
    }
}
