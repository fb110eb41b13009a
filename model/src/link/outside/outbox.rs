//! Frames on their way out: those of one port, destination and length leave together.

use std::ops::Range;

use super::area::{Drop, OutsideArea, OutsidePort};
use super::medium;
use crate::link::LinkEnv;
use crate::packet::PortId;
use crate::wire::{frame, Path};

/// Most frames that leave together: what the kernel takes as one (UDP_MAX_SEGMENTS of older ones).
pub const MAX_FRAMES: usize = 64;
/// Most bytes of them, with room for the headers of a UDP datagram of 64 KiB.
const MAX_BYTES: usize = 65_000;

/// Frames of one port and way, of equal length but for the last, which may be shorter.
#[derive(Default)]
pub struct Batch {
    /// The way of all of them.
    pub path: Path,
    port: Option<PortId>,
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
}

impl Batch {
    /// The frames, from the Ethernet header to the ICRC.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.frames.iter().map(|range| &self.bytes[range.clone()])
    }

    /// Whether a frame of `len` bytes may leave with these.
    fn takes(&self, port: PortId, path: &Path, len: usize) -> bool {
        let Some((first, last)) = self.frames.first().zip(self.frames.last()) else { return true };
        self.port == Some(port)
            && self.frames.len() < MAX_FRAMES
            && self.bytes.len() + len <= MAX_BYTES
            && last.len() == first.len()
            && len <= first.len()
            && same_way(&self.path, path)
    }
}

/// Whether two packets have the same headers up to UDP, but for lengths and IP identification.
fn same_way(one: &Path, other: &Path) -> bool {
    let without_id = |path: &Path| {
        let mut path = *path;
        path.network.set_id(0);
        path
    };
    without_id(one) == without_id(other)
}

/// Frames of a process that have not left yet. Empty between runs.
#[derive(Default)]
pub(crate) struct Outbox {
    batch: Batch,
}

impl Outbox {
    /// The place that the next frame of a port will have among those that leave together. If it cannot join those that
    /// are here, they leave first.
    pub fn place(
        &mut self,
        area: &OutsideArea,
        (port, path, len): (PortId, &Path, usize),
        env: &mut impl LinkEnv,
    ) -> u16 {
        if !self.batch.takes(port, path, len) {
            self.flush(area, env);
        }
        self.batch.frames.len() as u16
    }

    /// Adds a frame.
    pub fn put(
        &mut self,
        area: &OutsideArea,
        (port, path, frame): (PortId, &Path, &[u8]),
        env: &mut impl LinkEnv,
    ) {
        // One whose headers were damaged on its way is lost, as no router takes it.
        if frame::path(frame).is_none_or(|found| found != *path) {
            return;
        }
        self.place(area, (port, path, frame.len()), env);
        let batch = &mut self.batch;
        if batch.frames.is_empty() {
            (batch.path, batch.port) = (*path, Some(port));
        }
        let start = batch.bytes.len();
        batch.bytes.extend_from_slice(frame);
        batch.frames.push(start..batch.bytes.len());
    }

    /// Sends what is here. What the system does not take is lost, as on any wire.
    pub fn flush(&mut self, area: &OutsideArea, env: &mut impl LinkEnv) {
        if self.batch.frames.is_empty() {
            return;
        }
        if let Some(port) = self.batch.port.and_then(|port| area.port(port)) {
            self.send(port, env);
        }
        self.batch.bytes.clear();
        self.batch.frames.clear();
    }

    fn send(&mut self, port: &OutsidePort, env: &mut impl LinkEnv) {
        let sockets: Option<Vec<_>> = port.descriptors().map(|index| env.socket(index)).collect();
        let sent = match sockets {
            Some(sockets) => medium::send(port, &sockets, &self.batch).is_ok(),
            None => false,
        };
        if !sent {
            port.dropped(Drop::Unsent, self.batch.frames.len() as u64);
        }
    }
}
