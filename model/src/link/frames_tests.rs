use proptest::prelude::*;

use super::frames::*;
use crate::encapsulation::Encapsulation;
use crate::gids::GidEntry;
use crate::packet::{Packet, Payload, PortId};
use crate::wire::{EncodeError, Extra, Network, Operation, Path, Syndrome, Transport};
use crate::{address, dma::Addr};

const MTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// What a transport can send, each with the extras that it can carry.
const KINDS: [(Transport, Operation, &[Extra]); 20] = {
    use {Extra::*, Operation::*};
    [
        (Transport::RC, Send, &[None, Immediate, Invalidate]),
        (Transport::RC, Write, &[None, Immediate]),
        (Transport::RC, ReadRequest, &[None]),
        (Transport::RC, ReadResponse, &[None]),
        (Transport::RC, CompareSwap, &[None]),
        (Transport::RC, FetchAdd, &[None]),
        (Transport::RC, AtomicAcknowledge, &[None]),
        (Transport::RC, Acknowledge, &[None]),
        (Transport::CNP, CongestionNotification, &[None]),
        (Transport::UC, Send, &[None, Immediate]),
        (Transport::UC, Write, &[None, Immediate]),
        (Transport::UD, Send, &[None]),
        (Transport::UD, Send, &[Immediate]),
        (Transport::RC, Send, &[None]),
        (Transport::XRC, Send, &[None, Immediate, Invalidate]),
        (Transport::XRC, Write, &[None, Immediate]),
        (Transport::XRC, ReadRequest, &[None]),
        (Transport::XRC, ReadResponse, &[None]),
        (Transport::XRC, FetchAdd, &[None]),
        (Transport::XRC, Acknowledge, &[None]),
    ]
};

fn ports() -> impl Strategy<Value = (PortId, PortId)> {
    (0u16..16, 0u8..2, 0u16..16, 0u8..2)
        .prop_map(|(a, p, b, q)| (PortId { card: a, port: p }, PortId { card: b, port: q }))
}

prop_compose! {
    /// A train, as the card makes them, and the path MTU.
    fn train()(
        (transport, kind, extras) in prop::sample::select(KINDS.to_vec()),
        extra in any::<prop::sample::Index>(),
        (src, dst) in ports(),
        mtu in prop::sample::select(MTUS.to_vec()),
        (mut count, tail) in (1u32..6, any::<prop::sample::Index>()),
        (mut first, mut last) in any::<(bool, bool)>(),
        (mut ack_req, solicited, ipv6) in any::<(bool, bool, bool)>(),
        (qpn, own, psn, msn) in (0..1u32 << 24, 0..1u32 << 24, 0..1u32 << 24, 0..1u32 << 24),
        (imm, qkey, rkey, dma_len) in any::<(u32, u32, u32, u32)>(),
        (va, swap_add, compare) in any::<(u64, u64, u64)>(),
        (tag, v1) in any::<(Option<u16>, bool)>(),
        (syndrome, traffic_class, hop_limit, sgid_index) in (any::<u8>(), any::<u8>(), any::<u8>(), 0u8..2),
    ) -> (Packet, usize) {
        let mut p = Packet::BLANK;
        p.transport = transport;
        p.operation = kind;
        let long = matches!(kind, Operation::Send | Operation::Write | Operation::ReadResponse) && transport != Transport::UD;
        if !long {
            (count, first, last) = (1, true, true);
        }
        ack_req &= !matches!(kind, Operation::Acknowledge | Operation::AtomicAcknowledge | Operation::ReadResponse);
        // A train that is not the end of its message has full packets only.
        let tail = if !long && kind != Operation::Send {
            0
        } else if !last {
            mtu
        } else if count > 1 || !first {
            1 + tail.index(mtu)
        } else {
            tail.index(mtu + 1)
        };
        let len = (count as usize - 1) * mtu + tail;
        p.payload = Payload::Memory(Addr::default(), len as u32);
        (p.count, p.first, p.last, p.ack_req, p.solicited) = (count, first, last, ack_req, solicited && last);
        (p.src, p.dst, p.dest_qpn, p.psn) = (src, dst, qpn, psn);
        p.encapsulation = if ipv6 { Encapsulation::UDP_IPV6 } else { Encapsulation::UDP_IPV4 };
        if let Some(tci) = tag {
            p.encapsulation = p.encapsulation.with_tag(tci);
        }
        if last && !extras.is_empty() {
            p.extra = *extra.get(extras);
            if p.extra != Extra::None {
                p.imm = imm;
            }
        }
        match kind {
            Operation::Acknowledge | Operation::AtomicAcknowledge | Operation::ReadResponse => (p.syndrome, p.msn) = (Syndrome(syndrome), msn),
            Operation::Write if first => (p.va, p.rkey, p.dma_len) = (va, rkey, dma_len),
            Operation::ReadRequest => (p.va, p.rkey, p.dma_len) = (va, rkey, dma_len),
            Operation::CompareSwap | Operation::FetchAdd => {
                (p.va, p.rkey, p.swap_add, p.compare) = (va, rkey, swap_add, compare)
            }
            _ => {}
        }
        if kind == Operation::AtomicAcknowledge {
            p.compare = compare;
        }
        // A datagram's is that of its traffic class.
        p.ecn = if transport == Transport::UD { traffic_class & 3 } else { syndrome & 3 };
        if transport == Transport::XRC && !p.is_answer() {
            p.srqn = own;
        }
        if transport == Transport::UD {
            (p.src_qpn, p.qkey, p.traffic_class, p.hop_limit) = (own, qkey, traffic_class, hop_limit);
            p.sgid = address::gid(src, sgid_index);
            p.dgid = address::gid(dst, sgid_index);
            let source = GidEntry { vlan: tag.map_or(0, |tci| tci & 0xfff), v1: v1.into(), ..GidEntry::new(p.sgid) };
            p.encapsulation = source.encapsulation(&p.dgid, 5);
            if v1 {
                p.ecn = 0;
            }
        }
        (p, mtu)
    }
}

fn path(p: &Packet) -> Path {
    let index = if p.encapsulation.is_ipv6() { 0 } else { 1 };
    let (src, dst) = (address::gid(p.src, index), address::gid(p.dst, index));
    let mut network = match p.encapsulation.is_v1() {
        true => Network::in_grh(&p.sgid, &p.dgid, p.traffic_class, 0, p.hop_limit),
        false => Network::from_gids(&src, &dst, p.traffic_class, 0, p.hop_limit),
    };
    network.set_ecn(p.ecn);
    Path {
        src_mac: p.src.mac(),
        dst_mac: p.dst.mac(),
        vlan: p.encapsulation.tag(),
        network,
        udp_sport: 0xc123,
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn encoded(piece: &Piece, path: &Path, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xee; MAX_ROCE_FRAME];
    let fill = |to: &mut [u8]| {
        to.copy_from_slice(&payload[piece.part.clone()]);
        Ok::<(), EncodeError>(())
    };
    let (_, len) = encode(&headers(&piece.packet), path, piece.part.len(), &mut out, fill).unwrap();
    out.truncate(len);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_train_comes_back_packet_by_packet((train, path_mtu) in train()) {
        if train.count > 1 {
            prop_assert_eq!(mtu(&train), path_mtu);
        }
        let payload = bytes(train.payload.len());
        let mut received = Vec::new();
        let mut wire_bytes = 0;
        let mut n = 0;
        for piece in pieces(&train) {
            let frame = encoded(&piece, &path(&train), &payload);
            wire_bytes += frame.len() as u64;
            let (p, data) = decode(&frame).unwrap();
            prop_assert_eq!(format!("{:?}", p), format!("{:?}", piece.packet));
            prop_assert!(data.len() <= path_mtu);
            received.extend_from_slice(data);
            n += 1;
        }
        prop_assert_eq!(n, train.count);
        prop_assert!(received == payload);
        // What the counters say is what goes over the wire, but for a READ response in the middle of its
        // message, whose trains the counters take for whole ones.
        if train.operation != Operation::ReadResponse || (train.first && train.last) {
            prop_assert_eq!(train.wire_bytes(train.payload.len() as u32), wire_bytes);
        }
    }

    #[test]
    fn any_flipped_bit_that_counts_is_found((train, _) in train(), at in any::<prop::sample::Index>()) {
        let payload = bytes(train.payload.len());
        let piece = pieces(&train).next().unwrap();
        let mut frame = encoded(&piece, &path(&train), &payload);
        // From the BTH on, but for its byte of congestion marks.
        let bth = train.encapsulation.overhead() as usize - 12 - 4;
        let bit = at.index((frame.len() - bth) * 8);
        let bit = if bit / 8 == 4 { bit + 8 } else { bit };
        frame[bth + bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode(&frame).is_err());
    }
}

#[test]
fn a_group_is_reached_by_its_address() {
    let mut p = Packet::BLANK;
    (p.transport, p.operation) = (Transport::UD, Operation::Send);
    (p.src, p.dst) = (PortId { card: 1, port: 0 }, PortId::ALL);
    for (dgid, mac) in [
        ([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], [0x33, 0x33, 1, 2, 3, 4]),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 1, 2, 3], [0x01, 0, 0x5e, 1, 2, 3]),
    ] {
        p.dgid = dgid;
        p.sgid = address::gid(p.src, 1);
        let path = super::route::datagram(&p);
        assert_eq!(path.dst_mac, mac);
        let frame = encoded(&pieces(&p).next().unwrap(), &path, &[]);
        let (back, _) = decode(&frame).unwrap();
        assert_eq!((back.dst, back.dgid), (PortId::ALL, dgid));
    }
}
