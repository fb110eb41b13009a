//! Marks and notifications as frames, and what the cards count of them.

use fpga_regs::regs::port;
use fpga_regs::{QpType, WqeOpcode};
use model::attach::{NetOptions, SegmentCard};
use model::link::{Capture, LinkOptions, Wire};
use model::wire::{frame, BthOpcode};
use tests::pcap::{records, Record};
use tests::{datagram, place_for, Net, Options};

use crate::traffic::{at_40g, Traffic};
use crate::{incast, MS};

/// As card 0, to which all send, sees them: packets that can be marked, some that are, and notifications for them, not more
/// often than every 50 us to each sender. All have right check sums, as the frames are checked by the cards, too.
#[test]
fn marks_and_notifications_are_in_the_frames() {
    let (_directory, path) = place_for("congestion.pcap");
    let capture = Some(Capture { path: path.clone(), snaplen: Capture::WHOLE, card: Some(0) });
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
    for Record { kept: bytes, .. } in records(&path, Capture::WHOLE) {
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

/// Multicast waits in no queue of the switch, but its receiver sees it.
#[test]
fn received_multicast_is_recorded() {
    const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 1, 2, 3];
    let (_directory, path) = place_for("multicast.pcap");
    let capture = Some(Capture { path: path.clone(), snaplen: Capture::WHOLE, card: Some(1) });
    let switch = Some("default".parse().expect("a switch"));
    let link = LinkOptions { wire: Wire::Exact, capture, switch, ..LinkOptions::default() };
    let net = Net::with(NetOptions { clock: Some(at_40g()), link, ..NetOptions::from(2) });
    let options = Options { qp_type: QpType::UD, ..Options::default() };
    let (x, y) = net.pair(options);
    y.qp.attach_mcast(&GROUP).expect("joined");
    y.recv(1, &[y.sge(0, 2000)]);
    let ah = x.pd.create_ah(&x.av(GROUP)).expect("an address handle");
    x.post(&[datagram(&ah, 0xff_ffff, x.wr(2, WqeOpcode::SEND, &[x.sge(0, 100)]))]);
    let clock = SegmentCard::open(&net.socket(), 0).expect("the card opens").timeline().expect("simulated");
    clock.sleep_until(clock.clock() + MS);
    assert_eq!(y.expect(1).byte_len, 40 + 100);
    x.expect(2);
    drop((clock, ah, x, y, net));
    let frames = records(&path, Capture::WHOLE);
    let [record] = &frames[..] else { panic!("{} frames", frames.len()) };
    let frame = frame::decode(&record.kept).expect("a frame");
    assert_eq!((frame.headers.bth.dest_qp, frame.payload.len()), (0xff_ffff, 100));
}
