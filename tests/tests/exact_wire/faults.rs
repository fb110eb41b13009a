//! Reliable connections over a wire that loses, repeats, reorders and damages frames: every message
//! arrives intact, exactly once and in order.

use std::time::{Duration, Instant};

use driver::{SendFlags, SendWr};
use fpga_regs::{CqeOpcode, CqeStatus, EventKind, QpState, QpType, WqeOpcode};
use model::attach::NetOptions;
use model::link::faults::mix;
use model::profile::Profile;
use model::wire::frame;
use tests::{connect, datagram, expect_async, place_for, Net, Options, Peer, Random, TestCard};

use super::{counter, exact, recorded};

/// Longest message.
const LONGEST: usize = 20_000;
/// Operations outstanding, each with its own part of the buffers.
const WINDOW: u64 = 16;
/// What faults make the cards count.
const COUNTERS: [&str; 6] =
    ["retransmits", "sequence_nak", "out_of_sequence", "duplicate", "rnr_nak", "ack_timeouts"];
/// Offset of the parts, after the atomics' words.
const PARTS: usize = 4096;

/// Mostly short, sometimes of many packets.
fn size(random: &mut Random) -> usize {
    let most = random.of(&[0, 64, 1100, LONGEST]);
    random.below(most + 1)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verb {
    Send,
    Write,
    WriteImm,
    Read,
    Add,
    Swap,
}

/// An outstanding operation.
#[derive(Clone, Copy, Debug)]
struct Operation {
    number: u64,
    verb: Verb,
    size: usize,
    /// Atomics: the value that the word must have had before.
    before: u64,
}

fn part(number: u64) -> usize {
    PARTS + (number % WINDOW) as usize * LONGEST.next_multiple_of(4096)
}

/// The content of operation `number`.
fn content(number: u64, size: usize) -> impl Iterator<Item = u8> {
    (0..size as u64).map(move |i| (mix(number * 40_000 + i / 8) >> (i % 8 * 8)) as u8)
}

fn holds(memory: &[u8], number: u64, size: usize) -> bool {
    memory[..size].iter().copied().eq(content(number, size))
}

fn fill(memory: &mut [u8], number: u64, size: usize) {
    memory[..size].iter_mut().zip(content(number, size)).for_each(|(to, from)| *to = from);
}

/// One direction of traffic and what is expected of it.
struct Traffic {
    x: Peer<TestCard>,
    y: Peer<TestCard>,
    random: Random,
    /// The value that the word of atomics will have when all outstanding operations are done.
    word: u64,
    /// Outstanding, in order.
    sent: std::collections::VecDeque<Operation>,
    /// Those that complete a receive at the peer.
    receives: std::collections::VecDeque<Operation>,
}

impl Traffic {
    fn post(&mut self, number: u64) {
        let verbs = [Verb::Send, Verb::Send, Verb::Write, Verb::WriteImm, Verb::Read, Verb::Add, Verb::Swap];
        let verb = verbs[self.random.below(verbs.len() as u64) as usize];
        let size = if matches!(verb, Verb::Add | Verb::Swap) { 8 } else { size(&mut self.random) };
        let at = part(number);
        let (x, y) = (&mut self.x, &mut self.y);
        match verb {
            Verb::Read => fill(&mut y.buffer[at..], number, size),
            _ => fill(&mut x.buffer[at..], number, size),
        }
        let receives = matches!(verb, Verb::Send | Verb::WriteImm);
        // Some receives come late: RNR NAKs are part of it.
        let late = self.random.below(32) == 0;
        let receive = [y.sge(at, if verb == Verb::Send { size } else { 0 })];
        if receives && !late {
            y.recv(number, &receive);
        }
        let sges = if size > 2 {
            vec![x.sge(at, size / 2), x.sge(at + size / 2, size - size / 2)]
        } else {
            vec![x.sge(at, size)]
        };
        let opcode = match verb {
            Verb::Send => WqeOpcode::SEND_WITH_IMM,
            Verb::Write => WqeOpcode::WRITE,
            Verb::WriteImm => WqeOpcode::WRITE_WITH_IMM,
            Verb::Read => WqeOpcode::READ,
            Verb::Add => WqeOpcode::FETCH_ADD,
            Verb::Swap => WqeOpcode::CMP_SWAP,
        };
        let before = self.word;
        let atomic = matches!(verb, Verb::Add | Verb::Swap);
        let mut wr: SendWr<'_> = x.remote(number, opcode, &sges, y, if atomic { 0 } else { at });
        wr.imm = number as u32;
        wr.flags = SendFlags::SIGNALED;
        match verb {
            Verb::Add => {
                wr.compare_add = number;
                self.word = before.wrapping_add(number);
            }
            Verb::Swap => {
                (wr.compare_add, wr.swap) = (before, mix(number));
                self.word = mix(number);
            }
            _ => {}
        }
        let operation = Operation { number, verb, size, before };
        x.post(&[wr]);
        self.sent.push_back(operation);
        if receives {
            if late {
                y.recv(number, &receive);
            }
            self.receives.push_back(operation);
        }
    }

    /// Takes the next completion of the oldest operation and checks all that it promises.
    fn complete(&mut self) {
        let o = self.sent.pop_front().expect("something is outstanding");
        let wc = self.x.wait();
        assert_eq!((wc.wr_id, wc.status), (o.number, CqeStatus::SUCCESS), "{o:?}, {:#x}", wc.vendor_err);
        let at = part(o.number);
        let there = |way: &Traffic| holds(&way.y.buffer[at..], o.number, o.size);
        match o.verb {
            Verb::Send | Verb::WriteImm => {
                let received = self.receives.pop_front().expect("it was noted");
                assert_eq!(received.number, o.number);
                let wc = self.y.wait();
                assert_eq!(
                    (wc.wr_id, wc.status, wc.imm),
                    (o.number, CqeStatus::SUCCESS, o.number as u32),
                    "{o:?}"
                );
                assert_eq!(wc.byte_len as usize, o.size, "{o:?}");
                let opcode =
                    if o.verb == Verb::Send { CqeOpcode::RECV } else { CqeOpcode::RECV_RDMA_WITH_IMM };
                assert_eq!(wc.opcode, opcode);
                assert!(there(self), "{o:?}: the content");
            }
            // Its acknowledgement says that the peer's card has it: the peer's memory may have it a moment later.
            Verb::Write => {
                let soon = (0..100).any(|_| there(self) || self.y.device.query_port(1).is_err());
                assert!(soon, "{o:?}: the content");
            }
            Verb::Read => assert!(holds(&self.x.buffer[at..], o.number, o.size), "{o:?}: the content"),
            // Done twice, or in another order, the word would be another.
            Verb::Add | Verb::Swap => {
                let found = u64::from_le_bytes(self.x.buffer[at..at + 8].try_into().unwrap());
                assert_eq!(found, o.before, "{o:?}: the original value");
            }
        }
    }

    fn finish(&mut self) {
        while !self.sent.is_empty() {
            self.complete();
        }
        assert!(self.x.poll().is_none() && self.y.poll().is_none(), "a completion too many");
        assert_eq!(self.y.buffer[..8], self.word.to_le_bytes());
    }
}

/// As [`soak_by`], by the wall clock; the faults are many enough that each has its effect.
fn soak(reorder: u32, faults: &str, count: u64, options: Options) {
    let counters = soak_by(None, reorder, faults, count, options);
    let (lost, damaged) = (faults.contains("loss"), faults.contains("corrupt"));
    for (name, value) in counters {
        // Without loss, only a slow machine lets a timer run out.
        let expected = name != "ack_timeouts" || lost || damaged;
        assert!(value != 0 || !expected, "{name}");
    }
}

/// `count` operations of random verbs and sizes, in both directions at once, by the wall clock or in simulated time:
/// every byte arrives, no atomic happens twice, no completion is lost or comes twice. Gives counters.
fn soak_by(
    clock: Option<Profile>,
    reorder: u32,
    faults: &str,
    count: u64,
    options: Options,
) -> [(&'static str, u64); COUNTERS.len()] {
    println!("faults {faults}, {reorder} packets are kept");
    let clock = clock.map(|mut profile| {
        profile.rx.reorder_packets = reorder;
        profile
    });
    let (_directory, path) = place_for("net.pcap");
    let (net, a, b) =
        Net::with(recorded(NetOptions { clock, reorder, ..exact(faults) }, &path, 65_535)).both();
    // 5 ms: the answer to each attempt may be lost, and only progress gives the retries back. A thread that loses its core
    // before it posts a late receive must not use them up.
    let options = Options { gid: 1, bytes: 1 << 19, min_rnr_timer: 18, ..options };
    let traffic = |from, to, seed| {
        let (x, y) = connect(from, to, options);
        Traffic {
            x,
            y,
            random: Random(seed),
            word: 0,
            sent: Default::default(),
            receives: Default::default(),
        }
    };
    let mut ways = [traffic(&a, &b, 1), traffic(&b, &a, 2)];
    for number in 0..count / 2 {
        for way in &mut ways {
            if way.sent.len() as u64 >= WINDOW / 2 + way.random.below(WINDOW / 2) {
                way.complete();
            }
            way.post(number);
        }
    }
    ways.iter_mut().for_each(Traffic::finish);
    let of = |name| counter(&[&a, &b], name);
    let counters = COUNTERS.map(|name| (name, of(name)));
    println!("{counters:?}");
    assert_eq!(of("rx_icrc_errors") != 0, faults.contains("corrupt"));
    drop(ways);
    drop((a, b));
    drop(net);
    let frames = tests::pcap::records(&path, 65_535);
    println!("{} frames", frames.len());
    // Damage happens after the record.
    assert!(frames.iter().all(|f| frame::decode(&f.kept).is_ok()));
    counters
}

#[test]
fn a_lossy_wire() {
    for reorder in [0, 128] {
        soak(reorder, "loss=0.02,seed=1", 4000, Options { timeout: 1, ..Options::default() });
    }
}

#[test]
fn a_damaging_wire() {
    soak(0, "corrupt=0.05,seed=2", 4000, Options { timeout: 2, ..Options::default() });
}

#[test]
fn a_repeating_and_reordering_wire() {
    for reorder in [0, 16] {
        soak(reorder, "dup=0.05,reorder=0.03,seed=3", 4000, Options { timeout: 6, ..Options::default() });
    }
}

#[test]
fn all_faults_at_once_at_the_least_mtu() {
    let options = Options { timeout: 3, mtu: 1, psn: 0xff_ff00, ..Options::default() };
    for reorder in [0, 2] {
        soak(reorder, "loss=0.01,dup=0.01,reorder=0.01,corrupt=0.01,seed=4", 4000, options);
    }
}

/// A frame that both `delay` and `reorder` hit lets others pass, and takes at least its delay: by the wall clock.
#[test]
fn late_frames_are_passed_by_others() {
    let net = Net::with(exact("delay by=20ms send, reorder by=3 send every=5"));
    let (x, y) = net.pair(Options { gid: 1, qp_type: QpType::UD, ..Options::default() });
    let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
    let sges = [x.sge(0, 8)];
    let wr = datagram(&ah, y.qp.qpn(), x.wr(9, WqeOpcode::SEND_WITH_IMM, &sges));
    let send = |imm| SendWr { imm, ..wr };
    let sends: Vec<SendWr<'_>> = (0..20).map(send).collect();
    (0..20).for_each(|number| y.recv(number, &[y.sge(0, 64)]));
    let begin = Instant::now();
    x.post(&sends);
    let mut order = vec![y.wait().imm];
    assert!(begin.elapsed() >= Duration::from_millis(20), "{:?}", begin.elapsed());
    order.extend((1..20).map(|_| y.wait().imm));
    assert!(!order.is_sorted(), "{order:?}");
    order.sort_unstable();
    assert!(order.into_iter().eq(0..20));
}

/// Faults of random kinds and rates, by chance and by rules, that leave a connection its retries.
fn any_faults(random: &mut Random, seed: u64) -> String {
    let mut rate = |most: u64| random.below(most) as f64 / 1000.0;
    let (loss, dup, reorder, corrupt) = (rate(30), 0.001 + rate(100), rate(40), 0.005 + rate(15));
    let mut parts = vec![format!("loss={loss},dup={dup},reorder={reorder},corrupt={corrupt},seed={seed}")];
    const KINDS: [&str; 12] = [
        "data first",
        "data middle",
        "data last",
        "data only",
        "ack",
        "nak",
        "rnr",
        "read",
        "read-response",
        "atomic",
        "atomic-response",
        "response",
    ];
    for _ in 0..random.below(5) {
        let action = random.of(&["drop", "drop", "dup", "reorder by=5", "corrupt", "mark"]);
        let which = match random.below(3) {
            0 => format!("p=0.0{}", 1 + random.below(5)),
            1 => format!("every={}", 20 + random.below(100)),
            _ => format!("nth={}..{}", 5, 6 + random.below(3)),
        };
        parts.push(format!("{action} {} {which}", random.of(&KINDS)));
    }
    parts.join(",")
}

/// Each seed by either clock, with other faults, another path MTU and depth of READs; with go-back-N, or so many packets are kept.
fn seeds(seeds: std::ops::Range<u64>, operations: u64) {
    for seed in seeds {
        let mut random = Random(seed);
        let faults = any_faults(&mut random, seed);
        let (mtu, rd_atomic) = (1 + random.below(5) as u8, 1 + random.below(16) as u8);
        let psn = random.below(1 << 24);
        let options = Options { timeout: 1, mtu, rd_atomic, psn, ..Options::default() };
        let clock = (seed % 4 == 3).then(|| Profile::load("f10a").expect("a profile of our own").profile);
        let timeout = if clock.is_some() { 8 } else { options.timeout };
        let reorder = [0, 128, 3, 16][((seed + seed / 4) % 4) as usize];
        soak_by(clock, reorder, &faults, operations, Options { timeout, ..options });
    }
}

#[test]
fn messages_of_some_seeds() {
    seeds(0..4, 1000);
}

/// A million messages of mixed verbs and sizes, from 100 seeds. `SEEDS=7..9` takes those from 7 to 8.
#[test]
#[ignore = "long: cargo test --release -p tests --test exact_wire -- --ignored a_million_messages"]
fn a_million_messages() {
    let given = std::env::var("SEEDS").unwrap_or("0..100".into());
    let (from, to) = given.split_once("..").expect("SEEDS is two numbers with .. between them");
    let number = |text: &str| text.parse().expect("SEEDS is two numbers");
    seeds(number(from)..number(to), 10_000);
}

#[test]
fn long_messages_over_a_lossy_wire() {
    let (_net, a, b) = Net::with(exact("loss=0.003,dup=0.002,reorder=0.002,seed=9")).both();
    let (mut x, mut y) = connect(&a, &b, Options { timeout: 4, bytes: 4 << 20, ..Options::default() });
    let size = 3_000_001;
    for round in 0..5 {
        x.buffer.pattern(round);
        x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, size)], &y, 77));
        assert!(x.buffer[..size] == y.buffer[77..77 + size], "WRITE");
        y.recv(2, &[y.sge(0, 1_000_003), y.sge(1_000_003, size)]);
        x.completes(x.wr(2, WqeOpcode::SEND, &[x.sge(1, 2_000_001), x.sge(2_000_002, size - 2_000_001)]));
        assert_eq!(y.expect(2).byte_len as usize, size);
        assert!(x.buffer[1..1 + size] == y.buffer[..size], "SEND");
        y.buffer.pattern(100 + round);
        x.completes(x.remote(3, WqeOpcode::READ, &[x.sge(5, 7), x.sge(12, size - 7)], &y, 3));
        assert!(x.buffer[5..5 + size] == y.buffer[3..3 + size], "READ");
    }
    assert_ne!(counter(&[&a, &b], "retransmits"), 0);
}

#[test]
fn nothing_arrives_and_the_retries_are_used_up() {
    let (_net, a, b) = Net::with(exact("loss=1,seed=5")).both();
    let (x, _y) = connect(&a, &b, Options { timeout: 2, retry_cnt: 3, ..Options::default() });
    x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, 10)])]);
    assert_eq!(x.wait().status, CqeStatus::RETRY_EXC_ERR);
    assert_eq!(counter(&[&a], "ack_timeouts"), 4);
    assert_eq!(counter(&[&a, &b], "rx_packets"), 0);
}

#[test]
fn a_send_queue_drains_although_packets_are_lost() {
    let (_net, a, b) = Net::with(exact("loss=0.3,seed=8")).both();
    let options = Options { timeout: 3, gid: 1, ..Options::default() };
    for _ in 0..50 {
        let (x, y) = connect(&a, &b, options);
        let sge = [x.sge(0, 3000)];
        let write = |id| x.remote(id, WqeOpcode::WRITE, &sge, &y, 0);
        x.post(&[write(1), write(2), x.remote(3, WqeOpcode::READ, &sge, &y, 0), write(4)]);
        x.drain();
        for id in 1..=4 {
            x.expect(id);
        }
        expect_async(&a, EventKind::SQ_DRAINED, x.qp.qpn());
        // What is posted now waits for RTS.
        x.post(&[write(5)]);
        assert!(x.poll().is_none());
        x.to(QpState::RTS);
        x.expect(5);
    }
}

#[test]
fn an_unreliable_connection_loses_whole_messages_only() {
    let (_net, a, b) = Net::with(exact("loss=0.05,corrupt=0.05,seed=6")).both();
    let (mut x, y) = connect(&a, &b, Options { qp_type: QpType::UC, ..Options::default() });
    let (mut received, mut next) = (0, 0);
    let messages = 1000;
    for i in 0..16 {
        y.recv(i, &[y.sge(part(i), LONGEST)]);
    }
    for number in 0..messages {
        let size = 1 + mix(number) as usize % 4000;
        fill(&mut x.buffer, number, size);
        let sge = [x.sge(0, size)];
        let mut wr = x.wr(number, WqeOpcode::SEND_WITH_IMM, &sge);
        wr.imm = number as u32;
        x.completes(wr);
        if let Some(wc) = y.poll() {
            assert_eq!((wc.status, wc.byte_len as usize), (CqeStatus::SUCCESS, size), "message {number}");
            assert_eq!(wc.imm as u64, number, "a message that was not lost arrives at once");
            assert!(wc.imm as u64 >= next);
            next = wc.imm as u64 + 1;
            let at = part(wc.wr_id);
            assert!(holds(&y.buffer[at..], number, size), "message {number}");
            received += 1;
            y.recv(wc.wr_id, &[y.sge(at, LONGEST)]);
        }
    }
    println!("{received} of {messages} messages arrived");
    assert!((600..950).contains(&received));
    assert_ne!(counter(&[&b], "rx_icrc_errors"), 0);
}

/// What is for a group is damaged for all ports that it reaches, and counted at each.
#[test]
fn damaged_multicast_is_counted_where_it_comes() {
    for clock in [None, Some(Profile::load("f10a").expect("a profile of our own").profile)] {
        for (fault, counters) in
            [("corrupt=1,seed=3", &["RX_ICRC_ERRORS", "RX_MALFORMED"][..]), ("mark", &["RX_ECN_MARKED"])]
        {
            let net = Net::with(NetOptions { clock, ..exact(fault) });
            let devices = [net.open(0), net.open(1)];
            let x = Peer::new(&devices[0], Options { qp_type: QpType::UD, ..Options::default() });
            x.ready();
            let mut group = [0; 16];
            (group[0], group[1], group[15]) = (0xff, 0x0e, 1);
            let ah = x.pd.create_ah(&x.av(group)).expect("an address handle");
            let sge = [x.sge(0, 100)];
            x.completes(SendWr { ah: Some(&ah), remote_qpn: 0xff_ffff, ..x.wr(1, WqeOpcode::SEND, &sge) });
            let counted = |card: usize, port| {
                counters.iter().map(|name| tests::counter(&devices[card], port, name)).sum::<u64>()
            };
            let all = || [(0, 1), (0, 2), (1, 1), (1, 2)].map(|(card, port)| counted(card, port));
            // In simulated time the sender is done before the packet has arrived.
            let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
            while all() != [0, 1, 1, 1] && std::time::Instant::now() < until {
                x.poll();
            }
            assert_eq!(all(), [0, 1, 1, 1], "{fault}, {}", if clock.is_some() { "virtual" } else { "wall" });
        }
    }
}
