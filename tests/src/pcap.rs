//! Reading what was recorded.

use std::path::Path;

/// A record of a pcap file.
pub struct Record {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Bytes of the frame on the wire.
    pub len: usize,
    /// What was kept of it.
    pub kept: Vec<u8>,
}

/// Reads a little-endian pcap file with nanoseconds, link type Ethernet, and checks every length.
pub fn records(path: &Path, snaplen: u32) -> Vec<Record> {
    let bytes = std::fs::read(path).expect("the capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(4)), (0xa1b2_3c4d, 0x0004_0002));
    assert_eq!((word(8), word(12), word(16), word(20)), (0, 0, snaplen, 1));
    let mut records = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let (kept, len) = (word(at + 8) as usize, word(at + 12) as usize);
        assert!(word(at + 4) < 1_000_000_000);
        assert_eq!(kept, len.min(snaplen as usize));
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        records.push(Record { time, len, kept: bytes[at + 16..at + 16 + kept].to_vec() });
        at += 16 + kept;
    }
    assert_eq!(at, bytes.len());
    records
}
