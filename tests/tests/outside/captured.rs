//! Captures show what comes from outside as it came, also what is dropped.

use std::net::{Ipv4Addr, UdpSocket};
use std::path;

use fpga_regs::{QpType, WqeOpcode};
use model::attach::{LiveCapture, NetOptions};
use model::link::live::View;
use model::link::{Capture, LinkOptions, Wire};
use model::packet::PortId;
use model::wire::{frame, BthOpcode, DropReason, Headers, Network, Path};
use tests::pcap::records;
use tests::{connect, datagram, loopback_address, wait_for, Net, Options};

/// A net of one card with a port outside, faults, and a record of what the card sends and receives.
fn net(port: &str, faults: &str, record: Option<&path::Path>) -> Net {
    let (ports, faults) = (vec![port.parse().expect("a port")], faults.parse().expect("faults"));
    let capture =
        record.map(|path| Capture { path: path.to_owned(), snaplen: Capture::WHOLE, card: Some(0) });
    Net::with(NetOptions {
        link: LinkOptions { ports, wire: Wire::Exact, faults, capture, ..LinkOptions::default() },
        ..NetOptions::from(1)
    })
}

/// A capture of the first port.
fn watch(net: &Net) -> LiveCapture {
    let port = Some(PortId { card: 0, port: 0 });
    LiveCapture::begin(&net.socket(), &View { port, qpn: None, snaplen: 9000 }).expect("a capture")
}

/// Waits until a capture has seen so many more frames come.
fn expect_frames(capture: &LiveCapture, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    wait_for(
        || format!("not all of {count} frames are captured"),
        || {
            let each = |seen: &model::link::live::Seen, bytes: &[u8]| {
                // What asks for neighbours, and answers, is no packet.
                if seen.received && frame::path(bytes).is_some() {
                    frames.push(bytes.to_vec());
                }
            };
            capture.take(each).expect("a ring");
            frames.len() >= count
        },
    );
    assert_eq!(frames.len(), count);
    frames
}

/// The other end counts a wrong ICRC, and whoever captures there sees why.
#[test]
fn what_is_damaged_on_its_way_is_captured_as_it_came() {
    const COUNT: usize = 60;
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let [one, other] = [(); 2].map(|()| loopback_address());
    let by_udp = [format!("0=udp:{one}"), format!("0=udp:{other}")];
    let by_frames =
        [format!("0=dgram:{},{}", at("one"), at("other")), format!("0=dgram:{},{}", at("other"), at("one"))];
    for [from, to] in [by_udp, by_frames] {
        let record = directory.path().join("record");
        // With this seed no header is damaged: such a frame does not leave.
        let (sender, receiver) =
            (net(&from, "corrupt data every=2,seed=1", None), net(&to, "", Some(&record)));
        let options = Options { qp_type: QpType::UD, gid: 0, mtu: 5, ..Options::default() };
        let (mut x, y) = connect(&sender.open(0), &receiver.open(0), options);
        x.buffer.pattern(3);
        let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
        let capture = watch(&receiver);
        for n in 0..COUNT {
            y.recv(n as u64, &[y.sge(0, 4200)]);
            x.completes(datagram(&ah, y.qp.qpn(), x.wr(n as u64, WqeOpcode::SEND, &[x.sge(n, 4000)])));
        }
        let frames = expect_frames(&capture, COUNT);
        for (n, bytes) in frames.iter().enumerate() {
            let sent = &x.buffer[n..n + 4000];
            match frame::decode(bytes) {
                Ok(frame) => assert!(n % 2 == 0 && frame.payload == sent, "{to}: frame {n}"),
                Err(reason) => assert_eq!((n % 2, reason), (1, DropReason::Icrc), "{to}: frame {n}"),
            }
        }
        assert_eq!(y.counter("rx_icrc_errors") as usize, COUNT / 2, "{to}");
        assert_eq!(y.counter("rx_packets") as usize, COUNT / 2, "{to}: those that came whole");
        assert_eq!(x.counter("tx_packets") as usize, COUNT, "{to}");
        let come = |bytes: &Vec<u8>| frame::path(bytes).is_some();
        let recorded: Vec<_> =
            records(&record, Capture::WHOLE).into_iter().map(|record| record.kept).filter(come).collect();
        assert!(recorded == frames, "{to}: the record has the same");
    }
}

/// Whatever a stranger sends.
#[test]
fn what_nobody_takes_is_captured_as_it_came() {
    let (here, away) = (loopback_address(), loopback_address());
    let net = net(&format!("0=udp:{here}"), "", None);
    let (card, capture) = (net.open(0), watch(&net));
    let gid = |ip: Ipv4Addr| ip.to_ipv6_mapped().octets();
    let stranger = UdpSocket::bind((away, 0)).expect("a socket");
    let sport = stranger.local_addr().expect("an address").port();
    let packet = |opcode: u8, pkey: u16, to: u32| {
        let mut headers = Headers::default();
        (headers.bth.opcode, headers.bth.pkey, headers.bth.dest_qp) = (BthOpcode(opcode), pkey, to);
        let path = Path {
            network: Network::from_gids(&gid(away), &gid(here), 0, 0, 64),
            udp_sport: sport,
            ..Path::default()
        };
        let mut bytes = vec![0; 9000];
        let length = frame::encode(&path, &headers, &[7; 64], &mut bytes).expect("a frame");
        bytes[14 + 20 + 8..length].to_vec()
    };
    let wrong = {
        let mut bytes = packet(0x04, 0xffff, 0x1234);
        bytes[20] ^= 1;
        bytes
    };
    // Noise, no queue pair, a wrong ICRC, another partition, a wrong Q_Key, and nothing.
    let bodies = [
        vec![9; 3],
        vec![9; 300],
        packet(0x04, 0xffff, 0x1234),
        wrong,
        packet(0x04, 0x8001, 0x1234),
        packet(0x64, 0xffff, 1),
        Vec::new(),
    ];
    for body in &bodies {
        stranger.send_to(body, (here, 4791)).expect("sent");
    }
    let frames = expect_frames(&capture, bodies.len());
    let mac = card.query_port(1).expect("a port").mac;
    for (body, frame) in bodies.iter().zip(&frames) {
        assert_eq!(frame[..6], mac, "the port's");
        assert_eq!(frame[14 + 12..14 + 20], [away.octets(), here.octets()].concat(), "from and to");
        assert_eq!(frame[14 + 20..][..4], [sport.to_be_bytes(), 4791u16.to_be_bytes()].concat(), "the ports");
        assert_eq!(frame[14 + 20 + 8..], **body);
    }
    let decoded: Vec<_> = frames.iter().map(|bytes| frame::decode(bytes).is_ok()).collect();
    assert_eq!(decoded, [false, false, true, false, true, true, false]);
    // What came whole has passed the port, whoever it was for.
    let whole = frames.iter().zip(&decoded).filter(|(_, whole)| **whole);
    let expected = whole.fold([0, 0], |[count, bytes], (frame, _)| [count + 1, bytes + frame.len() as u64]);
    let count = |name| tests::counter(&card, 1, name);
    wait_for("not all are counted", || count("rx_packets") == expected[0]);
    assert_eq!(count("rx_bytes"), expected[1]);
}
