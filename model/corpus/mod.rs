//! Frames that tests try again: those of `frames.txt`, and what Linux rxe sent.

/// A frame.
pub struct Kept {
    /// What `wire::frame::decode` says of it: a reason, or `packet`.
    pub says: String,
    /// What it is, or once broke.
    pub what: String,
    pub bytes: Vec<u8>,
}

const CAPTURES: [&[u8]; 4] = [
    include_bytes!("../../tests/captures/rc-ack.pcap"),
    include_bytes!("../../tests/captures/rc-read.pcap"),
    include_bytes!("../../tests/captures/rc-send.pcap"),
    include_bytes!("../../tests/captures/rc-write.pcap"),
];

/// The frames of a pcap file, behind its header.
fn captured(mut rest: &[u8]) -> Vec<Kept> {
    let mut frames = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let bytes = behind[..length].to_vec();
        frames.push(Kept { says: "packet".into(), what: "of Linux rxe".into(), bytes });
        rest = &behind[length..];
    }
    frames
}

/// All of them.
pub fn frames() -> Vec<Kept> {
    let mut all: Vec<Kept> = CAPTURES.iter().flat_map(|file| captured(&file[24..])).collect();
    for line in include_str!("frames.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(hex) = line.strip_prefix("  ") {
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
            let frame = all.last_mut().expect("a line before its bytes");
            frame.bytes.extend((0..hex.len()).step_by(2).map(byte));
        } else {
            let (says, what) = line.split_once(": ").expect("what is said of it, and what it is");
            all.push(Kept { says: says.into(), what: what.into(), bytes: Vec::new() });
        }
    }
    all
}
