//! The record of all frames.

use std::path::Path;

use model::address;
use model::attach::{run_keeper, NetOptions};
use model::link::frames;
use model::wire::Operation;
use model::wire::{frame, Network};
use tests::{place_for, Net};

use super::{exact, one_of_each, recorded};
use tests::pcap::{records, Record};

fn opcodes(records: &[Record]) -> Vec<u8> {
    let decode = |r: &Record| frame::decode(&r.kept).expect("a frame with a right ICRC").headers.bth.opcode.0;
    records.iter().map(decode).collect()
}

/// Runs one of each verb with a record of it.
fn run(options: NetOptions, snaplen: u32) -> Vec<Record> {
    let (_directory, path) = place_for("net.pcap");
    let (net, a, b) = Net::with(recorded(options, &path, snaplen)).both();
    one_of_each(&a, &b, 1);
    one_of_each(&a, &b, 0);
    drop((a, b));
    drop(net);
    records(&path, snaplen)
}

#[test]
fn every_frame_is_recorded_with_a_right_icrc() {
    let all = run(exact(""), 65_535);
    let one: Vec<u8> = vec![
        0x00, 0x01, 0x02, 0x11, // SEND, ACK
        0x06, 0x07, 0x08, 0x11, // WRITE
        0x0b, 0x11, // WRITE with immediate data
        0x0c, 0x0d, 0x0e, 0x0f, // READ
        0x14, 0x13, 0x12, 0x12, // FetchAdd, CmpSwap
        0x20, 0x22, // UC SEND
        0x2a, // UC WRITE
        0x65, // UD SEND with immediate data
    ];
    assert_eq!(opcodes(&all), [one.clone(), one].concat());
    assert!(all.windows(2).all(|pair| pair[0].time <= pair[1].time));
    for record in &all {
        let (p, payload) = frames::decode(&record.kept).expect("decodes");
        assert!(p.src.card < 2 && p.dst.card < 2 && p.src.card != p.dst.card);
        assert_eq!(record.len, record.kept.len());
        let path = frame::decode(&record.kept).unwrap().path;
        let index = if p.encapsulation.is_ipv6() { 0 } else { 1 };
        assert_eq!(path.network.src_gid(), address::gid(p.src, index));
        assert_eq!(path.network.dst_gid(), address::gid(p.dst, index));
        let hop_limit = match path.network {
            Network::V4(ip) => ip.ttl,
            Network::V6(ip) | Network::Grh(ip) => ip.hop_limit,
        };
        assert_eq!(hop_limit, 64);
        assert!(path.udp_sport >= 0xc000);
        if p.operation == Operation::Acknowledge {
            assert!(payload.is_empty());
        }
    }
}

#[test]
fn the_fast_wire_is_recorded_as_the_exact_one() {
    let (fast, exact) = (run(2.into(), 65_535), run(exact(""), 65_535));
    assert_eq!(opcodes(&fast), opcodes(&exact));
    let lengths = |records: &[Record]| records.iter().map(|r| r.len).collect::<Vec<_>>();
    assert_eq!(lengths(&fast), lengths(&exact));
}

#[test]
fn frames_are_cut_to_the_snaplen() {
    let cut = run(exact(""), 80);
    assert!(cut.iter().any(|r| r.len > 1000 && r.kept.len() == 80));
    assert!(cut.iter().any(|r| r.len == 62 && r.kept.len() == 62));
}

#[test]
fn a_file_that_cannot_be_made_is_said_at_once() {
    let (_directory, socket) = place_for("net.sock");
    for path in ["/nowhere/at/all.pcap", "relative.pcap"] {
        let error = run_keeper(&socket, recorded(exact(""), Path::new(path), 100)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("making the capture file {path}: ")), "{error}");
    }
    assert!(!Path::new("relative.pcap").exists());
}
