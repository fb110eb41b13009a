//! The trait of what carries frames from port to port, and the faults and captures that wrap it.
//!
//! A [`Medium`] takes frames from the ports that send them. Capture and faults are media that wrap another
//! one, so they work with every medium and with both clocks: [`wrapped`] puts them around a medium in the
//! order in which a frame meets them.

use super::area::LinkArea;
use super::faults::{Changes, Look, Time};
use super::late::End;
use crate::packet::PortId;

/// A frame on its way from a port to another.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'a> {
    /// The port that sends it.
    pub from: PortId,
    /// The port that it is for.
    pub to: PortId,
    /// Its bytes, as its sender made them.
    pub frame: &'a [u8],
    /// When its first bit leaves, from the net's start.
    pub at: Time,
    /// What faults change in it on its way: flipped bits, an ECN mark.
    pub changes: Changes,
    /// Frames sent later that arrive earlier.
    pub passed_by: u64,
    /// By how much a fault delays it.
    pub late: Time,
}

impl<'a> Passage<'a> {
    /// A frame that arrives whole, and in its turn.
    pub fn new((from, to): (PortId, PortId), frame: &'a [u8], at: Time) -> Self {
        Passage { from, to, frame, at, changes: Changes::default(), passed_by: 0, late: Time(0) }
    }
}

/// Carries frames, such as the cable of the exact wire, or a socket.
pub(crate) trait Medium {
    /// Takes a frame from its sender and brings it to its receiver.
    fn send(&mut self, passage: &Passage<'_>);
    /// Records a frame for a capture, at the time when it passes this end of its way.
    fn record(&mut self, passage: &Passage<'_>, end: End);
}

/// A medium as its net was started: wrapped by the capture of what is sent, faults, and the capture of what arrives.
pub(crate) fn wrapped<'a, M: Medium + 'a>(area: &'a LinkArea, medium: M) -> impl Medium + 'a {
    let arriving = Captured { area, end: End::Receiver, inner: medium };
    Captured { area, end: End::Sender, inner: Faulty { area, inner: arriving } }
}

/// Loses, repeats, delays, marks and damages frames.
struct Faulty<'a, M> {
    area: &'a LinkArea,
    inner: M,
}

impl<M: Medium> Medium for Faulty<'_, M> {
    fn send(&mut self, passage: &Passage<'_>) {
        let Passage { from, to, at, frame, .. } = *passage;
        let fate = self.area.fate(&Look { from, to, at, frame });
        for passed_by in fate.arrivals() {
            self.inner.send(&Passage { changes: fate.changes, passed_by, late: fate.late, ..*passage });
        }
    }

    fn record(&mut self, passage: &Passage<'_>, end: End) {
        self.inner.record(passage, end);
    }
}

/// Records the frames that pass one end, if the capture sees that end.
struct Captured<'a, M> {
    area: &'a LinkArea,
    end: End,
    inner: M,
}

impl<M: Medium> Medium for Captured<'_, M> {
    fn send(&mut self, passage: &Passage<'_>) {
        if self.area.sees((passage.from, passage.to), self.end == End::Receiver) {
            self.inner.record(passage, self.end);
        }
        self.inner.send(passage);
    }

    fn record(&mut self, passage: &Passage<'_>, end: End) {
        self.inner.record(passage, end);
    }
}
