//! Files of frames, read and written by a crate that is not ours.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};

/// Writes frames.
pub fn write<'a>(path: &Path, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
    let mut file = PcapWriter::new(File::create(path).expect("a file")).expect("a header");
    for frame in frames {
        file.write_packet(&PcapPacket::new(Duration::ZERO, frame.len() as u32, frame)).expect("room");
    }
}

/// Reads frames.
pub fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut file = PcapReader::new(File::open(path).expect("a file")).expect("a header");
    std::iter::from_fn(|| Some(file.next_packet()?.expect("a packet").data.into_owned())).collect()
}
