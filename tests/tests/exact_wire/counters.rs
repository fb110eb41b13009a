//! What a port counts is what passes it: a capture at the port sees the same packets and bytes, whatever becomes of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use driver::{AttrMask, QpAttr, SendWr};
use fpga_regs::{QpState, QpType, WqeOpcode};
use model::attach::{LiveCapture, NetOptions};
use model::link::live::View;
use model::packet::PortId;
use model::profile::Profile;
use model::wire::frame;
use tests::{connect, counter, datagram, Net, Options, Side};

use super::exact;

/// A group, as a GID.
const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 1, 2, 3];

/// Packets and bytes that were sent, and that came whole.
type Passed = [u64; 4];

/// The first port of a card, and the capture of it.
struct Watched {
    card: u16,
    capture: LiveCapture,
    passed: Passed,
}

impl Watched {
    fn begin(net: &Net, card: u16) -> Watched {
        let port = Some(PortId { card, port: 0 });
        let capture = LiveCapture::begin(&net.socket(), &View { port, qpn: None, snaplen: 9000 });
        Watched { card, capture: capture.expect("a capture"), passed: [0; 4] }
    }

    /// What has passed so far.
    fn passed(&mut self) -> Passed {
        let passed = &mut self.passed;
        let each = |seen: &model::link::live::Seen, bytes: &[u8]| {
            // What was damaged on its way is no packet.
            if !seen.received || frame::decode(bytes).is_ok() {
                let at = 2 * usize::from(seen.received);
                passed[at] += 1;
                passed[at + 1] += u64::from(seen.length);
            }
        };
        self.capture.take(each).expect("a ring");
        *passed
    }

    /// Waits until the port has counted all that has passed. In simulated time packets may be on their way.
    fn expect_counted(&mut self, x: &Side, what: &str) {
        let count = || ["TX_PACKETS", "TX_BYTES", "RX_PACKETS", "RX_BYTES"].map(|name| x.counter(name));
        let start = Instant::now();
        while count() != self.passed() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(count(), self.passed(), "{what}: card {}", self.card);
    }
}

/// Requests of each kind, each of which completes.
fn exchange(x: &mut Side, y: &Side) {
    x.buffer.pattern(7);
    let (data, message) = ([x.sge(0, 9001)], [x.sge(13, 3001)]);
    let (read, word) = ([x.sge(100_000, 5000)], [x.sge(500_000, 8)]);
    for round in 0..20 {
        y.recv(round, &[y.sge(300_000, 5000)]);
        let wrs = [
            x.remote(1, WqeOpcode::WRITE, &data, y, 20_000),
            x.wr(2, WqeOpcode::SEND, &message),
            x.remote(3, WqeOpcode::READ, &read, y, 20_000),
            SendWr { compare_add: 1, ..x.remote(4, WqeOpcode::FETCH_ADD, &word, y, 400_000) },
        ];
        x.post(&wrs);
        (1..=4).for_each(|n| _ = x.expect(n));
        y.expect(round);
    }
}

/// Datagrams: one that is received, and those for which there is no receive, no key, and no queue pair; and one for a group of
/// which two queue pairs are members.
fn datagrams(x: &Side, y: &Side, other: &Side) {
    let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
    let sge = [x.sge(0, 333)];
    let send = |n, qpn, qkey| {
        let wr = x.wr(n, WqeOpcode::SEND, &sge);
        x.completes(SendWr { remote_qkey: qkey, ..datagram(&ah, qpn, wr) });
    };
    y.recv(1, &[y.sge(0, 1000)]);
    send(1, y.qp.qpn(), tests::QKEY);
    send(2, y.qp.qpn(), tests::QKEY);
    send(3, y.qp.qpn(), tests::QKEY ^ 1);
    send(4, 0x77_7777, tests::QKEY);
    [y, other].iter().for_each(|member| member.qp.attach_mcast(&GROUP).expect("joined"));
    let group = x.pd.create_ah(&x.av(GROUP)).expect("an AH");
    x.completes(datagram(&group, 0xff_ffff, x.wr(5, WqeOpcode::SEND, &sge)));
}

#[test]
fn ports_count_all_that_passes_them() {
    for simulated in [false, true] {
        for faults in ["dup data", "loss=0.02,dup=0.1,reorder=0.05,seed=3", "mark data p=0.2", "corrupt=0.02"]
        {
            let clock = simulated.then(|| Profile::load("cx4lx").expect("a profile of our own").profile);
            let mut options = NetOptions { clock, ..exact(faults) };
            // There, notifications are a part of it.
            options.link.cc = simulated.then(|| "dcqcn".parse().expect("a known name"));
            let (net, a, b) = Net::with(options).both();
            let mut watched = [0, 1].map(|card| Watched::begin(&net, card));
            let what = format!("simulated: {simulated}, {faults}");
            let mut expect_counted = |x: &Side, y: &Side, step: &str| {
                let what = format!("{what}: {step}");
                watched.iter_mut().zip([x, y]).for_each(|(port, side)| port.expect_counted(side, &what));
            };
            let (mut x, y) = connect(&a, &b, Options::default());
            exchange(&mut x, &y);
            expect_counted(&x, &y, "reliable");
            let options = Options { qp_type: QpType::UC, ..Options::default() };
            let (u, v) = connect(&a, &b, options);
            for round in 0..20 {
                u.completes(u.remote(round, WqeOpcode::WRITE, &[u.sge(0, 5000)], &v, 0));
            }
            expect_counted(&u, &v, "unreliable");
            let options = Options { qp_type: QpType::UD, ..Options::default() };
            let (s, t) = connect(&a, &b, options);
            let (_, other) = connect(&a, &b, options);
            datagrams(&s, &t, &other);
            expect_counted(&s, &t, "datagrams");
            // Who asks does not listen any more: answers come to a queue pair that takes none.
            let data = [x.sge(0, 9001)];
            let wrs = [(); 8].map(|()| x.remote(9, WqeOpcode::WRITE, &data, &y, 20_000));
            x.post(&wrs);
            x.qp.modify(&QpAttr { state: QpState::ERR, ..QpAttr::default() }, AttrMask::STATE)
                .expect("an error");
            expect_counted(&x, &y, "in error");
            if faults.starts_with("mark") {
                assert_ne!(counter(&b, 1, "TX_CNP"), 0, "{what}");
            }
        }
    }
}

/// Sending goes back before all has left that it takes again: that leaves once.
#[test]
fn retransmits_are_what_leaves_again() {
    let clock = Some(Profile::load("cx5-25g").expect("a profile of our own").profile);
    let net = Net::with(NetOptions { clock, ..exact("drop data p=0.01; seed=5") });
    let port = Some(PortId { card: 0, port: 0 });
    let capture =
        LiveCapture::begin(&net.socket(), &View { port, qpn: None, snaplen: 9000 }).expect("a capture");
    let (x, y) = net.pair(Options::default());
    let (mut left, mut seen) = (0, BTreeSet::new());
    for round in 0..20 {
        x.completes(x.remote(round, WqeOpcode::WRITE, &[x.sge(0, 200_000)], &y, 300_000));
        let each = |frame: &model::link::live::Seen, bytes: &[u8]| {
            if !frame.received {
                left += 1;
                seen.insert(frame::decode(bytes).expect("a packet").headers.bth.psn);
            }
        };
        capture.take(each).expect("a ring");
    }
    let again = left - seen.len() as u64;
    assert!(again > 20, "{again}");
    assert_eq!(x.counter("RETRANSMITS"), again);
}
