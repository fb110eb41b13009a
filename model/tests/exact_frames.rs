//! What the model's card sends is, byte for byte, what Linux rxe sent with the same parameters.
//!
//! Each message of the captures is described as the card's engine describes it: one [`Packet`] for the
//! whole train, with addresses, QP numbers, PSN, keys and payload of the capture. Its frames must be the
//! captured ones. (The IPv4 identification counts packets of the host; it is the capture's for each.)

use model::dma::Addr;
use model::link::frames::{decode, encode, headers, pieces, MAX_ROCE_FRAME};
use model::packet::{Packet, Payload, PortId};
use model::wire::{frame, BthOpcode, EncodeError, Frame, Network, Path};
use model::wire::{Operation, Syndrome};
use pcap_file::pcap::PcapReader;

/// Name, file, and how many messages (requests and answers) it holds.
const CAPTURES: [(&str, &[u8], usize); 4] = [
    ("rc-ack", include_bytes!("../../tests/captures/rc-ack.pcap"), 36),
    ("rc-read", include_bytes!("../../tests/captures/rc-read.pcap"), 16),
    ("rc-send", include_bytes!("../../tests/captures/rc-send.pcap"), 23),
    ("rc-write", include_bytes!("../../tests/captures/rc-write.pcap"), 15),
];

fn frames(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(capture).expect("a pcap file");
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        frames.push(packet.expect("a whole packet").data.into_owned());
    }
    frames
}

/// The engine's packet for the message that begins with `first` and has `count` packets with `len` bytes.
fn train(first: &Frame<'_>, count: u32, len: usize) -> Packet {
    let h = &first.headers;
    let mut p = Packet::BLANK;
    (p.dest_qpn, p.psn, p.count) = (h.bth.dest_qp, h.bth.psn, count);
    (p.first, p.last) = (true, true);
    p.payload = if len == 0 { Payload::None } else { Payload::Memory(Addr::default(), len as u32) };
    let opcode = h.bth.opcode;
    if opcode.has_reth() {
        (p.va, p.rkey, p.dma_len) = (h.reth.virtual_address, h.reth.rkey, h.reth.dma_length);
    }
    if opcode.has_aeth() {
        (p.syndrome, p.msn) = (Syndrome::ACK, h.aeth.msn);
    }
    p.operation = match opcode {
        BthOpcode::RC_READ_REQUEST => Operation::ReadRequest,
        BthOpcode::RC_ACKNOWLEDGE => Operation::Acknowledge,
        _ if opcode.is_response() => Operation::ReadResponse,
        _ if opcode.has_reth() => Operation::Write,
        _ => Operation::Send,
    };
    p.ack_req = matches!(p.operation, Operation::Send | Operation::Write | Operation::ReadRequest);
    p
}

fn encoded(path: &Path, train: &Packet, payload: &[u8]) -> Vec<Vec<u8>> {
    let one = |piece: model::link::frames::Piece| {
        let mut out = vec![0xee; MAX_ROCE_FRAME];
        let fill = |to: &mut [u8]| {
            to.copy_from_slice(&payload[piece.part.clone()]);
            Ok::<(), EncodeError>(())
        };
        let (_, len) =
            encode(&headers(&piece.packet), path, piece.part.len(), &mut out, fill).expect("encodes");
        out.truncate(len);
        out
    };
    pieces(train).map(one).collect()
}

/// The same path with the identification of another packet.
fn with_id(mut path: Path, id: u16) -> Path {
    if let Network::V4(ip) = &mut path.network {
        ip.id = id;
    }
    path
}

fn id(frame: &Frame<'_>) -> u16 {
    match frame.path.network {
        Network::V4(ip) => ip.id,
        Network::V6(_) | Network::Grh(_) => unreachable!("the captures are IPv4"),
    }
}

#[test]
fn every_message_has_the_captured_frames() {
    for (name, capture, messages) in CAPTURES {
        let raw = frames(capture);
        let all: Vec<Frame<'_>> = raw.iter().map(|bytes| frame::decode(bytes).expect("decodes")).collect();
        let mut found = 0;
        for side in [[10, 77, 0, 1], [10, 77, 0, 2]] {
            // The two directions are interleaved; in each, messages follow one another. (Of five WRITEs
            // only the first packet was recorded: a train that does not end its message.)
            let sent = |i: &usize| matches!(all[*i].path.network, Network::V4(ip) if ip.src == side);
            let numbers: Vec<usize> = (0..all.len()).filter(sent).collect();
            for message in numbers.chunk_by(|_, &i| !all[i].headers.bth.opcode.starts_message()) {
                let first = &all[message[0]];
                assert!(first.headers.bth.opcode.starts_message(), "{name}: frame {}", message[0] + 1);
                let payload: Vec<u8> = message.iter().flat_map(|&i| all[i].payload.iter().copied()).collect();
                let mut train = train(first, message.len() as u32, payload.len());
                train.last = all[message[message.len() - 1]].headers.bth.opcode.ends_message();
                train.ack_req &= train.last;
                for (n, &i) in message.iter().enumerate() {
                    let made = encoded(&with_id(first.path, id(&all[i])), &train, &payload);
                    assert_eq!(made.len(), message.len());
                    assert!(made[n] == raw[i], "{name}: frame {}", i + 1);
                }
                found += 1;
            }
        }
        assert_eq!(found, messages, "{name}: messages");
    }
}

#[test]
fn the_captured_frames_are_the_engines_packets() {
    for (name, capture, _) in CAPTURES {
        for bytes in frames(capture) {
            let (p, payload) = decode(&bytes).expect("decodes");
            // Addresses of other machines are nobody's here.
            assert_eq!((p.src, p.dst), (PortId::NOBODY, PortId::NOBODY), "{name}");
            assert!(payload.len() <= 1024);
            assert!(!p.encapsulation.is_ipv6());
            if p.operation == Operation::Acknowledge {
                assert_eq!((p.syndrome, payload.len()), (Syndrome::ACK, 0));
            }
        }
    }
}
