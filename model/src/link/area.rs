//! What a net's wire keeps in the segment.

use crate::plain::Plain;
use std::fs::Metadata;
use std::io::Error;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::capture::HEADER;
use super::faults::{Fate, FaultArea, Look, RuleUse, Time};
use super::late::LateArea;
use super::live::{Live, View};
use super::options::{LinkOptions, Wire};
use super::outside::OutsideArea;
use crate::claimed::{self, Place};
use crate::packet::PortId;
use crate::segment::{now_ns, Segment};
use crate::world::World;

/// Bits of `mode`.
const EXACT: u32 = 1;
const FAULTS: u32 = 2;
const CAPTURE: u32 = 4;
const OUTSIDE: u32 = 8;
const CUT: u32 = 16;
const LIVE: u32 = 32;
const BONDS: u32 = 64;

/// Stands for an error without a number.
const EIO: i32 = 5;

/// The wire's part of a net. Zero is the fast wire, not recorded. The options are written once, before
/// the segment is shared; the rest is accessed with the segment's lock.
#[derive(Plain)]
#[repr(C, align(128))]
pub struct LinkArea {
    mode: AtomicU32,
    snaplen: AtomicU32,
    /// The card whose view is recorded, plus one; 0: what all cards send.
    seen_by: AtomicU32,
    /// When the net started (ns), by the machine's clock.
    started: AtomicU64,
    busy: Busy,
    /// The capture file.
    file: Place,
    outside: OutsideArea,
    live: Live,
}

/// What changes with every frame, in cache lines other than those that every run reads.
#[derive(Plain)]
#[repr(C, align(128))]
struct Busy {
    faults: FaultArea,
    /// Bytes of the capture file that are whole records.
    recorded: AtomicU64,
    /// Error number of the first process that could not record.
    lost: AtomicU32,
    late: LateArea,
}

/// How packets travel in a net. Zero: as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode(u32);

impl Mode {
    /// Some or all packets are made frames.
    #[inline(always)]
    pub fn is_linked(self) -> bool {
        self.0 != 0
    }

    /// Each packet is looked at: it travels as a frame, or is recorded, or may meet a port without a link.
    #[inline(always)]
    pub fn is_observed(self) -> bool {
        self.0 & !(OUTSIDE | BONDS) != 0
    }

    /// All packets are made frames.
    #[inline(always)]
    pub fn makes_frames(self) -> bool {
        self.0 & !(OUTSIDE | CUT | BONDS) != 0
    }

    /// Some frames may be recorded.
    fn is_recorded(self) -> bool {
        self.0 & (CAPTURE | LIVE) != 0
    }

    /// A port of the net has no link.
    pub fn is_cut(self) -> bool {
        self.0 & CUT != 0
    }

    /// The ports of a card are one.
    #[inline(always)]
    pub fn has_bonds(self) -> bool {
        self.0 & BONDS != 0
    }

    /// A port may have no link, or ports are one.
    #[inline(always)]
    pub fn minds_links(self) -> bool {
        self.0 & (CUT | BONDS) != 0
    }

    /// Faults happen to frames.
    pub fn has_faults(self) -> bool {
        self.0 & FAULTS != 0
    }
}

impl LinkArea {
    /// Notes the options, and the capture file, which has its header. Ports with a medium outside of the segment
    /// are [noted](OutsideArea::set) first.
    pub(crate) fn init(&self, options: &LinkOptions, captured: Option<&Metadata>) {
        let mut mode = if self.outside.any() { OUTSIDE } else { 0 };
        self.started.store(now_ns(), Ordering::Relaxed);
        if options.wire == Wire::Exact {
            mode |= EXACT;
            if options.faults.any() {
                mode |= FAULTS;
                self.busy.faults.init(&options.faults);
            }
        }
        if let Some((capture, made)) = options.capture.as_ref().zip(captured) {
            mode |= CAPTURE;
            self.file.note(&capture.path, made);
            self.snaplen.store(capture.snaplen, Ordering::Relaxed);
            self.seen_by.store(capture.card.map_or(0, |card| u32::from(card) + 1), Ordering::Relaxed);
            self.busy.recorded.store(HEADER, Ordering::Relaxed);
        }
        self.mode.store(mode, Ordering::Release);
    }

    /// How packets travel.
    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        Mode(self.mode.load(Ordering::Relaxed))
    }

    /// Whether packets are made frames at all: to travel as such, or to be recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.mode().makes_frames()
    }

    /// Whether frames may be lost because a port has no link. Only with all the cards.
    pub(crate) fn set_cut(&self, cut: bool) {
        self.set(CUT, cut);
    }

    /// Packets travel as the links and the ports of the cards ask for. Only with all the cards.
    pub(crate) fn follow(&self, world: &World) {
        self.set(BONDS, world.any_bond());
        self.set_cut(world.may_lose());
    }

    fn set(&self, bit: u32, to: bool) {
        match to {
            true => self.mode.fetch_or(bit, Ordering::Release),
            false => self.mode.fetch_and(!bit, Ordering::Release),
        };
    }

    /// The ports with a medium outside of the segment.
    pub fn outside(&self) -> &OutsideArea {
        &self.outside
    }

    /// Packets travel as frames.
    #[inline]
    pub(crate) fn exact(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & EXACT != 0
    }

    /// Frames are recorded.
    pub(super) fn capture(&self) -> bool {
        self.mode.load(Ordering::Relaxed) & CAPTURE != 0
    }

    /// Whether frames from port to port are recorded, by the file or by a capture that has begun since: as they are sent, or
    /// as they are received.
    pub(crate) fn sees(&self, way: (PortId, PortId), received: bool) -> bool {
        self.file_sees(way, received) || self.live.sees(way, received)
    }

    /// Whether what comes to a port from outside is recorded.
    pub(crate) fn sees_outside(&self, port: PortId) -> bool {
        self.mode().is_recorded() && self.sees((PortId::NOBODY, port), true)
    }

    /// Whether the file records them. As they are received: one card's view is recorded, and the card did not send them.
    pub(super) fn file_sees(&self, (from, to): (PortId, PortId), received: bool) -> bool {
        if !self.capture() {
            return false;
        }
        let card = self.seen_by.load(Ordering::Relaxed);
        let is_it = |id: PortId| u32::from(id.card) + 1 == card;
        match received {
            false => card == 0 || is_it(from),
            true => card != 0 && (to == PortId::ALL || is_it(to)) && !is_it(from),
        }
    }

    /// The captures that have begun since the net was started.
    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// Begins a capture for a member; `None` if there are too many. Only with all the cards, and then all labels must become
    /// void: while frames are observed, queue pairs run with all the cards.
    pub(crate) fn begin_live(&self, member: u16, view: &View) -> Option<usize> {
        let index = self.live.begin(member, view, !self.is_on())?;
        self.mode.fetch_or(LIVE, Ordering::Release);
        Some(index)
    }

    /// Ends the captures of a member. Only with all the cards.
    pub(crate) fn end_live(&self, member: u16, segment: &Segment) {
        self.live.end(member, segment);
        if !self.live.any() {
            self.mode.fetch_and(!LIVE, Ordering::Release);
        }
    }

    /// How long the net has been there at a time (ns) of the machine's clock.
    pub(super) fn since_start(&self, now: u64) -> Time {
        Time(now.saturating_sub(self.started.load(Ordering::Relaxed)).saturating_mul(1000))
    }

    /// What happens to a frame. Only with the lock.
    pub(super) fn fate(&self, look: &Look<'_>) -> Fate {
        if self.mode.load(Ordering::Relaxed) & FAULTS == 0 {
            return Fate::default();
        }
        self.busy.faults.fate(look)
    }

    /// What the rules of the faults have done so far.
    pub fn rule_uses(&self) -> Vec<RuleUse> {
        self.busy.faults.uses()
    }

    /// Frames that faults delay.
    pub(super) fn late(&self) -> &LateArea {
        &self.busy.late
    }

    /// When the first frame that a fault delays is due (ns, by the machine's clock).
    pub(crate) fn late_at(&self) -> Option<u64> {
        self.busy.late.soonest()
    }

    pub(super) fn snaplen(&self) -> usize {
        self.snaplen.load(Ordering::Relaxed) as usize
    }

    /// The capture file.
    pub(super) fn file(&self) -> &Place {
        &self.file
    }

    /// A process could not record, and has stopped recording.
    pub(super) fn lose(&self, error: &Error) {
        let error = error.raw_os_error().filter(|&number| number > 0).unwrap_or(EIO);
        let _ = self.busy.lost.compare_exchange(0, error as u32, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Why the capture is not complete.
    pub fn lost(&self) -> Option<Error> {
        let error = self.busy.lost.load(Ordering::Relaxed);
        (error != 0).then(|| claimed::told(Error::from_raw_os_error(error as i32)))
    }

    pub(super) fn recorded(&self) -> &AtomicU64 {
        &self.busy.recorded
    }
}
