//! Two ports of a card that are one in simulated time: both cables carry, and what a pulled one loses goes by the other, to the
//! picosecond the same in every run. A capture says by which ports each frame went, and when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Device, Offloads, Qp, QpAttr};
use fpga_regs::{CqeStatus, EventKind, LacpRate, LagMode, LagSelect, QpState, QpType, WqeOpcode};
use model::attach::{plug, LiveCapture, NetOptions};
use model::congestion::SwitchOptions;
use model::link::live::View;
use model::link::Wire;
use model::packet::PortId;
use model::profile::Profile;
use tests::{connect, counter, datagram, expect_async, Net, Options, Side, TestCard};

/// Connections, of which each port has some, and messages of each.
const CONNECTIONS: usize = 4;
const MESSAGES: usize = 24;
const BYTES: usize = 1 << 16;
/// A part of the messages, after which the cable is pulled, and plugged in again.
const PART: usize = 8;

/// A frame on a cable: when it left or arrived (ns), the card that sent it, its port and that where it arrives, from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Frame {
    at: u64,
    card: u16,
    ports: [u8; 2],
    bytes: u32,
}

/// What a run does to the first port of the first card.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cable {
    Stays,
    IsPulled,
    ComesBack,
}

/// A net and what its ports are.
#[derive(Clone, Copy, Debug)]
struct Setting {
    simulated: bool,
    cards: u8,
    wire: Wire,
    switch: bool,
    bond: Option<(LagMode, LagSelect)>,
    cable: Cable,
}

const XOR: Option<(LagMode, LagSelect)> = Some((LagMode::XOR, LagSelect::AFFINITY));
const PLAIN: Setting =
    Setting { simulated: true, cards: 2, wire: Wire::Fast, switch: false, bond: XOR, cable: Cable::Stays };

/// What was seen of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    frames: Vec<Frame>,
    /// Frames seen before the cable was pulled, and before it was plugged in again.
    until: [usize; 2],
    /// `TX_BYTES`, `RX_BYTES` and `LINK_LOST` of each port of the first two cards.
    counters: Vec<[u64; 3]>,
    retransmits: u64,
}

impl Seen {
    /// When the last frame was seen.
    fn end(&self) -> u64 {
        self.frames.last().expect("frames").at
    }

    /// By each port, the frames of data that a card sent, of some of the frames.
    fn data(&self, frames: std::ops::Range<usize>) -> [usize; 2] {
        let by =
            |port| self.frames[frames.clone()].iter().filter(move |f| f.bytes > 500 && f.ports[0] == port);
        [by(0).count(), by(1).count()]
    }
}

impl Setting {
    fn net(&self) -> Net {
        let mut options = NetOptions::from(self.cards);
        options.clock = self.simulated.then(|| Profile::load("cx4lx").expect("a profile of our own").profile);
        options.link.wire = self.wire;
        options.link.switch = self.switch.then(SwitchOptions::default);
        Net::with(options)
    }

    fn bond(&self, device: &Device<TestCard>) {
        if let Some((mode, select)) = self.bond {
            device.set_lag(mode, select, LacpRate::FAST).expect("no queue pairs yet");
        }
    }

    /// Connections between two cards write messages, all at once; the data is right whichever way it went.
    fn run(&self) -> Seen {
        let net = self.net();
        let devices = [net.open(0), net.open(1)];
        devices.iter().for_each(|device| self.bond(device));
        let capture = LiveCapture::begin(&net.socket(), &View { port: None, qpn: None, snaplen: 64 })
            .expect("a capture");
        let options = Options { bytes: MESSAGES * BYTES, timeout: 8, ..Options::default() };
        let mut pairs: Vec<(Side, Side)> =
            (0..CONNECTIONS).map(|_| connect(&devices[1], &devices[0], options)).collect();
        for (nth, (x, y)) in pairs.iter_mut().enumerate() {
            x.buffer.pattern(nth as u8);
            for message in 0..MESSAGES {
                let sge = [x.sge(message * BYTES, BYTES)];
                x.post(&[x.remote(message as u64, WqeOpcode::WRITE, &sge, y, message * BYTES)]);
            }
        }
        let mut frames = Vec::new();
        let mut take = || {
            let each = |seen: &model::link::live::Seen, _: &[u8]| {
                let ports = [seen.from.port, seen.to.port];
                frames.push(Frame { at: seen.at, card: seen.from.card, ports, bytes: seen.length });
            };
            capture.take(each).expect("a ring");
            frames.len()
        };
        let complete = |messages: std::ops::Range<usize>| {
            for (x, _) in &pairs {
                for message in messages.clone() {
                    x.expect(message as u64);
                }
            }
        };
        let pull = |pulled| plug(&net.socket(), PortId { card: 0, port: 0 }, pulled).expect("a cable");
        complete(0..PART);
        let mut until = [take(); 2];
        if self.cable != Cable::Stays {
            assert!(pull(true), "{self:?}: the bond has a link");
        }
        complete(PART..2 * PART);
        until[1] = take();
        if self.cable == Cable::ComesBack {
            assert!(pull(false), "{self:?}: the bond has a link");
        }
        complete(2 * PART..MESSAGES);
        take();
        assert_eq!(capture.dropped(), 0, "{self:?}");
        for (x, y) in &pairs {
            assert!(x.buffer[..] == y.buffer[..], "{self:?}: the data");
        }
        let counters = |device: &Arc<Device<TestCard>>, number| {
            ["TX_BYTES", "RX_BYTES", "LINK_LOST", "RETRANSMITS"].map(|name| counter(device, number, name))
        };
        let all: Vec<_> =
            devices.iter().flat_map(|device| [1, 2].map(|number| counters(device, number))).collect();
        Seen {
            frames,
            until,
            retransmits: all.iter().map(|port| port[3]).sum(),
            counters: all.iter().map(|&[sent, received, lost, _]| [sent, received, lost]).collect(),
        }
    }
}

#[test]
fn both_cables_carry() {
    let one = Setting { bond: None, ..PLAIN }.run();
    assert_eq!(one.data(0..one.frames.len())[1], 0, "without a bond the second port is another one");
    for wire in [Wire::Fast, Wire::Exact] {
        for switch in [false, true] {
            let two = Setting { wire, switch, ..PLAIN }.run();
            let [first, second] = two.data(0..two.frames.len());
            assert_eq!(first, second, "{wire:?}, switch: {switch}");
            let factor = one.end() as f64 / two.end() as f64;
            assert!(factor > 1.9, "{wire:?}, switch: {switch}: {factor}");
            // Of each port of both cards; answers go back on a cable each.
            for (n, &[sent, received, lost]) in two.counters.iter().enumerate() {
                let payload = (CONNECTIONS / 2 * MESSAGES * BYTES) as u64;
                let (most, least) = if n < 2 { (received, sent) } else { (sent, received) };
                assert!(most > payload && most < payload * 11 / 10, "{wire:?}: port {n}: {most}");
                assert!(least > 0 && lost == 0, "{wire:?}: port {n}: {least} and {lost}");
            }
        }
    }
}

/// Each way that the ports of two cards can be one, and a cable of it that is pulled: nothing goes by it after that, what was on
/// it is lost and sent again, and when it is back it has its part again.
#[test]
fn a_pulled_cable_is_left_at_once() {
    let settings = [
        PLAIN,
        Setting { wire: Wire::Exact, ..PLAIN },
        Setting { switch: true, ..PLAIN },
        Setting { bond: Some((LagMode::ACTIVE_BACKUP, LagSelect::AFFINITY)), ..PLAIN },
    ];
    for plain in settings {
        let pulled = Setting { cable: Cable::IsPulled, ..plain };
        let seen = pulled.run();
        assert!(seen.data(0..seen.until[0])[0] > 100, "{pulled:?}: it was in use");
        let after = &seen.frames[seen.until[0]..];
        assert!(after.len() > 1000, "{pulled:?}");
        let by = after.iter().find(|frame| frame.ports != [1, 1]);
        assert!(by.is_none(), "{pulled:?}: {by:?}");
        assert!(seen.counters.iter().any(|port| port[2] > 0), "{pulled:?}: what was lost is counted");
        assert!(seen.retransmits > 0, "{pulled:?}: it was sent again");
        let back = Setting { cable: Cable::ComesBack, ..plain };
        let seen = back.run();
        assert_eq!(seen.data(seen.until[0]..seen.until[1])[0], 0, "{back:?}");
        assert!(seen.data(seen.until[1]..seen.frames.len())[0] > 100, "{back:?}: it is in use again");
    }
}

#[test]
fn every_run_is_the_same() {
    for setting in [PLAIN, Setting { wire: Wire::Exact, ..PLAIN }] {
        let setting = Setting { cable: Cable::ComesBack, ..setting };
        assert!(setting.run() == setting.run(), "{setting:?}");
    }
}

/// Where a net is a switch the cable of one card is pulled, whose bond sends to cards with two ports.
#[test]
fn the_other_ends_may_be_two_ports() {
    const MESSAGES: u64 = 4;
    for switch in [false, true] {
        let setting = Setting { cards: 3, switch, ..PLAIN };
        let net = setting.net();
        let devices = [net.open(0), net.open(1), net.open(2)];
        setting.bond(&devices[0]);
        let options = Options { timeout: 8, ..Options::default() };
        let pairs = [1, 1, 2, 2].map(|other| connect(&devices[0], &devices[other], options));
        for (x, y) in &pairs {
            for (from, to) in [(x, y), (y, x)] {
                for message in 0..MESSAGES {
                    let sge = [from.sge(0, BYTES)];
                    from.post(&[from.remote(message, WqeOpcode::WRITE, &sge, to, BYTES)]);
                }
            }
        }
        let complete = |messages: std::ops::Range<u64>| {
            for message in messages {
                for (x, y) in &pairs {
                    x.expect(message);
                    y.expect(message);
                }
            }
        };
        let count = |card: usize, number, name| counter(&devices[card], number, name);
        let both = |name| [1, 2].map(|number| count(0, number, name));
        complete(0..1);
        let [sent, received] = ["TX_BYTES", "RX_BYTES"].map(both);
        assert!(sent.iter().all(|&bytes| bytes > BYTES as u64), "switch: {switch}: {sent:?}");
        assert!(received[0] > BYTES as u64 && received[1] == 0, "switch: {switch}: {received:?}");
        plug(&net.socket(), PortId { card: 0, port: 0 }, true).expect("a cable");
        let then = count(0, 1, "RX_BYTES");
        complete(1..MESSAGES);
        let now = both("RX_BYTES");
        assert_eq!(now[0], then, "switch: {switch}");
        assert!(now[1] > 8 * BYTES as u64, "switch: {switch}: {now:?}");
        assert!(count(0, 1, "LINK_LOST") > 0, "switch: {switch}");
        assert!([1, 2].iter().all(|&card| count(card, 2, "RX_BYTES") == 0), "switch: {switch}");
    }
}

/// Datagrams leave by a hash of what each is for, and are for the port that all know: by both clocks.
#[test]
fn datagrams_go_by_both() {
    for simulated in [false, true] {
        let setting = Setting { simulated, bond: Some((LagMode::XOR, LagSelect::HASH)), ..PLAIN };
        let net = setting.net();
        let devices = [net.open(0), net.open(1)];
        devices.iter().for_each(|device| setting.bond(device));
        let options = Options { qp_type: QpType::UD, ..Options::default() };
        let receivers: Vec<_> = (0..16).map(|_| connect(&devices[0], &devices[1], options)).collect();
        let (x, _) = &receivers[0];
        for (nth, (_, y)) in receivers.iter().enumerate() {
            y.recv(1, &[y.sge(0, 1040)]);
            let ah = x.pd.create_ah(&x.av(y.gid())).expect("an address handle");
            x.completes(datagram(&ah, y.qp.qpn(), x.wr(nth as u64, WqeOpcode::SEND, &[x.sge(0, 1000)])));
            assert_eq!(y.wait().status, CqeStatus::SUCCESS);
        }
        let counts = |card: usize, name| [1, 2].map(|number| counter(&devices[card], number, name));
        let received = counts(1, "RX_PACKETS");
        assert!(received.iter().all(|&count| count >= 3), "simulated: {simulated}: {received:?}");
        assert_eq!(received.iter().sum::<u64>(), 16, "simulated: {simulated}");
        assert_eq!(counts(0, "TX_PACKETS"), received, "simulated: {simulated}");
    }
}

/// Where ports are two a pulled cable is a pause: what is lost is sent again when it is back.
#[test]
fn without_a_bond_a_pull_is_a_pause() {
    for wire in [Wire::Fast, Wire::Exact] {
        let net = Setting { wire, bond: None, ..PLAIN }.net();
        let (a, b) = (net.open(0), net.open(1));
        let (mut x, y) = connect(&a, &b, Options { timeout: 12, ..Options::default() });
        x.buffer.pattern(1);
        for message in 0..2 {
            let sge = [x.sge(message * BYTES, BYTES)];
            x.post(&[x.remote(message as u64, WqeOpcode::WRITE, &sge, &y, message * BYTES)]);
        }
        x.expect(0);
        let pull = |pulled| plug(&net.socket(), PortId { card: 1, port: 0 }, pulled).expect("a cable");
        assert!(!pull(true), "{wire:?}");
        expect_async(&a, EventKind::PORT_ERR, 1);
        let lost = || [&a, &b].map(|card| counter(card, 1, "LINK_LOST"));
        // Each look takes a while.
        let until = Instant::now() + Duration::from_secs(30);
        while lost().iter().sum::<u64>() < 100 {
            assert!(x.poll().is_none() && Instant::now() < until, "{wire:?}: {:?}", lost());
        }
        assert!(pull(false), "{wire:?}");
        expect_async(&a, EventKind::PORT_ACTIVE, 1);
        x.expect(1);
        assert!(x.buffer[..2 * BYTES] == y.buffer[..2 * BYTES], "{wire:?}");
        assert!(counter(&a, 1, "RETRANSMITS") > 0, "{wire:?}");
    }
}

/// Work queues that are made between them send nothing, and take no turn.
#[test]
fn queue_pairs_take_turns() {
    let net = Setting { bond: Some((LagMode::XOR, LagSelect::AFFINITY)), simulated: false, ..PLAIN }.net();
    let device = net.open(0);
    device.set_lag(LagMode::XOR, LagSelect::AFFINITY, LacpRate::FAST).expect("no queue pairs yet");
    let raw = Options { qp_type: QpType::RAW_PACKET, ..Options::default() };
    let to = |qp: &Qp<TestCard>, state| {
        qp.step(&QpAttr { state, port: 1, ..QpAttr::default() }).expect("a step");
    };
    let sides: Vec<Side> = (0..4).map(|_| Side::new(&device, raw)).collect();
    let queues: Vec<_> = sides
        .iter()
        .map(|side| {
            [QpState::INIT, QpState::RTR].into_iter().for_each(|state| to(&side.qp, state));
            let queue = side.pd.create_wq(&side.cq, (8, 1), Offloads::default()).expect("a work queue");
            to(&queue, QpState::RTR);
            queue
        })
        .collect();
    assert_eq!([1, 2].map(|port| device.query_lag(port).expect("the card can").qps()), [2, 2]);
    drop(queues);
}

/// LACP needs time that passes while programs do nothing.
#[test]
fn lacp_is_refused() {
    let net = PLAIN.net();
    let device = net.open(0);
    let refused = device.set_lag(LagMode::LACP, LagSelect::AFFINITY, LacpRate::FAST);
    assert!(matches!(refused, Err(driver::Error::Refused { .. })), "{refused:?}");
    assert_eq!(device.query_lag(1).expect("the card can").mode(), LagMode::OFF);
}
