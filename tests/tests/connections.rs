//! Many connections that are busy at the same time, and what happens when they begin to share something.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use driver::{Data, SendFlags, SendWr};
use fpga_regs::WqeOpcode;
use tests::{connect, join, Net, Options, Peer, Side};

fn options() -> Options {
    Options { depth: 16, bytes: 1 << 12, cqes: 64, inline: 64, timeout: 20, ..Default::default() }
}

/// Sends a message each way, and a WRITE.
fn exchange(x: &Side, y: &Side, value: u64) {
    for (from, to) in [(x, y), (y, x)] {
        let bytes = value.to_le_bytes();
        let inline = |wr| SendWr { data: Data::Bytes(&bytes), ..wr };
        to.recv(1, &[to.sge(64, 8)]);
        from.post(&[inline(from.wr(2, WqeOpcode::SEND, &[]))]);
        from.expect(2);
        to.expect(1);
        assert_eq!(to.buffer[64..72], bytes);
        from.post(&[inline(from.remote(3, WqeOpcode::WRITE, &[], to, 128))]);
        from.expect(3);
        assert_eq!(to.buffer[128..136], bytes);
    }
}

/// There are more connections that share nothing than the segment has locks for them.
#[test]
fn more_connections_than_islands() {
    const PAIRS: usize = 600;
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
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

/// Two connections that share nothing are busy while others come that share a CQ with both of them, and go again.
#[test]
fn connections_become_one_island_beside_traffic() {
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
    let pairs = [connect(&a, &b, options()), connect(&a, &b, options())];
    // The CQs between which others make a connection: those of queue pairs without traffic of their own, which join the
    // island of the busy ones by a queue pair each.
    let beside: Vec<(Side, Side)> = pairs
        .iter()
        .map(|(x, _)| {
            let y = Peer::new(&b, options());
            let x = Peer::tuned(&a, options(), None, |init| init.send_cq = x.cq.clone());
            join(&x, &y);
            (x, y)
        })
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (x, y) in &pairs {
            let stop = &stop;
            scope.spawn(move || {
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    exchange(x, y, rounds);
                    rounds += 1;
                }
                assert!(rounds > 10, "{rounds} rounds");
            });
        }
        let until = Instant::now() + Duration::from_secs(2);
        let mut bridges = 0;
        while Instant::now() < until {
            // Its receives complete to the one CQ, its sends to the other.
            let y = Peer::new(&b, options());
            let x = Peer::tuned(&a, options(), None, |init| {
                (init.send_cq, init.recv_cq) = (beside[0].0.cq.clone(), beside[1].0.cq.clone());
            });
            join(&x, &y);
            let bytes = u64::to_le_bytes(bridges);
            let wr = y.remote(7, WqeOpcode::WRITE, &[], &x, 8);
            y.post(&[SendWr { data: Data::Bytes(&bytes), ..wr }]);
            y.expect(7);
            assert_eq!(x.buffer[8..16], bytes);
            bridges += 1;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(bridges > 3, "{bridges} bridges");
    });
}

/// A thread that needs all the cards for a moment need not wait until a long chain of long messages is sent.
#[test]
fn a_control_operation_beside_long_messages() {
    const BYTES: usize = 32 << 20;
    const MESSAGES: usize = 16;
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
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
    let (a, b) = (net.open(0), net.open(1));
    let (x, y) = connect(&a, &b, options());
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
