//! Writes trace files by the format's description, knowing nothing of the reader.

/// A record, in the order of the file's fields.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub start: u64,
    pub end: u64,
    pub phase: u8,
    pub card: u8,
    pub flags: u8,
    pub qpn: u32,
    pub bytes: u32,
    pub message: u32,
    pub process: u32,
}

/// The bytes of a file; `size` of a record is 40 or more.
pub fn file(cards: u32, profile: &str, size: u32, records: &[Record]) -> Vec<u8> {
    let mut bytes = b"VBTRACE1".to_vec();
    bytes.extend(size.to_le_bytes());
    bytes.extend(cards.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(profile.as_bytes());
    bytes.resize(64, 0);
    for record in records {
        let end = bytes.len() + size as usize;
        bytes.extend(record.start.to_le_bytes());
        bytes.extend(record.end.to_le_bytes());
        bytes.extend([record.phase, record.card, 0, record.flags]);
        for word in [record.qpn, record.message, record.bytes, record.message, record.process] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(end, 0xee);
    }
    bytes
}

/// Phases of one message on its way to the other side: number, and duration in picoseconds.
pub const FORWARD: [(u8, u64); 8] = [
    (0, 30_000),  // post
    (1, 150_000), // doorbell
    (2, 500_123), // WQE fetch
    (3, 550_000), // payload fetch
    (4, 28_000),  // TX
    (5, 100_500), // wire
    (6, 28_000),  // RX
    (7, 250_000), // DMA write
];
/// What the sender sees of it afterwards.
pub const BACK: [(u8, u64); 3] = [(8, 128_000), (9, 250_000), (10, 40_000)];
/// From the bytes' arrival to the other program's post.
pub const PROGRAM: u64 = 70_000;

/// One way of a message of the ping-pong, in picoseconds.
pub fn one_way() -> u64 {
    FORWARD.iter().map(|(_, took)| took).sum::<u64>() + PROGRAM
}

fn chain(at: &mut u64, phases: &[(u8, u64)], record: Record, records: &mut Vec<Record>) {
    for (phase, took) in phases {
        // RX, DMA write and ACK are done on the responder's card, which is the other one.
        let flags = if [6, 7, 8].contains(phase) { 1 | 2 | (1 - record.card) << 4 } else { 0 };
        records.push(Record { start: *at, end: *at + took, phase: *phase, flags, ..record });
        *at += took;
    }
}

/// Two programs that answer each other `count` times, beginning with card 1 (perftest's client).
pub fn ping_pong(count: u32, bytes: u32) -> Vec<Record> {
    let mut records = Vec::new();
    let mut now = 5_000_000_000;
    for trip in 0..count {
        for card in [1u8, 0] {
            let (qpn, process) = (0x10010, u32::from(card) + 3);
            let record =
                Record { start: 0, end: 0, phase: 0, card, flags: 0, qpn, bytes, message: trip, process };
            chain(&mut now, &FORWARD, record, &mut records);
            // The acknowledgement goes back while the other program answers.
            let mut back = now;
            chain(&mut back, &BACK, record, &mut records);
            now += PROGRAM;
        }
    }
    records
}

/// One program that waits for each of its messages.
pub fn one_at_a_time(count: u32, bytes: u32) -> Vec<Record> {
    let mut records = Vec::new();
    let mut now = 1_000_000;
    for message in 0..count {
        let record =
            Record { start: 0, end: 0, phase: 0, card: 1, flags: 0, qpn: 9, bytes, message, process: 3 };
        chain(&mut now, &FORWARD, record, &mut records);
        chain(&mut now, &BACK, record, &mut records);
        now += PROGRAM;
    }
    records
}

/// Messages of four packets, posted in a row and all in flight at once: the wire is
/// never idle, and each packet waits for it (TX) while the next one's payload is fetched.
pub fn pipelined(count: u32) -> Vec<Record> {
    const PACKET: u64 = 800_000;
    let bytes = 4096;
    let mut records = Vec::new();
    let mut wire = 2_000_000;
    for message in 0..count {
        let record =
            Record { start: 0, end: 0, phase: 0, card: 1, flags: 0, qpn: 7, bytes, message, process: 3 };
        let posted = u64::from(message) * 10_000;
        records.push(Record { start: posted, end: posted + 10_000, ..record });
        let first = wire;
        for packet in 0..4 {
            let fetched = first - 700_000 + packet * 100_000;
            let piece = Record { bytes: 1024, ..record };
            records.push(Record { phase: 3, start: fetched - 100_000, end: fetched, ..piece });
            records.push(Record { phase: 4, start: fetched, end: wire, ..piece });
            records.push(Record { phase: 5, start: wire, end: wire + PACKET, ..piece });
            wire += PACKET;
            records.push(Record { phase: 6, start: wire, end: wire + 300_000, flags: 1, ..piece });
        }
    }
    records
}
