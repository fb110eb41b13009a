//! What carries frames from port to port, and what can be put around it.
//!
//! A [`Medium`] takes frames from the ports that send them. Capture and faults are media that wrap another
//! one, so they work with every medium and by both clocks: [`wrapped`] puts them around a medium in the
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
    /// What the way changes in it.
    pub changes: Changes,
    /// Frames sent later that arrive earlier.
    pub passed_by: u64,
    /// How much longer its way takes than it would.
    pub late: Time,
}

impl<'a> Passage<'a> {
    /// A frame that arrives whole, and in its turn.
    pub fn new((from, to): (PortId, PortId), frame: &'a [u8], at: Time) -> Self {
        Passage { from, to, frame, at, changes: Changes::default(), passed_by: 0, late: Time(0) }
    }
}

/// Carries frames.
pub(crate) trait Medium {
    /// Takes a frame from its sender and brings it to its receiver.
    fn send(&mut self, passage: &Passage<'_>);
    /// Records a frame at the time when it passes an end of its way.
    fn record(&mut self, passage: &Passage<'_>, end: End);
}

/// A medium with all that its net was started with: the record of what is sent, faults, the record of what
/// arrives.
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

/// Records frames that pass one end, where the capture sees it.
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
