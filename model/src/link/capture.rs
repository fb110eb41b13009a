//! Recording frames: a pcap file with nanoseconds, link type Ethernet.
//!
//! The process that runs the cards writes, under the segment's lock; each process opens the file by its
//! path. Records are collected and written in one piece at the end of a run, at the offset up to which the
//! segment knows the file to be whole: the next write overwrites what a process killed in the middle of one
//! left there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::area::LinkArea;
use super::live::Seen;
use super::options::Capture;
use crate::claimed::{self, Made};

/// Bytes collected before they are written in the middle of a run.
const BATCH: usize = 1 << 20;
/// Bytes of the file's header.
pub const HEADER: u64 = 24;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;

/// Makes the file, empty but for its header, which is the net's as long as this is held (see [`claimed`]).
pub(crate) fn create(capture: &Capture) -> io::Result<Made> {
    let mut header = Vec::with_capacity(HEADER as usize);
    header.extend(MAGIC_NANOSECONDS.to_le_bytes());
    header.extend(2u16.to_le_bytes());
    header.extend(4u16.to_le_bytes());
    header.extend([0; 8]);
    header.extend(capture.snaplen.to_le_bytes());
    header.extend(LINKTYPE_ETHERNET.to_le_bytes());
    claimed::make(&capture.path, &header)
}

/// Cuts off what a process killed in the middle of a write left after the whole records. Only with the
/// segment's lock.
pub fn trim(area: &LinkArea) {
    if !area.capture() {
        return;
    }
    // One that was removed or renamed meanwhile is left as it is.
    if let Ok(file) = area.file().open() {
        let whole = area.recorded().load(Ordering::Relaxed);
        if file.metadata().is_ok_and(|file| file.len() > whole) {
            let _ = file.set_len(whole);
        }
    }
}

/// A process's access to the file.
#[derive(Default)]
pub(crate) struct Recorder {
    batch: Vec<u8>,
    file: Option<File>,
    /// The file could not be written, and a message said so.
    failed: bool,
}

impl Recorder {
    /// Records a frame, in the file and for the captures that see it.
    pub fn record(&mut self, area: &LinkArea, seen: &Seen, frame: &[u8]) {
        area.live().put(seen, frame);
        if self.failed || !area.file_sees((seen.from, seen.to), seen.received) {
            return;
        }
        let (s, ns) = ((seen.at / 1_000_000_000) as u32, (seen.at % 1_000_000_000) as u32);
        let kept = &frame[..frame.len().min(area.snaplen())];
        for word in [s, ns, kept.len() as u32, frame.len() as u32] {
            self.batch.extend(word.to_le_bytes());
        }
        self.batch.extend(kept);
        if self.batch.len() >= BATCH {
            self.flush(area);
        }
    }

    /// Writes the records collected so far.
    pub fn flush(&mut self, area: &LinkArea) {
        if self.batch.is_empty() {
            return;
        }
        if let Err(error) = self.write(area) {
            self.failed = true;
            area.lose(&error);
            let (path, error) = (area.file().path(), claimed::told(error));
            tell!("verbena: {}: {error}: this process records no more frames", path.display());
        }
        self.batch.clear();
    }

    fn write(&mut self, area: &LinkArea) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(area.file().open()?),
        };
        let at = area.recorded().load(Ordering::Relaxed);
        file.write_all_at(&self.batch, at)?;
        area.recorded().store(at + self.batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
