//! One changed bit shows as one changed line, which names the field.

use fpga_regs::catalog::formats;
use fpga_regs::decode::{self, Decoded};
use fpga_regs::field::Format;
use fpga_regs::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Name, hex and text of every line, by place.
fn lines(decoded: &Decoded) -> BTreeMap<(usize, Option<usize>), (String, String, String)> {
    let line = |line: &decode::Line| {
        let value = (line.name.clone(), line.hex.clone(), line.text.clone());
        ((line.byte, line.bit, line.name == "reserved"), value)
    };
    let with_kind: BTreeMap<_, _> = decoded.lines().map(line).collect();
    // A reserved byte may share its place with a field of fewer bits.
    with_kind
        .into_iter()
        .map(|((byte, bit, reserved), value)| {
            let bit = if reserved { Some(8) } else { bit };
            ((byte, bit), value)
        })
        .collect()
}

/// The names of the lines that differ; also that their text does, save for
/// reserved bits, which have none.
fn changed(before: &Decoded, after: &Decoded) -> Vec<String> {
    let (before, after) = (lines(before), lines(after));
    let mut names = Vec::new();
    for (place, old) in &before {
        match after.get(place) {
            Some(new) if new == old => continue,
            Some(new) if old.0 != "reserved" => assert_ne!(new.2, old.2, "{}", old.0),
            _ => {}
        }
        names.push(old.0.clone());
    }
    let added = after.iter().filter(|(place, _)| !before.contains_key(*place));
    names.extend(added.map(|(_, new)| new.0.clone()));
    names
}

fn check(format: &Format, bytes: &[u8], bit: usize) {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    let before = decode::format(format, bytes);
    let after = decode::format(format, &flipped);
    let owner = format
        .fields
        .iter()
        .find(|field| (field.bit..field.bit + field.width).contains(&bit))
        .map_or("reserved", |field| field.name);
    assert_eq!(changed(&before, &after), [owner], "{} bit {bit}", format.name);
}

#[test]
fn every_bit_of_every_format() {
    for format in formats() {
        for bit in 0..format.bytes * 8 {
            check(format, &vec![0; format.bytes], bit);
            check(format, &vec![0xff; format.bytes], bit);
        }
    }
}

#[test]
fn every_bit_of_a_whole_wqe_that_does_not_shape_it() {
    let bytes = WqeBuilder::new(WqeOpcode::CMP_SWAP)
        .remote(0x1000, 2)
        .atomic(3, 4)
        .sge(0x2000, 8, 5)
        .build()
        .unwrap();
    let before = decode::wqe(&bytes);
    for bit in 32..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let names = changed(&before, &decode::wqe(&flipped));
        assert_eq!(names.len(), 1, "bit {bit}: {names:?}");
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 256), bit in 0usize..2048) {
        for format in formats() {
            check(format, &bytes[..format.bytes], bit % (format.bytes * 8));
        }
    }
}
