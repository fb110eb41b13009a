use proptest::prelude::*;

use super::frame::{begin, decode, decode_with, encode, encode_with, finish, MAX_OVERHEAD};
use super::*;

fn known_opcodes() -> impl Strategy<Value = BthOpcode> {
    let known: Vec<_> = (0..=255).map(BthOpcode).filter(|op| op.is_known()).collect();
    proptest::sample::select(known)
}

fn networks() -> impl Strategy<Value = Network> {
    prop_oneof![
        any::<([u8; 4], [u8; 4], u8, u8, u16, bool)>().prop_map(|(src, dst, tos, ttl, id, dont_fragment)| {
            Network::V4(Ipv4 { src, dst, tos, ttl, id, dont_fragment })
        }),
        any::<([u8; 16], [u8; 16], u8, u32, u8)>().prop_map(
            |(src, dst, traffic_class, flow_label, hop_limit)| {
                let flow_label = flow_label & 0xf_ffff;
                Network::V6(Ipv6 { src, dst, traffic_class, flow_label, hop_limit })
            }
        ),
        any::<([u8; 16], [u8; 16], u8, u32, u8)>()
            .prop_map(|(src, dst, class, label, hops)| { Network::in_grh(&src, &dst, class, label, hops) }),
    ]
}

fn paths() -> impl Strategy<Value = Path> {
    (any::<([u8; 6], [u8; 6], Option<u16>, u16)>(), networks()).prop_map(
        |((src_mac, dst_mac, vlan, sport), network)| {
            let udp_sport = if network.udp_len() == 0 { 0 } else { sport };
            Path { src_mac, dst_mac, vlan, network, udp_sport }
        },
    )
}

/// Headers with random values where the opcode has them and zero elsewhere, as decoding gives.
fn headers() -> impl Strategy<Value = Headers> {
    (known_opcodes(), any::<[u8; 44]>()).prop_map(|(opcode, mut bytes)| {
        bytes[0] = opcode.0;
        bytes[1] &= 0xc0; // no pad, version 0
        Headers::decode(&bytes).expect("44 bytes hold any headers").0
    })
}

fn packets() -> impl Strategy<Value = (Path, Headers, Vec<u8>)> {
    let payload = proptest::collection::vec(any::<u8>(), 0..300);
    (paths(), headers(), payload).prop_map(|(path, headers, mut payload)| {
        if !headers.bth.opcode.has_payload() {
            payload.clear();
        }
        (path, headers, payload)
    })
}

fn encoded(path: &Path, headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xee; payload.len() + MAX_OVERHEAD];
    let len = encode(path, headers, payload, &mut out).expect("encodes");
    assert!(out[len..].iter().all(|&b| b == 0xee), "wrote past the frame");
    out.truncate(len);
    out
}

/// A small packet of each IP version and of RoCE version 1, with and without tag.
fn samples() -> Vec<Vec<u8>> {
    let headers = Headers {
        bth: Bth {
            opcode: BthOpcode::write(Transport::RC, Position::Only, true),
            pkey: 0xffff,
            dest_qp: 0x11,
            psn: 0x00ff_ffff,
            ack_request: true,
            ..Bth::default()
        },
        reth: Reth { virtual_address: 0x7000_1000, rkey: 0x1234, dma_length: 5 },
        imm: ImmDt { bytes: [1, 2, 3, 4] },
        ..Headers::default()
    };
    let v4 = Network::V4(Ipv4 { src: [198, 18, 0, 1], dst: [198, 18, 0, 2], ttl: 64, ..Ipv4::default() });
    let v6 = Network::V6(Ipv6 { src: [1; 16], dst: [2; 16], hop_limit: 64, ..Ipv6::default() });
    let mut all = Vec::new();
    let grh = Network::in_grh(&[1; 16], &[2; 16], 0, 0, 64);
    for network in [v4, v6, grh] {
        for vlan in [None, Some(100)] {
            let udp_sport = if network == grh { 0 } else { 0xc000 };
            let path = Path { network, vlan, udp_sport, ..Path::default() };
            all.push(encoded(&path, &headers, b"hello"));
        }
    }
    all
}

proptest! {
    #[test]
    fn round_trip((path, headers, payload) in packets()) {
        let bytes = encoded(&path, &headers, &payload);
        let frame = decode(&bytes).expect("decodes");
        prop_assert_eq!(frame.path, path);
        prop_assert_eq!(frame.payload, &payload[..]);
        let mut expected = headers;
        expected.bth.pad_count = (4 - payload.len() as u8 % 4) % 4;
        prop_assert_eq!(frame.headers, expected);
        prop_assert_eq!(encoded(&frame.path, &frame.headers, frame.payload), bytes);
    }

    /// No bit of a header is lost, but the reserved ones.
    #[test]
    fn headers_keep_every_bit(opcode in known_opcodes(), mut bytes in any::<[u8; 44]>()) {
        bytes[0] = opcode.0;
        bytes[1] &= 0xf0;
        bytes[4] &= 0xc0;
        bytes[8] &= 0x80;
        if opcode.has_deth() {
            bytes[Bth::BYTES + 4] = 0;
        }
        if opcode.has_xrceth() {
            bytes[Bth::BYTES] = 0;
        }
        if opcode.is_notification() {
            bytes[Bth::BYTES..opcode.header_len()].fill(0);
        }
        let (headers, rest) = Headers::decode(&bytes).expect("44 bytes hold any headers");
        prop_assert_eq!(bytes.len() - rest.len(), opcode.header_len());
        let mut out = [0; 44];
        let left = headers.encode(&mut out).expect("44 bytes hold any headers").len();
        prop_assert_eq!(left, rest.len());
        prop_assert_eq!(&out[..44 - left], &bytes[..44 - left]);
    }

    #[test]
    fn begin_and_finish_are_encode((path, headers, payload) in packets()) {
        let mut out = vec![0xee; payload.len() + MAX_OVERHEAD];
        let layout = begin(&path, &headers, payload.len(), &mut out).expect("begins");
        out[layout.payload_at..][..layout.payload_len].copy_from_slice(&payload);
        let len = finish(&layout, Icrc::On, &mut out).expect("finishes");
        prop_assert_eq!(&out[..len], &encoded(&path, &headers, &payload)[..]);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        any_bytes(&bytes)?;
    }

    /// Damage that a random frame would hardly reach: mostly right headers, ICRC not checked.
    #[test]
    fn damaged_frames_never_panic(
        (path, headers, payload) in packets(),
        changes in proptest::collection::vec((0usize..120, any::<u8>()), 0..4),
        cut in 0usize..400,
    ) {
        let mut bytes = encoded(&path, &headers, &payload);
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(cut);
        any_bytes(&bytes)?;
    }
}

fn any_bytes(bytes: &[u8]) -> Result<(), TestCaseError> {
    let _ = Headers::decode(bytes);
    let unchecked = decode_with(bytes, Icrc::Off);
    prop_assert!(decode(bytes).is_err() || unchecked.is_ok());
    if let Ok(frame) = unchecked {
        prop_assert!(frame.payload.len() < bytes.len());
        let _ = frame.grh();
    }
    Ok(())
}

#[test]
fn kept_frames() {
    for kept in corpus::frames() {
        any_bytes(&kept.bytes).expect(&kept.what);
        let found = decode(&kept.bytes);
        let says = found.map_or_else(|reason| reason.to_string(), |_| "packet".to_owned());
        assert_eq!(says, kept.says, "{}", kept.what);
        if let Ok(frame) = found {
            let again = encoded(&frame.path, &frame.headers, frame.payload);
            assert_eq!(decode(&again), found, "{}", kept.what);
        }
    }
}

#[test]
fn a_flipped_bit_is_detected() {
    for good in samples() {
        let frame = decode(&good).expect("decodes");
        let ip_at = good.len() - decode_ip_len(&frame);
        let v6 = !matches!(frame.path.network, Network::V4(_));
        let udp_len = frame.path.network.udp_len();
        let bth_at = ip_at + frame.ip_header.len() + udp_len;
        // What the ICRC does not cover: link header, what routers change, reserved BTH byte.
        let uncovered: &[usize] = if v6 { &[0, 1, 2, 3, 7] } else { &[1, 8, 10, 11] };
        for bit in ip_at * 8..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let at = bit / 8;
            let checksum = [bth_at - 2, bth_at - 1];
            let open = uncovered.contains(&(at - ip_at))
                || (udp_len != 0 && checksum.contains(&at))
                || at == bth_at + 4;
            // IPv4's own checksum covers its header; the IPv6 version is checked by itself.
            let version = v6 && at == ip_at && bit % 8 >= 4;
            let detected = !open || version || (!v6 && at < ip_at + Ipv4::BYTES);
            assert_eq!(decode(&bad).is_err(), detected, "bit {bit} of {good:02x?}");
        }
    }
}

fn decode_ip_len(frame: &Frame<'_>) -> usize {
    let pad = usize::from(frame.headers.bth.pad_count);
    let udp = frame.path.network.udp_len();
    frame.ip_header.len() + udp + frame.headers.bth.opcode.header_len() + frame.payload.len() + pad + 4
}

#[test]
fn every_cut_is_detected_and_ethernet_padding_is_not_payload() {
    for good in samples() {
        for len in 0..good.len() {
            assert!(decode(&good[..len]).is_err());
            assert!(decode_with(&good[..len], Icrc::Off).is_err());
        }
        let mut padded = good.clone();
        padded.extend([0; 18]);
        assert_eq!(decode(&padded), decode(&good));
    }
}

#[test]
fn every_short_buffer_is_refused() {
    for good in samples() {
        let frame = decode(&good).expect("decodes");
        for len in 0..good.len() {
            let mut out = vec![0; len];
            let result = encode(&frame.path, &frame.headers, frame.payload, &mut out);
            assert_eq!(result, Err(EncodeError::BufferTooSmall));
        }
    }
}

#[test]
fn grh_of_a_datagram() {
    for good in samples() {
        let frame = decode(&good).expect("decodes");
        let grh = frame.grh();
        match frame.path.network {
            Network::V4(ip) => {
                assert_eq!(grh[..20], [0; 20]);
                assert_eq!(grh[20], 0x45);
                assert_eq!((&grh[32..36], &grh[36..]), (&ip.src[..], &ip.dst[..]));
            }
            Network::V6(ip) | Network::Grh(ip) => {
                assert_eq!(grh[0], 0x60);
                assert_eq!((&grh[8..24], &grh[24..]), (&ip.src[..], &ip.dst[..]));
            }
        }
    }
}

#[test]
fn drop_reasons_name_the_cause() {
    let good = &samples()[0];
    let bth = Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES;
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        decode_with(&bad, Icrc::Off).map(|_| ())
    };
    assert_eq!(with(12, 0x86), Err(DropReason::EtherType(0x8600)));
    assert_eq!(with(bth - 5, 0), Err(DropReason::UdpPort(0x1200)));
    assert_eq!(with(bth - 3, 9), Err(DropReason::UdpLength));
    assert_eq!(with(bth, 0x82), Err(DropReason::Opcode(BthOpcode(0x82))));
    assert_eq!(with(bth + 1, 0x01), Err(DropReason::TransportVersion(1)));
    assert_eq!(with(bth, 0x11), Err(DropReason::UnexpectedPayload(BthOpcode(0x11))));
    let mut bad = good.clone();
    *bad.last_mut().expect("not empty") ^= 1;
    assert_eq!(decode(&bad), Err(DropReason::Icrc));
    assert_eq!(DropReason::Opcode(BthOpcode(0xff)).to_string(), "unknown BTH opcode 0xff");
}

#[test]
fn pad_must_fit() {
    let ack =
        Headers { bth: Bth { opcode: BthOpcode::RC_ACKNOWLEDGE, ..Bth::default() }, ..Headers::default() };
    let mut bytes = vec![0; MAX_OVERHEAD];
    let len = encode_with(&Path::default(), &ack, &[], Icrc::Off, &mut bytes).expect("encodes");
    bytes.truncate(len);
    assert_eq!(bytes[len - 4..], [0; 4]);
    assert!(decode_with(&bytes, Icrc::Off).is_ok());
    bytes[Ethernet::BYTES + Ipv4::BYTES + Udp::BYTES + 1] |= 0x10;
    assert_eq!(decode_with(&bytes, Icrc::Off), Err(DropReason::Pad));
}

#[test]
fn what_cannot_be_encoded() {
    let mut out = vec![0; 70_000];
    let mut headers = Headers::default();
    let path = Path::default();
    let big = vec![0; 65_600];
    assert_eq!(encode(&path, &headers, &big, &mut out), Err(EncodeError::PayloadTooLong));
    assert_eq!(encode(&path, &headers, &big[..65_500], &mut out), Err(EncodeError::PayloadTooLong));
    headers.bth.opcode = BthOpcode::RC_READ_REQUEST;
    let error = EncodeError::UnexpectedPayload(BthOpcode::RC_READ_REQUEST);
    assert_eq!(encode(&path, &headers, &[0], &mut out), Err(error));
    headers.bth.opcode = BthOpcode(0x82);
    assert_eq!(encode(&path, &headers, &[], &mut out), Err(EncodeError::Opcode(BthOpcode(0x82))));
    headers.bth.opcode = BthOpcode::CNP;
    let error = EncodeError::UnexpectedPayload(BthOpcode::CNP);
    assert_eq!(encode(&path, &headers, &[0], &mut out), Err(error));
}
