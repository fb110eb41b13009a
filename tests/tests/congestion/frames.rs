//! Marks and notifications as frames, and what the cards count of them.

use std::path::Path;

use fpga_regs::regs::port;
use model::link::{Capture, LinkOptions, Wire};
use model::wire::{frame, BthOpcode};

use crate::traffic::{at_40g, Traffic};
use crate::{incast, MS};

/// The frames of a pcap file.
fn frames(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("the capture");
    let mut rest = &bytes[24..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        found.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    found
}

/// As card 0, to which all send, sees them: packets that can be marked, some that are, and notifications for them, not more
/// often than every 50 us to each sender. All have right check sums, as the frames are checked by the cards, too.
#[test]
fn marks_and_notifications_are_in_the_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("congestion.pcap");
    let capture = Some(Capture { path: path.clone(), snaplen: 65_535, card: Some(0) });
    let link = LinkOptions { wire: Wire::Exact, capture, ..LinkOptions::default() };
    let mut traffic = Traffic::on(at_40g(), "pfc", Some("dcqcn"), &incast(3), link);
    traffic.run_until(MS);
    let (marked, sent) = (traffic.counter(0, port::RX_ECN_MARKED), traffic.counter(0, port::TX_CNP));
    let received: u64 = (1..=3).map(|card| traffic.counter(card, port::RX_CNP)).sum();
    let marks = traffic.port(0).counts.marks;
    assert!(marks > 0 && marked <= marks && marked > 0, "{marked} of {marks} marked frames were counted");
    // The last ones may be on their way.
    assert!(sent > 0 && received <= sent && received + 3 >= sent, "{received} of {sent}");
    assert!(sent <= 3 * 20, "{sent} in a millisecond");
    traffic.finish();
    drop(traffic);
    let (mut seen, mut notifications, mut able) = (0, 0, 0);
    for bytes in frames(&path) {
        let frame = frame::decode(&bytes).expect("a frame with right check sums");
        if frame.headers.bth.opcode == BthOpcode::CNP {
            notifications += 1;
            assert!(frame.headers.bth.becn && !frame.headers.bth.ack_request);
            assert_eq!((frame.headers.bth.psn, frame.path.network.ecn()), (0, 0));
            assert_eq!(bytes.len(), 14 + 20 + 8 + 12 + 16 + 4);
            continue;
        }
        match frame.path.network.ecn() {
            3 => seen += 1,
            2 => able += 1,
            _ => assert!(frame.payload.is_empty(), "{:?}", frame.headers),
        }
    }
    assert!(seen >= marked && notifications >= sent && able > seen, "{seen} {notifications} {able}");
}

/// Without frames the same is counted.
#[test]
fn marks_are_counted_without_frames() {
    let mut traffic = Traffic::start(at_40g(), "pfc", Some("dcqcn"), &incast(3));
    traffic.run_until(MS);
    let (marked, marks) = (traffic.counter(0, port::RX_ECN_MARKED), traffic.port(0).counts.marks);
    assert!(marked > 0 && marked <= marks, "{marked} of {marks} marked packets were counted");
}
