//! Captures of a running net: rings of frames in the segment, each read by the process that captures.
//!
//! The thread that runs the cards puts frames in, with the lock of all the cards: while frames are observed, each queue pair
//! takes that ([`Mode::is_observed`](super::Mode::is_observed)). A ring that is full takes no more frames and counts them: no
//! card waits for a reader.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::frames::LONGEST_FRAME;
use crate::packet::PortId;
use crate::plain::Plain;
use crate::segment::Segment;

/// Captures that a net can have at a time.
pub const MAX_LIVE: usize = 4;
/// Words of a ring: 32 MiB.
const WORDS: u64 = 1 << 22;
/// Words before a frame's bytes.
const HEAD: u64 = 4;

/// Which frames a capture sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// What this port sends and receives, when it does. `None`: all frames of the net as they are sent, and those that come
    /// from outside.
    pub port: Option<PortId>,
    /// Only frames from or to a queue pair of this number, on any card.
    pub qpn: Option<u32>,
    /// Bytes of each frame that are kept.
    pub snaplen: u32,
}

/// A frame that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When (ns): since 1970, or since the beginning of simulated time.
    pub at: u64,
    /// The port that sent it; [`PortId::NOBODY`]: one outside of the net.
    pub from: PortId,
    /// The port that it is for.
    pub to: PortId,
    /// It was seen as it arrived, not as it was sent.
    pub received: bool,
    /// The numbers of the queue pairs that sent it and that it is for; 0: not known.
    pub qpns: [u32; 2],
    /// Its length, of which less may be kept.
    pub length: u32,
}

impl Seen {
    /// A frame at an end of its way.
    pub(crate) fn new((from, to): (PortId, PortId), received: bool, qpns: [u32; 2], at: u64) -> Seen {
        Seen { at, from, to, received, qpns, length: 0 }
    }
}

/// The captures of a net. Begun, ended and written with all the cards.
#[derive(Plain)]
#[repr(C, align(4096))]
pub(crate) struct Live {
    era: AtomicU32,
    rings: [Ring; MAX_LIVE],
}

/// A capture.
#[derive(Plain)]
#[repr(C, align(4096))]
struct Ring {
    /// The member that reads it, plus one; 0: none does.
    owner: AtomicU32,
    /// The card and the port that is looked at, each plus one; 0: all.
    port: [AtomicU32; 2],
    /// 0: any.
    qpn: AtomicU32,
    snaplen: AtomicU32,
    /// Frames that found no room.
    dropped: AtomicU64,
    /// Words written since the capture began.
    head: AtomicU64,
    /// Words read; written by the reader, without a lock.
    tail: AtomicU64,
    words: Words,
}

/// Whole pages, which are given back when the capture ends.
#[derive(Plain)]
#[repr(C, align(4096))]
struct Words([AtomicU64; WORDS as usize]);

/// The bytes in a ring are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("some program of the net has written over the captured frames")]
pub struct Damaged;

impl Live {
    /// Begins a capture of a member. `None`: there are [`MAX_LIVE`] already. `first`: no frames were made so far.
    pub fn begin(&self, member: u16, view: &View, first: bool) -> Option<usize> {
        let index = self.rings.iter().position(|ring| !ring.is_on())?;
        if first {
            self.era.fetch_add(1, Ordering::Relaxed);
        }
        let ring = &self.rings[index];
        let [card, port] = view.port.map_or([0; 2], |id| [u32::from(id.card) + 1, u32::from(id.port) + 1]);
        for (word, value) in [
            (&ring.port[0], card),
            (&ring.port[1], port),
            (&ring.qpn, view.qpn.unwrap_or(0)),
            (&ring.snaplen, view.snaplen),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        [&ring.dropped, &ring.head, &ring.tail].into_iter().for_each(|word| word.store(0, Ordering::Relaxed));
        ring.owner.store(u32::from(member) + 1, Ordering::Release);
        Some(index)
    }

    /// Ends the captures of a member.
    pub fn end(&self, member: u16, segment: &Segment) {
        for ring in &self.rings {
            if ring.owner.load(Ordering::Relaxed) == u32::from(member) + 1 {
                ring.owner.store(0, Ordering::Relaxed);
                segment.discard(std::ptr::from_ref(&ring.words).cast(), size_of::<Words>());
            }
        }
    }

    /// How often frames have begun to be made for a capture. In simulated time a packet that is on its way at that moment
    /// has no frame, or that of an earlier era.
    pub fn era(&self) -> u32 {
        self.era.load(Ordering::Relaxed)
    }

    /// Whether there is a capture.
    pub fn any(&self) -> bool {
        self.rings.iter().any(Ring::is_on)
    }

    /// Whether a capture sees frames from port to port, as they are sent or as they are received.
    pub fn sees(&self, way: (PortId, PortId), received: bool) -> bool {
        self.rings.iter().any(|ring| ring.is_on() && ring.sees(way, received))
    }

    /// Gives a frame to the captures that see it.
    pub fn put(&self, seen: &Seen, frame: &[u8]) {
        self.rings
            .iter()
            .filter(|ring| ring.is_on() && ring.takes(seen))
            .for_each(|ring| ring.put(seen, frame));
    }

    /// The captures that see such frames miss so many. Needs no lock.
    pub fn miss(&self, way: (PortId, PortId), received: bool, count: u64) {
        for ring in self.rings.iter().filter(|ring| ring.is_on() && ring.sees(way, received)) {
            ring.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Takes the frames that are in a ring now, by its reader.
    pub fn take(&self, index: usize, each: &mut dyn FnMut(&Seen, &[u8])) -> Result<(), Damaged> {
        self.rings[index].take(each)
    }

    /// Frames that found no room in a ring.
    pub fn dropped(&self, index: usize) -> u64 {
        self.rings[index].dropped.load(Ordering::Relaxed)
    }
}

impl Ring {
    fn is_on(&self) -> bool {
        self.owner.load(Ordering::Relaxed) != 0
    }

    fn sees(&self, (from, to): (PortId, PortId), received: bool) -> bool {
        let [card, port] = [0, 1].map(|n| self.port[n].load(Ordering::Relaxed));
        let is_it = |id: PortId| card == u32::from(id.card) + 1 && port == u32::from(id.port) + 1;
        match received {
            _ if card == 0 => received == (from == PortId::NOBODY),
            false => is_it(from),
            true => (to == PortId::ALL || is_it(to)) && !is_it(from),
        }
    }

    fn takes(&self, seen: &Seen) -> bool {
        let qpn = self.qpn.load(Ordering::Relaxed);
        self.sees((seen.from, seen.to), seen.received) && (qpn == 0 || seen.qpns.contains(&qpn))
    }

    /// Words from one on: those up to the ring's end, and those from its beginning.
    fn words(&self, at: u64, count: usize) -> [&[AtomicU64]; 2] {
        let (begin, end) = self.words.0.split_at((at % WORDS) as usize);
        let first = count.min(end.len());
        [&end[..first], &begin[..count - first]]
    }

    fn put(&self, seen: &Seen, frame: &[u8]) {
        // A datagram from outside may be longer than any frame.
        let most = LONGEST_FRAME.min(self.snaplen.load(Ordering::Relaxed) as usize);
        let kept = &frame[..frame.len().min(most)];
        let head = self.head.load(Ordering::Relaxed);
        let used = head.wrapping_sub(self.tail.load(Ordering::Acquire));
        let need = HEAD + kept.len().div_ceil(8) as u64;
        if used > WORDS - need {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let port = |id: PortId| u64::from(id.card) << 8 | u64::from(id.port);
        let about = [
            seen.at,
            (frame.len() as u64) << 32 | kept.len() as u64,
            u64::from(seen.received) << 48 | port(seen.from) << 24 | port(seen.to),
            u64::from(seen.qpns[0]) << 32 | u64::from(seen.qpns[1]),
        ];
        let [first, second] = self.words(head, about.len());
        first.iter().chain(second).zip(about).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        let mut chunks = kept.chunks(8);
        for part in self.words(head.wrapping_add(HEAD), kept.len().div_ceil(8)) {
            let both = part.iter().zip(&mut chunks);
            both.for_each(|(word, chunk)| word.store(word_of(chunk), Ordering::Relaxed));
        }
        // A process that is killed before this has written nothing.
        self.head.store(head.wrapping_add(need), Ordering::Release);
    }

    fn take(&self, each: &mut dyn FnMut(&Seen, &[u8])) -> Result<(), Damaged> {
        let head = self.head.load(Ordering::Acquire);
        let mut at = self.tail.load(Ordering::Relaxed);
        let mut bytes = vec![0; LONGEST_FRAME.next_multiple_of(8)];
        while at != head {
            let mut about = [0; HEAD as usize];
            let [first, second] = self.words(at, about.len());
            let words = first.iter().chain(second);
            about.iter_mut().zip(words).for_each(|(value, word)| *value = word.load(Ordering::Relaxed));
            let [time, lengths, way, qpns] = about;
            let (length, kept) = ((lengths >> 32) as u32, lengths & 0xffff_ffff);
            let (room, need) = (head.wrapping_sub(at), HEAD + kept.div_ceil(8));
            if kept > LONGEST_FRAME as u64 || room > WORDS || need > room {
                return Err(Damaged);
            }
            let mut chunks = bytes.chunks_exact_mut(8);
            for part in self.words(at.wrapping_add(HEAD), (need - HEAD) as usize) {
                let both = part.iter().zip(&mut chunks);
                both.for_each(|(word, chunk)| {
                    chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes())
                });
            }
            let port = |way: u64| PortId { card: (way >> 8) as u16, port: way as u8 };
            let seen = Seen {
                at: time,
                from: port(way >> 24),
                to: port(way),
                received: way >> 48 & 1 != 0,
                qpns: [(qpns >> 32) as u32, qpns as u32],
                length,
            };
            each(&seen, &bytes[..kept as usize]);
            at = at.wrapping_add(need);
            // Room for others as early as possible.
            self.tail.store(at, Ordering::Release);
        }
        Ok(())
    }
}

/// Up to eight bytes as a word.
#[inline(always)]
fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or_else(|_| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        word
    }))
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
