//! Anything comes from outside: it is a packet, or counted as dropped; neighbours' tables keep their bounds.

use proptest::prelude::*;
use proptest::sample::select;

use super::arrivals::Arrivals;
use super::neighbours::{Neighbour, Neighbours};
use crate::packet::PortId;
use crate::wire::path::ipv4_to_gid;
use crate::wire::{corpus, frame, Arp, BthOpcode, Discovery, Ethernet, Headers, Icrc, Network, Path};

const PORT: PortId = PortId { card: 0, port: 0 };

/// A frame of any opcode with any fields.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let opcodes: Vec<_> = (0..=255).map(BthOpcode).filter(|opcode| opcode.is_known()).collect();
    let lengths = prop_oneof![8 => 0usize..300, 1 => 4090usize..4200, 1 => Just(8000usize)];
    (select(opcodes), any::<[u8; 44]>(), lengths, any::<bool>(), any::<bool>()).prop_map(
        |(opcode, mut fields, length, ipv6, ours)| {
            fields[0] = opcode.0;
            fields[1] &= 0xf0;
            let (mut headers, _) = Headers::decode(&fields).expect("44 bytes hold any headers");
            if ours {
                headers.bth.pkey = 0xffff;
            }
            let (from, to) = match ipv6 {
                true => ([0xfd; 16], [0xfc; 16]),
                false => (ipv4_to_gid([192, 0, 2, 1]), ipv4_to_gid([192, 0, 2, 2])),
            };
            let path = Path { network: Network::from_gids(&from, &to, 0, 0, 64), ..Path::default() };
            let payload = vec![7; if opcode.has_payload() { length } else { 0 }];
            let mut bytes = vec![0; frame::MAX_OVERHEAD + payload.len()];
            let len = frame::encode(&path, &headers, &payload, &mut bytes).expect("a frame");
            bytes.truncate(len);
            bytes
        },
    )
}

/// A question or answer of ARP or of neighbour discovery.
fn questions() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), any::<bool>(), any::<[u8; 6]>(), 0u8..8, 0u8..8, prop::option::of(0u16..4)).prop_map(
        |(arp, request, mac, from, to, vlan)| {
            let mut bytes = vec![0; 200];
            let ethertype = if arp { 0x806 } else { 0x86dd };
            let rest =
                Ethernet { dst: [0xff; 6], src: mac, vlan, ethertype }.encode(&mut bytes).expect("room");
            let length = if arp {
                let (sender, target) = ([198, 18, 0, from], [198, 18, 0, to]);
                let arp = Arp { request, sender_mac: mac, sender, target_mac: [0; 6], target };
                arp.encode(rest.first_chunk_mut().expect("room"));
                Arp::BYTES
            } else {
                let [source, target] =
                    [from, to].map(|end| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
                let discovery = Discovery {
                    request,
                    source,
                    destination: target,
                    target,
                    mac: Some(mac),
                    overrides: !request,
                };
                discovery.encode(mac, rest.first_chunk_mut().expect("room"));
                Discovery::BYTES
            };
            bytes.truncate(Ethernet::BYTES + if vlan.is_some() { 4 } else { 0 } + length);
            bytes
        },
    )
}

fn damaged(frames: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)];
    let cut = prop_oneof![4 => Just(usize::MAX), 1 => 0usize..400];
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let changed = (frames, changes, cut).prop_map(|(mut bytes, changes, cut)| {
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut);
        bytes
    });
    prop_oneof![9 => changed, 1 => noise]
}

proptest! {
    #[test]
    fn any_bytes_are_a_packet_or_counted(frames in prop::collection::vec(damaged(frames()), 1..6), checks: bool) {
        packets(&frames, if checks { Icrc::On } else { Icrc::Off })?;
    }

    /// Only questions for its own address are answered, with a frame each.
    #[test]
    fn any_neighbours(frames in prop::collection::vec(damaged(questions()), 1..30)) {
        answers(&frames)?;
    }
}

/// Each of these frames is a packet or counted; gives how many are packets.
fn packets(frames: &[Vec<u8>], icrc: Icrc) -> Result<usize, TestCaseError> {
    let mut arrivals = Arrivals::default();
    let mut at = 0;
    for frame in frames {
        let end = at + frame.len();
        arrivals.bytes[at..end].copy_from_slice(frame);
        arrivals.take(PORT, at..end, |bytes| frame::decode_with(bytes, icrc));
        let (list, bytes) = arrivals.packets();
        if let Some(last) = list.last().filter(|last| last.payload.start >= at) {
            prop_assert!(last.payload.end <= end && last.payload.len() <= 4096);
            prop_assert!(
                last.payload.end <= bytes.len() && last.packet.psn >> 24 == 0 && last.packet.count == 1
            );
            prop_assert!(last.packet.opcode().is_known() && last.packet.dst == PORT);
        }
        at = end;
    }
    let dropped: u64 = arrivals.dropped().map(|dropped| dropped.1).sum();
    let packets = arrivals.packets().0.len();
    prop_assert_eq!(packets as u64 + dropped, frames.len() as u64);
    Ok(packets)
}

/// What a port with two addresses, which asks for a third, makes of these frames; gives how many it answers.
fn answers(frames: &[Vec<u8>]) -> Result<usize, TestCaseError> {
    let mut table = Neighbours::new([2, 0, 0, 0, 0, 1]);
    let own = [ipv4_to_gid([198, 18, 0, 1]), [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]];
    let asked = ipv4_to_gid([198, 18, 0, 2]);
    let (mut now, mut answered) = (1, 0);
    table.look(now, &own[0], &(0, asked), &mut |_: &[u8]| {});
    for frame in frames {
        let mut answers = Vec::new();
        now += 1_000_000;
        let mut out = |frame: &[u8]| answers.push(frame.to_vec());
        let known = table.receive(now, frame, |(_, ip)| own.contains(ip), &mut out);
        prop_assert!(answers.len() <= 1 && (known || answers.is_empty()));
        answered += answers.len();
        for answer in answers {
            prop_assert!(
                Ethernet::decode(&answer).is_some_and(|(header, _)| header.src == [2, 0, 0, 0, 0, 1])
            );
        }
        table.run(now, &mut |_: &[u8]| {});
    }
    // Who neither asked nor was asked for is unknown.
    let stranger = ipv4_to_gid([203, 0, 113, 9]);
    let mut questions = 0;
    let found = table.look(now, &own[0], &(0, stranger), &mut |_: &[u8]| questions += 1);
    prop_assert!(matches!(found, Neighbour::Asked) && questions == 1);
    Ok(answered)
}

#[test]
fn kept_frames() {
    let kept = corpus::frames();
    let frames: Vec<Vec<u8>> = kept.iter().map(|kept| kept.bytes.clone()).collect();
    let good = kept.iter().filter(|kept| kept.says == "packet").count();
    // A few at a time, as a reader has room for. One is of another partition.
    let taken: usize = frames.chunks(8).map(|some| packets(some, Icrc::On).expect("packets")).sum();
    assert_eq!(taken, good - 1);
    // By ARP one asks for an address of the port, by neighbour discovery one, and one whether it is free.
    assert_eq!(answers(&frames).expect("questions"), 3);
}
