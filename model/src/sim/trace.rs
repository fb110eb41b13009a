//! The trace of a simulation: what was busy with each message, and when.
//!
//! A file (`docs/trace.md`) with a header of 64 bytes and a record of 40 bytes for each [`Span`], in the order
//! in which the simulation knows them. That order is total: what a card does is recorded by its events, what
//! a program does by an event of its own ([`Event::Span`](super::event::Event::Span)). So the same run gives the same
//! file. Spans gather in the segment, and the process that fills the batch writes it; the keeper writes the rest.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::claimed::{self, Made, Place};
use crate::dma::Addr;
use crate::named::named;
use crate::packet::Packet;
use crate::plain::{Flag, Plain};
use crate::profile::Profile;

/// Begin of the file.
pub const MAGIC: &[u8; 8] = b"VBTRACE1";
/// Bytes of its header.
pub const HEADER: usize = 64;
/// Bytes of a record.
pub const RECORD: usize = 40;
/// Spans that gather before they are written.
const BATCH: usize = 4096;
/// Completions that were written and not yet reaped, of which the time is kept.
const UNREAD: usize = 4096;

/// Flag: on the responder's side.
const RESPONDER: u8 = 1;
/// Flag: the upper four bits are the card that did it.
const PLACED: u8 = 2;

/// [`Subject::place`] where a file does not say which card it was.
pub const UNPLACED: u16 = u16::MAX;

/// What a span is about: an open value, as it is in shared memory; those of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Plain)]
#[repr(transparent)]
pub struct Phase(pub u8);

named! {
    Phase(place => place) {
        POST "post" "The program builds the WQE.",
        DOORBELL "doorbell" "From there to the card's having understood the doorbell.",
        WQE_FETCH "WQE fetch" "From the card's asking for the WQE to its having it.",
        PAYLOAD_FETCH "payload fetch" "The same of payload.",
        TX "TX" "In the pipeline, and waiting for the MAC.",
        WIRE "wire" "From the first bit sent to the last bit arrived.",
        RX "RX" "From there to the packet's being understood.",
        DMA_WRITE "DMA write" "From there to the data's being visible in memory.",
        ACK "ACK" "From an ACK's generation to its being understood.",
        CQE "CQE" "From a completion's generation to its being visible.",
        POLL "poll" "From there to its being reaped.",
        READ_RESPONSE "read response" "From a READ's being understood to its data's being asked for.",
        INTERRUPT "interrupt" "From an interrupt's being raised to the thread's running.",
    }
}

impl Phase {
    /// Number of known phases.
    pub const COUNT: usize = Phase::ALL.len();

    /// For people.
    pub fn name(self) -> &'static str {
        Self::ALL.get(usize::from(self.0)).map_or("unknown", |(_, name, _)| name)
    }

    /// True for what the program's processor does rather than a card.
    pub fn of_host(self) -> bool {
        [Phase::POST, Phase::DOORBELL, Phase::POLL].contains(&self)
    }
}

/// Something was busy with a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Span {
    /// From (ps).
    pub start: u64,
    /// To.
    pub end: u64,
    /// What.
    pub phase: Phase,
    /// Whose message, and where.
    pub subject: Subject,
    /// WQE index, or PSN of a packet.
    pub index: u32,
    /// Bytes of the message, packet or entry.
    pub bytes: u32,
}

/// A message, named by its requester, and which side of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Subject {
    /// Card of the requester.
    pub card: u16,
    /// Its port.
    pub port: u8,
    /// Card that does it, or [`UNPLACED`].
    pub place: u16,
    /// On the responder's side.
    pub responder: Flag,
    /// QPN of the requester.
    pub qpn: u32,
    /// Index of the first block of the message's WQE.
    pub message: u32,
    /// Process (segment member): whose completion it is, or 0.
    pub process: u16,
}

impl Subject {
    /// Of a packet of a message, at the card that sends it or the one that receives it.
    pub fn of(packet: &Packet, message: u32, sending: bool) -> Subject {
        let (asks, qpn) =
            if packet.is_answer() { (packet.dst, packet.dest_qpn) } else { (packet.src, packet.src_qpn) };
        let place = if sending { packet.src.card } else { packet.dst.card };
        let responder = sending == packet.is_answer();
        let responder = responder.into();
        Subject { card: asks.card, port: asks.port, place, responder, qpn, message, process: 0 }
    }
}

impl Span {
    /// Its record in the file.
    pub fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let s = &self.subject;
        bytes[0..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.end.to_le_bytes());
        // Processes share at most sixteen cards.
        let placed = if s.place == UNPLACED { 0 } else { PLACED | (s.place as u8) << 4 };
        let flags = if s.responder.get() { RESPONDER } else { 0 } | placed;
        bytes[16..20].copy_from_slice(&[self.phase.0, s.card as u8, s.port, flags]);
        for (i, word) in [s.qpn, self.index, self.bytes, s.message, s.process.into()].into_iter().enumerate()
        {
            bytes[20 + 4 * i..24 + 4 * i].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What a record of the file says.
    pub fn decode(record: &[u8; RECORD]) -> Span {
        let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let word = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"));
        let [phase, card, port, flags] = word(16).to_le_bytes();
        let (card, responder) = (card.into(), flags & RESPONDER != 0);
        let place = match flags & PLACED != 0 {
            true => u16::from(flags >> 4),
            false if responder => UNPLACED,
            false => card,
        };
        let (qpn, message, process) = (word(20), word(32), word(36) as u16);
        let subject = Subject { card, port, place, responder: responder.into(), qpn, message, process };
        Span { start: long(0), end: long(8), phase: Phase(phase), subject, index: word(24), bytes: word(28) }
    }
}

/// A completion that is visible, or will be, and was not reaped.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Unread {
    /// Its place in the CQ's ring.
    pub entry: Addr,
    /// QP (of the card `span.subject.place`) that it is of.
    pub qp: u16,
    /// Of its receive side.
    pub recv: Flag,
    /// Begins when it is visible; before that is known, what makes it so.
    pub span: Span,
}

/// The trace's part of the simulation. Zero: there is none.
#[derive(Plain)]
#[repr(C)]
pub struct Trace {
    /// Written before anybody else has the segment; off again when the file cannot be written.
    on: AtomicU32,
    /// The file.
    file: Place,
    /// Bytes of the file that are whole.
    written: u64,
    count: u32,
    unread_count: u32,
    /// Why it cannot be written (errno); 0: it can.
    lost: i32,
    batch: [Span; BATCH],
    unread: [Unread; UNREAD],
}

/// Makes the file, empty but for its header, which is the net's as long as this is held (see [`claimed`]).
pub(crate) fn create(path: &Path, profile: &Profile, cards: u8) -> io::Result<Made> {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&(RECORD as u32).to_le_bytes());
    header[12..16].copy_from_slice(&u32::from(cards).to_le_bytes());
    header[24..40].copy_from_slice(&profile.name);
    claimed::make(path, &header)
}

impl Trace {
    /// Records go to this file, made by [`create`].
    pub fn start(&mut self, path: &Path, made: &Metadata) {
        self.file.note(path, made);
        self.written = HEADER as u64;
        self.on.store(1, Ordering::Relaxed);
    }

    /// Whether anything is recorded.
    #[inline]
    pub fn on(&self) -> bool {
        self.on.load(Ordering::Relaxed) != 0
    }

    /// Records a span, unless it is empty and says nothing.
    #[cold]
    pub fn put(&mut self, span: Span) {
        if span.start >= span.end && span.phase != Phase::POST {
            return;
        }
        self.batch[self.count as usize] = span;
        self.count += 1;
        if self.count as usize == BATCH {
            self.flush();
        }
    }

    /// Writes what has gathered.
    pub fn flush(&mut self) {
        let spans = &self.batch[..std::mem::take(&mut self.count) as usize];
        if spans.is_empty() || !self.on() {
            return;
        }
        let bytes: Vec<u8> = spans.iter().flat_map(Span::encode).collect();
        match self.file.open().and_then(|file| file.write_all_at(&bytes, self.written)) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(error) => {
                self.lost = error.raw_os_error().unwrap_or(libc::EIO);
                self.on.store(0, Ordering::Relaxed);
                let (path, error) = (self.file.path(), claimed::told(error));
                tell!("verbena: the trace ends: {}: {error}", path.display());
            }
        }
    }

    /// Why it is not complete.
    pub fn lost(&self) -> Option<io::Error> {
        (self.lost != 0).then(|| claimed::told(io::Error::from_raw_os_error(self.lost)))
    }

    /// A completion is to be written; when too many wait to be reaped, its times are not known.
    #[cold]
    pub fn unread(&mut self, unread: Unread) {
        if let Some(place) = self.unread.get_mut(self.unread_count as usize) {
            *place = unread;
            self.unread_count += 1;
        }
    }

    /// The completion that is written to this place of a ring will be visible then.
    #[cold]
    pub fn visible(&mut self, entry: Addr, at: u64) {
        let mut all = self.unread[..self.unread_count as usize].iter_mut().rev();
        let Some(unread) = all.find(|u| u.entry == entry && u.span.phase == Phase::CQE) else { return };
        let made = Span { end: at, ..unread.span };
        (unread.span.start, unread.span.phase) = (at, Phase::POLL);
        unread.span.subject.process = entry.domain;
        self.put(made);
    }

    /// Takes the completions of which `reaped` says so.
    pub fn take_reaped(&mut self, mut reaped: impl FnMut(&Unread) -> bool) -> Vec<Span> {
        let mut taken = Vec::new();
        let mut kept = 0;
        for i in 0..self.unread_count as usize {
            let unread = self.unread[i];
            if unread.span.phase == Phase::POLL && reaped(&unread) {
                taken.push(unread.span);
            } else {
                self.unread[kept] = unread;
                kept += 1;
            }
        }
        self.unread_count = kept as u32;
        taken
    }

    /// A packet's phase, at the card that sends it or the one that receives it.
    #[inline]
    pub(super) fn packet(&mut self, phase: Phase, time: (u64, u64), p: &Packet, message: u32, sending: bool) {
        if self.on() {
            let subject = Subject::of(p, message, sending);
            let bytes = p.payload.len() as u32;
            self.put(Span { start: time.0, end: time.1, phase, subject, index: p.psn, bytes });
        }
    }

    /// A phase of what the card is working on.
    #[inline]
    pub(super) fn step(&mut self, phase: Phase, time: (u64, u64), subject: &Subject, index: u32, bytes: u32) {
        if self.on() {
            self.put(Span { start: time.0, end: time.1, phase, subject: *subject, index, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_the_span_says() {
        let (phase, responder) = (Phase::INTERRUPT, Flag::YES);
        let subject =
            Subject { card: 3, port: 1, place: 15, responder, qpn: 9, message: u32::MAX, process: 255 };
        let span = Span { start: 1 << 40, end: u64::MAX, phase, subject, index: 7, bytes: 1 << 31 };
        assert_eq!(Span::decode(&span.encode()), span);
        let unplaced = Span { subject: Subject { place: UNPLACED, ..subject }, ..span };
        assert_eq!(Span::decode(&unplaced.encode()), unplaced);
        let mut record = Span { subject: Subject { responder: Flag::NO, ..subject }, ..span }.encode();
        record[19] = 0;
        assert_eq!(Span::decode(&record).subject.place, 3, "what the requester does is at its card");
    }
}
