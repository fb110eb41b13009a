//! Frames that have come from outside, decoded, on their way to the cards.

use std::ops::Range;

use super::area::Drop;
use crate::address::Gid;
use crate::link::frames::{self, LONGEST_FRAME};
use crate::packet::{Packet, PortId};
use crate::wire::ethernet::MIN_FRAME;
use crate::wire::{DropReason, Ethernet, Frame, Path};

/// Bytes that one call of a receiver reads at most.
pub const ROOM: usize = 1 << 16;
/// Bytes of the longest payload of a packet: the largest path MTU.
const LONGEST: usize = 4096;
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
    /// Addresses of neighbours that were asked for, and have answered.
    pub found: Vec<Gid>,
    list: Vec<Arrival>,
    /// Frames that are no packets for the port, among the bytes.
    whole: Vec<Range<usize>>,
    dropped: [u64; Drop::ALL.len()],
    /// Packets of another partition, and their bytes.
    foreign: [u64; 2],
    /// Somebody sees all that comes.
    observed: bool,
    came: Vec<Came>,
}

/// What has come, where it is among the bytes, and the way of a packet that came without its headers up to the BTH.
type Came = (Range<usize>, Option<Path>);

impl Arrival {
    /// Bytes of its frame, from the Ethernet header to the ICRC.
    pub fn wire_bytes(&self) -> u64 {
        self.packet.wire_bytes(self.payload.len() as u32)
    }
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals {
            bytes: vec![0; ROOM],
            found: Vec::new(),
            list: Vec::new(),
            whole: Vec::new(),
            dropped: Default::default(),
            foreign: [0; 2],
            observed: false,
            came: Vec::new(),
        }
    }
}

impl Arrivals {
    /// Begins anew. If it is observed, all that comes is [kept](Self::came) as it came.
    pub fn clear(&mut self, observed: bool) {
        self.found.clear();
        self.list.clear();
        self.whole.clear();
        self.dropped.fill(0);
        self.foreign = [0; 2];
        self.observed = observed;
        self.came.clear();
    }

    /// Takes the frame for a port that `decode` finds in bytes that were read.
    pub fn take(
        &mut self,
        port: PortId,
        bytes: Range<usize>,
        decode: impl FnOnce(&[u8]) -> Result<Frame<'_>, DropReason>,
    ) {
        self.take_by(None, port, bytes, decode);
    }

    /// The same of a packet that came by this way, without its headers up to the BTH.
    pub fn take_by(
        &mut self,
        mut way: Option<Path>,
        port: PortId,
        bytes: Range<usize>,
        decode: impl FnOnce(&[u8]) -> Result<Frame<'_>, DropReason>,
    ) {
        let slice = self.bytes.get(bytes.clone()).unwrap_or_default();
        let frame = decode(slice);
        if self.observed {
            if let (Some(way), Ok(frame)) = (&mut way, &frame) {
                // With what its ICRC says of them.
                *way = frame.path;
            }
            self.came.push((bytes.clone(), way));
        }
        let packet = frame.and_then(|frame| {
            let (mut packet, payload) = frames::packet(&frame)?;
            (packet.src, packet.dst) = (PortId::NOBODY, port);
            // The payload is a part of the slice.
            let start = bytes.start + (payload.as_ptr().addr() - slice.as_ptr().addr());
            let network = &frame.path.network;
            let (from, to) = (network.src_gid(), network.dst_gid());
            let ours = frame.headers.bth.pkey & PARTITION == PARTITION;
            let payload = start..start + payload.len();
            Ok((ours, Arrival { packet, from, to, payload }))
        });
        let why = match packet {
            Ok((_, arrival)) if arrival.payload.len() > LONGEST => Drop::Malformed,
            Ok((true, arrival)) => return self.list.push(arrival),
            Ok((false, arrival)) => {
                self.foreign[0] += 1;
                self.foreign[1] += arrival.wire_bytes();
                Drop::Pkey
            }
            Err(DropReason::Icrc) => Drop::Icrc,
            Err(_) => Drop::Malformed,
        };
        self.drop(why, 1);
    }

    /// Takes a frame that is no packet for the port, but perhaps for who asks for whole frames, if it is one. One that its sender
    /// has not padded, as QEMU and TAP interfaces do not, is padded: the bytes up to [`MIN_FRAME`] are room for that.
    pub fn take_whole(&mut self, mut bytes: Range<usize>) {
        if !(Ethernet::BYTES..=LONGEST_FRAME).contains(&bytes.len()) {
            return self.drop(Drop::Malformed, 1);
        }
        let padded = bytes.end.max(bytes.start + MIN_FRAME);
        if let Some(padding) = self.bytes.get_mut(bytes.end..padded) {
            padding.fill(0);
            bytes.end = padded;
        }
        if self.observed {
            self.came.push((bytes.clone(), None));
        }
        self.whole.push(bytes);
    }

    /// What has come, in its order: if it is [observed](Self::clear).
    pub fn came(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&Path>)> {
        self.came.iter().map(|(range, way)| (self.bytes.get(range.clone()).unwrap_or_default(), way.as_ref()))
    }

    /// Packets of another partition, and their bytes. They came whole.
    pub fn foreign(&self) -> [u64; 2] {
        self.foreign
    }

    /// Those frames.
    pub fn whole(&self) -> impl Iterator<Item = &[u8]> {
        self.whole.iter().filter_map(|range| self.bytes.get(range.clone()))
    }

    /// Counts frames that were dropped for this reason.
    pub fn drop(&mut self, why: Drop, count: u64) {
        self.dropped[why as usize] += count;
    }

    /// How many frames were wrong, and in what.
    pub fn dropped(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        Drop::ALL.into_iter().map(|why| (why, self.dropped[why as usize])).filter(|&(_, count)| count != 0)
    }

    /// The packets in the order in which they came, and the bytes of their payload.
    pub fn packets(&self) -> (&[Arrival], &[u8]) {
        (&self.list, &self.bytes)
    }
}
