//! Whole frames on the express lane: what comes of them is what comes of the same frames on the exact wire.
//!
//! Random frames of mostly plain kinds, to work queues that their hash chooses, to a queue pair whose rule marks and counts
//! them, to several or to nobody, are sent on a net where nobody looks at the wire and on one whose frames are all looked at;
//! everything that a program can see must be the same. The seed is printed; `VERBENA_SEED=n` runs a certain one again.

mod seeded;

use std::sync::Arc;

use driver::{AttrMask, Data, Device, Flow, Offloads, Qp, QpAttr, SendFlags, SendWr, Sge, Table};
use fpga_regs::{CqeStatus, FlowContext, HashFields, QpState, QpType, WqeOpcode, SUITE_KEY};
use model::link::Wire;
use proptest::prelude::*;
use tests::{Net, Options, Side, TestCard};

/// Work queues of the peer.
const QUEUES: usize = 3;
/// Entries of the table of them.
const ENTRIES: usize = 4;
/// Frames of a post.
const MOST: usize = 4;
/// Bytes of memory for a frame.
const STRIDE: usize = 2048;
/// Ports of UDP: the first is that of a rule with priority.
const PORTS: [u16; 4] = [9, 1000, 1001, 1002];
const GROUP: [u8; 6] = [1, 0x50, 0x56, 0x19, 0x20, 0xa7];
/// VLANs: of the tags that frames are posted with, and of the tag that the card inserts.
const VLANS: [u16; 2] = [7, 9];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Peer,
    Itself,
    /// Two queues.
    Group,
    Nobody,
    /// What stays on the cable.
    Neighbour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ip {
    V4,
    /// A part of a packet.
    Part,
    V6,
    None,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    Nothing,
    LocalKey,
    NoReceive,
    ShortReceive,
    ReceiveKey,
    TwoElements,
    TooShort,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    to: To,
    ip: Ip,
    tcp: bool,
    tags: usize,
    ports: (u16, u16),
    length: usize,
    flags: SendFlags,
    inline: bool,
    mistake: Mistake,
}

fn frame() -> impl Strategy<Value = Frame> {
    use Mistake as M;
    let to = prop_oneof![
        20 => Just(To::Peer), 2 => Just(To::Itself), 1 => Just(To::Group), 1 => Just(To::Nobody), 1 => Just(To::Neighbour)
    ];
    let ip = prop_oneof![6 => Just(Ip::V4), 1 => Just(Ip::Part), 3 => Just(Ip::V6), 1 => Just(Ip::None)];
    let mistake = prop_oneof![
        40 => Just(M::Nothing), 1 => Just(M::LocalKey), 1 => Just(M::NoReceive), 1 => Just(M::ShortReceive),
        1 => Just(M::ReceiveKey), 2 => Just(M::TwoElements), 1 => Just(M::TooShort)
    ];
    let flags = any::<[bool; 4]>().prop_map(|[signaled, ip, l4, tag]| {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, signaled);
        flags.set(SendFlags::IP_CSUM, ip);
        flags.set(SendFlags::L4_CSUM, l4);
        flags.set(SendFlags::VLAN_INSERT, tag);
        flags
    });
    let port = || prop::sample::select(&PORTS[..]);
    let lengths = prop::sample::select(vec![14, 42, 58, 60, 61, 64, 100, 1000, 1514]);
    let inline = prop_oneof![10 => Just(false), 1 => Just(true)];
    let kind = (to, ip, any::<bool>(), prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2)]);
    (kind, (port(), port()), lengths, flags, inline, mistake).prop_map(
        |((to, ip, tcp, tags), ports, length, flags, inline, mistake)| Frame {
            to,
            ip,
            tcp,
            tags,
            ports,
            length,
            flags,
            inline: inline && length <= 64,
            mistake,
        },
    )
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let dmac = match self.to {
            To::Peer => [2, 0x56, 0x42, 0, 1, 0],
            To::Itself => [2, 0x56, 0x42, 0, 0, 0],
            To::Group => GROUP,
            To::Nobody => [2, 1, 1, 1, 1, 1],
            To::Neighbour => [1, 0x80, 0xc2, 0, 0, 14],
        };
        let mut frame = [&dmac[..], &[2, 9, 9, 9, 9, 9]].concat();
        (0..self.tags).for_each(|_| frame.extend([0x81, 0, 0x60, VLANS[0] as u8]));
        let body = |header: usize| self.length.saturating_sub(14 + 4 * self.tags + header).max(20) as u16;
        let protocol = if self.tcp { 6 } else { 17 };
        let part = if self.ip == Ip::Part { 0x20 } else { 0 };
        match self.ip {
            Ip::V4 | Ip::Part => {
                frame.extend([8, 0, 0x45, 0]);
                frame.extend((body(20) + 20).to_be_bytes());
                frame.extend([0, 0, part, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
            }
            Ip::V6 => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(body(40).to_be_bytes());
                frame.extend([protocol, 64]);
                frame.extend((0..32).map(|n| n * 5));
            }
            Ip::None => frame.extend([0x88, 0xb5]),
        }
        frame.extend([self.ports.0.to_be_bytes(), self.ports.1.to_be_bytes()].concat());
        frame.extend(if self.tcp { [0; 4] } else { [0, 20, 0, 0] });
        let from = frame.len();
        frame.resize(from.max(self.length), 0);
        frame[from..].iter_mut().zip(3..).for_each(|(byte, n): (_, usize)| *byte = n as u8);
        frame.truncate(if self.mistake == Mistake::TooShort { 13 } else { self.length });
        frame
    }
}

/// A sender on the first card, and what gets its frames on the second.
struct Run {
    devices: [Arc<Device<TestCard>>; 2],
    ends: Ends,
    seen: Vec<String>,
}

struct Ends {
    x: Side,
    y: Side,
    queues: Vec<Arc<Qp<TestCard>>>,
    table: Arc<Table<TestCard>>,
    rules: Vec<Flow<TestCard>>,
}

impl Ends {
    fn new([a, b]: &[Arc<Device<TestCard>>; 2]) -> Ends {
        let options =
            Options { qp_type: QpType::RAW_PACKET, bytes: 8 * STRIDE, cqes: 256, ..Options::default() };
        let (mut x, mut y) = tests::connect(a, b, options);
        x.buffer.pattern(1);
        y.buffer.pattern(2);
        let queue = |n| {
            let offloads = Offloads { strip_vlan: n == 1, scatter_fcs: n == 2, ..Offloads::default() };
            y.pd.create_wq(&y.cq, (16, 2), offloads).expect("a work queue")
        };
        let queues: Vec<_> = (0..QUEUES).map(queue).collect();
        let ready = QpAttr { state: QpState::RTR, ..QpAttr::default() };
        queues.iter().for_each(|queue| queue.modify(&ready, AttrMask::STATE).expect("RTR"));
        let entries: Vec<_> = (0..ENTRIES).map(|n| queues[n % QUEUES].clone()).collect();
        let table = b.create_table(&entries).expect("a table");
        let spread = y.pd.create_hash_qp(&table, HashFields::ALL, &SUITE_KEY).expect("a queue pair");
        let any = FlowContext::new().with_port(1);
        let all = |dmac| any.with_dmac(dmac).with_dmac_mask([0xff; 6]).with_precedence(1);
        let (mac, own) = ([2, 0x56, 0x42, 0, 1, 0], [2, 0x56, 0x42, 0, 0, 0]);
        let first = all(mac).with_precedence(0).with_ip_version(4).with_protocol(17).with_protocol_mask(0xff);
        let first = first.with_dst_port(PORTS[0]).with_dst_port_mask(0xffff);
        let first = first.with_marked(true).with_mark(7).with_counted(true);
        let rules = vec![
            y.qp.create_flow(&first).expect("a rule"),
            spread.create_flow(&all(mac).with_counted(true).with_by_vlan(true)).expect("a rule"),
            spread.create_flow(&all(GROUP)).expect("a rule"),
            y.qp.create_flow(&all(GROUP)).expect("a rule"),
            x.another_qp().create_flow(&all(own)).expect("a rule"),
        ];
        Ends { x, y, queues, table, rules }
    }
}

impl Run {
    fn new(devices: [Arc<Device<TestCard>>; 2]) -> Run {
        // What finds no receive is lost at once.
        devices[0].set_pause(1, false, true).expect("a port");
        devices[1].set_vlan(1, VLANS[0], true).expect("a VLAN");
        let ends = Ends::new(&devices);
        Run { devices, ends, seen: Vec::new() }
    }

    fn post(&mut self, frames: &[Frame]) {
        let Ends { x, y, queues, .. } = &mut self.ends;
        for (n, frame) in frames.iter().enumerate() {
            let bytes = frame.bytes();
            x.buffer[n * STRIDE..][..bytes.len()].copy_from_slice(&bytes);
            // Who gets it is not known here: each has a receive of this kind.
            let mut sge = [y.sge(n * STRIDE, STRIDE)];
            match frame.mistake {
                Mistake::NoReceive => continue,
                Mistake::ShortReceive => sge[0].length = 16,
                Mistake::ReceiveKey => sge[0].lkey ^= 1,
                _ => {}
            }
            for queue in queues.iter().chain([&y.qp]) {
                let mut post = queue.recv();
                // A queue that gets nothing is full one day.
                let _ = post.push(n as u64, &sge);
                post.ring();
            }
        }
        let lists: Vec<Vec<Sge>> =
            frames.iter().enumerate().map(|(n, frame)| elements(x, frame, n)).collect();
        let bytes: Vec<Vec<u8>> = frames.iter().map(Frame::bytes).collect();
        let wrs: Vec<_> = frames
            .iter()
            .enumerate()
            .map(|(n, frame)| {
                let data = if frame.inline { Data::Bytes(&bytes[n]) } else { Data::Sges(&lists[n]) };
                let wr = x.wr(n as u64, WqeOpcode::RAW_ETH, &[]);
                SendWr { data, flags: frame.flags, vlan_tci: 0x2000 | VLANS[1], ..wr }
            })
            .collect();
        x.post(&wrs);
    }

    /// Notes all that there is to see; after an error with new queues.
    fn look(&mut self) {
        let Ends { x, y, queues, rules, .. } = &self.ends;
        let number = |qpn| queues.iter().chain([&x.qp, &y.qp]).position(|qp| qp.qpn() == qpn);
        let mut failed = false;
        for side in [x, y] {
            while let Some(wc) = side.poll() {
                failed |= wc.status != CqeStatus::SUCCESS;
                let what = (wc.wr_id, wc.status, wc.opcode, wc.flags, wc.vendor_err, wc.byte_len, wc.imm);
                let frame = (wc.frame_kind, wc.mark, wc.vlan_tci);
                self.seen.push(format!("{:?}: {what:?} {frame:?}", number(wc.qpn)));
            }
            self.seen.push(format!("{:x}", side.buffer.checksum()));
        }
        for device in &self.devices {
            self.seen.push(format!("{:?}", device.query_port(1).expect("the port").counters));
        }
        let counts = rules.iter().map(|rule| rule.count().expect("a count"));
        self.seen.push(format!("{:?}", counts.collect::<Vec<_>>()));
        if failed {
            self.ends = Ends::new(&self.devices);
        }
    }
}

/// The elements of a frame, with its mistakes.
fn elements(x: &Side, frame: &Frame, n: usize) -> Vec<Sge> {
    let length = frame.bytes().len();
    let mut sge = x.sge(n * STRIDE, length);
    match frame.mistake {
        Mistake::LocalKey => sge.lkey ^= 1,
        Mistake::TwoElements => return vec![x.sge(n * STRIDE, 8), x.sge(n * STRIDE + 8, length - 8)],
        _ => {}
    }
    vec![sge]
}

fn run(devices: [Arc<Device<TestCard>>; 2], posts: &[Vec<Frame>]) -> Vec<String> {
    let mut run = Run::new(devices);
    for (n, frames) in posts.iter().enumerate() {
        // None, one, the other, both.
        for (bit, vlan) in VLANS.into_iter().enumerate() {
            run.devices[1].set_vlan(1, vlan, n >> bit & 1 == 1).expect("a VLAN");
        }
        run.post(frames);
        run.look();
    }
    run.seen
}

#[test]
fn frames_that_nobody_looks_at_come_as_those_of_the_exact_wire() {
    let nets = [Wire::default(), Wire::Exact].map(|wire| Net::on_wire(2, wire));
    let devices = nets.each_ref().map(|net| [net.open(0), net.open(1)]);
    let posts = prop::collection::vec(prop::collection::vec(frame(), 1..=MOST), 1..40);
    seeded::check(tests::seed(), 150, &posts, |posts| {
        let [express, exact] = devices.each_ref().map(|devices| run(devices.clone(), &posts));
        for (n, (express, exact)) in express.iter().zip(&exact).enumerate() {
            prop_assert_eq!(express, exact, "observation {}", n);
        }
        prop_assert_eq!(express.len(), exact.len());
        Ok(())
    });
}

/// What frames of one flow come to, and the next one after a change.
fn after(wire: Wire, change: &dyn Fn(&mut Run)) -> Vec<String> {
    let net = Net::on_wire(2, wire);
    let mut run = Run::new([net.open(0), net.open(1)]);
    let frame = Frame {
        to: To::Peer,
        ip: Ip::V4,
        tcp: true,
        tags: 1,
        ports: (PORTS[1], PORTS[2]),
        length: 100,
        flags: SendFlags::SIGNALED,
        inline: false,
        mistake: Mistake::Nothing,
    };
    for _ in 0..4 {
        run.post(&[frame; 2]);
        run.look();
    }
    run.seen.clear();
    change(&mut run);
    run.post(&[frame; 2]);
    run.look();
    run.seen
}

type Change<'a> = (&'a str, &'a dyn Fn(&mut Run));

#[test]
fn what_was_found_out_does_not_outlive_a_change() {
    let dropping = |run: &mut Run| {
        let rule = FlowContext::new().with_port(1).with_drop(true);
        run.ends.rules.push(run.ends.y.qp.create_flow(&rule).expect("a rule"));
    };
    let turned = |run: &mut Run| {
        let next: Vec<_> = (0..ENTRIES).map(|n| run.ends.queues[(n + 1) % QUEUES].clone()).collect();
        run.ends.table.modify(&next).expect("a table");
    };
    let reset = |run: &mut Run| {
        let reset = QpAttr { state: QpState::RESET, ..QpAttr::default() };
        run.ends.queues.iter().for_each(|queue| queue.modify(&reset, AttrMask::STATE).expect("RESET"));
    };
    let untaken = |run: &mut Run| run.devices[1].set_vlan(1, VLANS[0], false).expect("a VLAN");
    let changes: [Change<'_>; 6] = [
        ("the rule is gone", &|run| drop(run.ends.rules.remove(1))),
        ("another rule drops them", &dropping),
        ("the table names other queues", &turned),
        ("its VLAN is not taken any more", &untaken),
        ("the queues are reset", &reset),
        ("the sender is in error", &|run| run.ends.x.to(QpState::ERR)),
    ];
    let unchanged = after(Wire::default(), &|_| ());
    assert_eq!(unchanged, after(Wire::Exact, &|_| ()));
    for (what, change) in changes {
        let express = after(Wire::default(), change);
        assert_eq!(express, after(Wire::Exact, change), "{what}");
        assert_ne!(express, unchanged, "{what}");
    }
}
