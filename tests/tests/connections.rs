//! Many connections that are busy at the same time, and what happens when they begin to share something.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use driver::{Data, SendFlags, SendWr, Srq, SrqAttr};
use fpga_regs::WqeOpcode;
use tests::{connect, join, Net, Options, Peer, Side, Stop, TestCard};

fn options() -> Options {
    Options { depth: 16, bytes: 1 << 12, cqes: 64, inline: 64, timeout: 20, ..Default::default() }
}

/// Sends a message each way, and a WRITE.
fn exchange(x: &Side, y: &Side, value: u64) {
    exchange_by(x, y, value, [None, None]);
}

/// The same; `srqs` are those of the sides that have one.
fn exchange_by(x: &Side, y: &Side, value: u64, srqs: [Option<&Srq<TestCard>>; 2]) {
    for (from, to, srq) in [(x, y, srqs[1]), (y, x, srqs[0])] {
        let bytes = value.to_le_bytes();
        let inline = |wr| SendWr { data: Data::Bytes(&bytes), ..wr };
        receive(to, srq);
        from.completes(inline(from.wr(2, WqeOpcode::SEND, &[])));
        to.expect(1);
        assert_eq!(to.buffer[64..72], bytes);
        from.completes(inline(from.remote(3, WqeOpcode::WRITE, &[], to, 128)));
        assert_eq!(to.buffer[128..136], bytes);
    }
}

/// There are more connections that share nothing than the segment has locks for them.
#[test]
fn more_connections_than_islands() {
    const PAIRS: usize = 600;
    let (_net, a, b) = Net::new(2).both();
    let pairs: Vec<_> = (0..PAIRS).map(|_| connect(&a, &b, options())).collect();
    std::thread::scope(|scope| {
        for half in pairs.chunks(PAIRS / 2) {
            scope.spawn(move || {
                for round in 0..3 {
                    half.iter().zip(round..).for_each(|((x, y), value)| exchange(x, y, value));
                }
            });
        }
    });
}

/// Receives a message at `to`, from its own queue or its SRQ.
fn receive(to: &Side, srq: Option<&Srq<TestCard>>) {
    match srq {
        Some(srq) => {
            let mut post = srq.post();
            post.push(1, &[to.sge(64, 8)]).expect("room in the SRQ");
            post.ring();
        }
        None => to.recv(1, &[to.sge(64, 8)]),
    }
}

/// Two connections that share nothing are busy while others come that share a CQ with both of them, or an SRQ with an end
/// of each, and go again.
#[test]
fn connections_begin_to_share_beside_traffic() {
    const BUSY: Duration = Duration::from_secs(2);
    // Until there was enough of both, on a busy machine.
    const LIMIT: Duration = Duration::from_secs(60);
    let (_net, a, b) = Net::new(2).both();
    let srqs = [&a, &b].map(|card| {
        let attr = SrqAttr { max_wr: 16, max_sge: 1, limit: 0 };
        card.alloc_pd().expect("a PD").create_srq(&attr).expect("an SRQ")
    });
    // One has an SRQ at card a, the other one at card b.
    let pairs = [true, false].map(|at_a| {
        let x = Peer::with_srq(&a, options(), at_a.then(|| srqs[0].clone()));
        let y = Peer::with_srq(&b, options(), (!at_a).then(|| srqs[1].clone()));
        join(&x, &y);
        (x, y)
    });
    let stop = AtomicBool::new(false);
    let rounds = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for (((x, y), at_a), rounds) in pairs.iter().zip([true, false]).zip(&rounds) {
            let (stop, srqs) = (&stop, &srqs);
            scope.spawn(move || {
                let _stop = Stop(stop);
                while !stop.load(Ordering::Relaxed) {
                    let round = rounds.load(Ordering::Relaxed);
                    exchange_by(x, y, round, [at_a.then_some(&*srqs[0]), (!at_a).then_some(&*srqs[1])]);
                    rounds.store(round + 1, Ordering::Relaxed);
                }
            });
        }
        let _stop = Stop(&stop);
        let start = Instant::now();
        let mut bridges = 0;
        let few = |bridges| bridges <= 3 || rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) <= 10);
        while start.elapsed() < BUSY || few(bridges) && start.elapsed() < LIMIT {
            assert!(!stop.load(Ordering::Relaxed), "a busy connection failed");
            let by_srq = bridges % 2 == 0;
            let y = Peer::with_srq(&b, options(), by_srq.then(|| srqs[1].clone()));
            let x = match by_srq {
                // The two become one island.
                true => Peer::with_srq(&a, options(), Some(srqs[0].clone())),
                // Its receives complete to the one's CQ, its sends to the other's: three islands share CQs.
                false => Peer::tuned(&a, options(), None, |init| {
                    (init.send_cq, init.recv_cq) = (pairs[0].0.cq.clone(), pairs[1].0.cq.clone());
                }),
            };
            join(&x, &y);
            let bytes = u64::to_le_bytes(bridges);
            let wr = y.remote(7, WqeOpcode::WRITE, &[], &x, 8);
            y.completes(SendWr { data: Data::Bytes(&bytes), ..wr });
            assert_eq!(x.buffer[8..16], bytes);
            bridges += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(!few(bridges), "{bridges} bridges, {rounds:?} rounds");
    });
}

/// Queue pairs of many islands complete to one CQ, which threads at both ends write to and one thread polls: each
/// completion is there once, in its queue pair's order.
#[test]
fn islands_share_a_cq() {
    const PAIRS: usize = 8;
    const MESSAGES: u64 = 4000;
    let (_net, a, b) = Net::new(2).both();
    let first = Peer::new(&a, Options { cqes: 1024, ..options() });
    let pairs: Vec<(Side, Side)> = (0..PAIRS)
        .map(|_| {
            let x = Peer::tuned(&a, options(), None, |init| {
                (init.send_cq, init.recv_cq) = (first.cq.clone(), first.cq.clone());
            });
            let y = Peer::new(&b, options());
            join(&x, &y);
            (x, y)
        })
        .collect();
    let by_qpn: HashMap<u32, usize> = pairs.iter().enumerate().map(|(n, (x, _))| (x.qp.qpn(), n)).collect();
    std::thread::scope(|scope| {
        // Two threads send from the other ends; of each pair in turn.
        for half in pairs.chunks(PAIRS / 2) {
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    for (x, y) in half {
                        let bytes = n.to_le_bytes();
                        let wr = y.remote(n, WqeOpcode::WRITE_WITH_IMM, &[], x, 8);
                        y.completes(SendWr { data: Data::Bytes(&bytes), imm: n as u32, ..wr });
                    }
                }
            });
        }
        let mut posted = [0; PAIRS];
        let mut come = [0; PAIRS];
        let until = Instant::now() + Duration::from_secs(120);
        while come.iter().any(|&come| come < MESSAGES) {
            for (n, (x, _)) in pairs.iter().enumerate() {
                while posted[n] < MESSAGES && posted[n] < come[n] + 8 {
                    x.recv(posted[n], &[]);
                    posted[n] += 1;
                }
            }
            while let Some(wc) = first.poll() {
                let n = by_qpn[&wc.qpn];
                assert_eq!((wc.wr_id, wc.imm), (come[n], come[n] as u32), "pair {n}");
                come[n] += 1;
            }
            assert!(Instant::now() < until, "{come:?} of {MESSAGES} came");
        }
    });
}

/// A thread that needs all the cards for a moment need not wait until a long chain of long messages is sent.
#[test]
fn a_control_operation_beside_long_messages() {
    const BYTES: usize = 32 << 20;
    const MESSAGES: usize = 16;
    let (_net, a, b) = Net::new(2).both();
    let (x, y) = connect(&a, &b, Options { bytes: BYTES, ..options() });
    let sges = [x.sge(0, BYTES)];
    let last = x.remote(1, WqeOpcode::WRITE, &sges, &y, 0);
    let mut chain = vec![SendWr { flags: SendFlags::empty(), ..last }; MESSAGES];
    chain[MESSAGES - 1] = last;
    // The connection joins its island.
    x.post(&chain[MESSAGES - 1..]);
    x.expect(1);
    let before = (0..50).any(|_| {
        let (posting, posted) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                posting.store(true, Ordering::SeqCst);
                x.post(&chain);
                posted.store(true, Ordering::SeqCst);
                x.expect(1);
            });
            while !posting.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            std::thread::sleep(Duration::from_millis(2));
            let began_before = !posted.load(Ordering::SeqCst);
            b.query_port(1).expect("the port answers");
            began_before && !posted.load(Ordering::SeqCst)
        })
    });
    assert!(before, "each time the whole chain was sent first");
}

/// A program's thread may have a small stack; what an island needs in a process is not made there.
#[test]
fn the_first_message_of_a_thread_with_little_stack() {
    let net = Net::new(2);
    let (x, y) = net.pair(options());
    let small = std::thread::Builder::new().stack_size(96 << 10);
    std::thread::scope(|scope| {
        let first = small.spawn_scoped(scope, || {
            // The connection joins its island, and then is run as one.
            exchange(&x, &y, 1);
            exchange(&x, &y, 2);
        });
        first.expect("a thread").join().expect("its messages");
    });
}
