//! Packets of Linux rxe: each decodes, has a right ICRC, and encodes to the same bytes.

use model::wire::frame::{decode, encode, MAX_OVERHEAD};
use model::wire::{DropReason, Network, Operation, Syndrome, Transport};
use pcap_file::pcap::PcapReader;

struct Capture {
    name: &'static str,
    bytes: &'static [u8],
    /// How many packets of each operation it holds.
    packets: &'static [(Operation, usize)],
}

const CAPTURES: [Capture; 4] = [
    Capture {
        name: "rc-ack",
        bytes: include_bytes!("../../tests/captures/rc-ack.pcap"),
        packets: &[(Operation::Acknowledge, 36)],
    },
    Capture {
        name: "rc-read",
        bytes: include_bytes!("../../tests/captures/rc-read.pcap"),
        packets: &[(Operation::ReadRequest, 8), (Operation::ReadResponse, 18)],
    },
    Capture {
        name: "rc-send",
        bytes: include_bytes!("../../tests/captures/rc-send.pcap"),
        packets: &[(Operation::Send, 33)],
    },
    Capture {
        name: "rc-write",
        bytes: include_bytes!("../../tests/captures/rc-write.pcap"),
        packets: &[(Operation::Write, 20), (Operation::Acknowledge, 5)],
    },
];

impl Capture {
    fn frames(&self) -> Vec<Vec<u8>> {
        let mut reader = PcapReader::new(self.bytes).expect("a pcap file");
        let mut frames = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.expect("a whole packet");
            assert_eq!(packet.data.len(), packet.orig_len as usize, "not cut by the capture");
            frames.push(packet.data.into_owned());
        }
        frames
    }
}

#[test]
fn every_frame_decodes_and_encodes_to_the_same_bytes() {
    for capture in &CAPTURES {
        for (number, bytes) in capture.frames().iter().enumerate() {
            let at = format!("{} frame {}", capture.name, number + 1);
            let frame = decode(bytes).unwrap_or_else(|reason| panic!("{at}: {reason}"));
            let mut out = vec![0xee; frame.payload.len() + MAX_OVERHEAD];
            let len = encode(&frame.path, &frame.headers, frame.payload, &mut out)
                .unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(out[..len], bytes[..], "{at}");
        }
    }
}

#[test]
fn every_operation_is_counted() {
    for capture in &CAPTURES {
        let frames = capture.frames();
        let total: usize = capture.packets.iter().map(|(_, count)| count).sum();
        assert_eq!(frames.len(), total, "{}", capture.name);
        for &(operation, count) in capture.packets {
            let found = frames
                .iter()
                .filter_map(|bytes| decode(bytes).ok()?.headers.bth.opcode.operation())
                .filter(|&found| found == operation)
                .count();
            assert_eq!(found, count, "{} {operation:?}", capture.name);
        }
    }
}

#[test]
fn what_rxe_sets() {
    for capture in &CAPTURES {
        for bytes in capture.frames() {
            let frame = decode(&bytes).expect("decodes");
            let Network::V4(ip) = frame.path.network else {
                panic!("the captures are IPv4");
            };
            assert!(ip.dont_fragment);
            assert_eq!((ip.ttl, ip.tos), (64, 0));
            let bth = frame.headers.bth;
            assert_eq!(bth.pkey, 0xffff);
            assert_eq!(bth.opcode.transport(), Transport::RC);
            assert!(!bth.migration);
            if bth.opcode.has_aeth() {
                assert_eq!(frame.headers.aeth.syndrome, Syndrome::ACK);
            }
        }
    }
}

#[test]
fn a_damaged_payload_is_dropped_for_its_icrc() {
    for capture in &CAPTURES {
        for bytes in capture.frames() {
            let transport = 14 + 20 + 8;
            for at in (transport..bytes.len()).filter(|&at| at != transport + 4) {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << (at % 8);
                assert_eq!(decode(&bad), Err(DropReason::Icrc), "{} byte {at}", capture.name);
            }
        }
    }
}
