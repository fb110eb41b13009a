//! Frames of one port and way, which leave together.

use std::ops::Range;

use crate::packet::PortId;
use crate::wire::Path;

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
    /// [`MAX_BYTES`], of which the frames take the first ones; allocated on first use.
    bytes: Vec<u8>,
    frames: Vec<Range<usize>>,
}

impl Batch {
    /// The frames, from the Ethernet header to the ICRC.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.frames.iter().map(|range| &self.bytes[range.clone()])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The port that they leave by.
    pub fn port(&self) -> Option<PortId> {
        self.port
    }

    /// Makes a frame of `len` bytes that it [takes](Self::takes) in its place. Without it, if that fails.
    pub(super) fn make<E>(
        &mut self,
        (port, path, len): (PortId, &Path, usize),
        make: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.bytes.is_empty() {
            self.bytes.resize(MAX_BYTES, 0);
        }
        let start = self.end();
        make(&mut self.bytes[start..start + len])?;
        if self.is_empty() {
            (self.path, self.port) = (*path, Some(port));
        }
        self.frames.push(start..start + len);
        Ok(())
    }

    /// Bytes that are taken.
    fn end(&self) -> usize {
        self.frames.last().map_or(0, |last| last.end)
    }

    /// Nothing is left of them.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
    }

    /// Whether a frame of `len` bytes may leave with these.
    pub(super) fn takes(&self, port: PortId, path: &Path, len: usize) -> bool {
        let Some((first, last)) = self.frames.first().zip(self.frames.last()) else { return true };
        self.port == Some(port)
            && self.frames.len() < MAX_FRAMES
            && self.end() + len <= MAX_BYTES
            && last.len() == first.len()
            && len <= first.len()
            && same_way(&self.path, path)
    }
}

/// Whether two packets have the same headers up to UDP, but for lengths and IP identification.
fn same_way(one: &Path, other: &Path) -> bool {
    let mut one = *one;
    if let Some(id) = other.network.id() {
        one.network.set_id(id);
    }
    one == *other
}
