//! Threads that post and poll at the same time, on shared and on separate queues: every request completes
//! once, every message arrives once.

#[path = "threads/frames.rs"]
mod frames;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use driver::{Data, PostError, SendFlags, SendWr};
use fpga_regs::{CqeStatus, WqeOpcode};
use tests::{connect, join, Net, Options, Peer, Side, Stop};

/// How long a stress may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

fn options() -> Options {
    // No time-out short enough to strike because the machine is busy.
    Options { depth: 32, bytes: 1 << 16, cqes: 1024, inline: 64, timeout: 20, ..Default::default() }
}

/// What is to happen once each.
struct Once(Vec<AtomicU8>, AtomicU64);

impl Once {
    fn new(count: usize) -> Once {
        Once((0..count).map(|_| AtomicU8::new(0)).collect(), AtomicU64::new(0))
    }

    fn happened(&self, id: u64) {
        let before = self.0[id as usize].fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, 0, "{id} happened twice");
        self.1.fetch_add(1, Ordering::SeqCst);
    }

    fn done(&self) -> bool {
        self.1.load(Ordering::SeqCst) == self.0.len() as u64
    }
}

/// Waits between two tries.
fn pause(until: Instant, stop: &AtomicBool, what: &dyn Fn() -> String) {
    assert!(!stop.load(Ordering::SeqCst), "another thread failed");
    if Instant::now() > until {
        stop.store(true, Ordering::SeqCst);
        panic!("stuck: {}", what());
    }
    std::thread::yield_now();
}

/// Posts until there is room.
fn post(peer: &Side, wr: &SendWr<'_>, until: Instant, stop: &AtomicBool) {
    loop {
        let mut chain = peer.qp.send();
        match chain.push(wr) {
            Ok(()) => return chain.ring(),
            Err(PostError::QueueFull) => drop(chain),
            Err(error) => panic!("{error}"),
        }
        pause(until, stop, &|| "the send queue stays full".into());
    }
}

/// `senders` threads post messages to one QP while `pollers` threads poll its CQ; the same on the other
/// side, both directions at once.
fn shared_qp(cards: u8, senders: u64, pollers: usize, each: u64) {
    let net = Net::new(cards);
    let (a, b) = (net.open(0), net.open(cards as u32 - 1));
    let (x, y) = connect(&a, &b, options());
    let total = (senders * each) as usize;
    let stop = AtomicBool::new(false);
    let until = Instant::now() + PATIENCE;
    // [side]: sends completed, messages received.
    let sent = [Once::new(total), Once::new(total)];
    let received = [Once::new(total), Once::new(total)];
    let sides = [&x, &y];
    for side in sides {
        (0..32).for_each(|slot| side.recv(1 << 32 | slot, &[side.sge(slot as usize * 64, 64)]));
    }
    std::thread::scope(|threads| {
        for (me, side) in sides.into_iter().enumerate() {
            let (stop, sent, received) = (&stop, &sent, &received);
            for thread in 0..senders {
                threads.spawn(move || {
                    let _stop = Stop(stop);
                    for n in 0..each {
                        let id = thread * each + n;
                        let bytes = [id.to_ne_bytes(), (!id).to_ne_bytes()].concat();
                        post(
                            side,
                            &SendWr { data: Data::Bytes(&bytes), ..side.wr(id, WqeOpcode::SEND, &[]) },
                            until,
                            stop,
                        );
                    }
                });
            }
            for _ in 0..pollers {
                threads.spawn(move || {
                    let _stop = Stop(stop);
                    let mut found = Vec::new();
                    while !(sent[me].done() && received[me].done()) {
                        found.clear();
                        side.cq.poll(5, |wc| found.push(wc)).expect("the CQ is well");
                        for wc in &found {
                            assert_eq!(wc.status, CqeStatus::SUCCESS);
                            if wc.wr_id >> 32 == 0 {
                                sent[me].happened(wc.wr_id);
                                continue;
                            }
                            let slot = wc.wr_id as u32 as usize;
                            let bytes: [u8; 16] =
                                side.buffer[slot * 64..slot * 64 + 16].try_into().expect("16 bytes");
                            let id = u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"));
                            assert_eq!(bytes[8..], (!id).to_ne_bytes(), "a message is torn");
                            received[me].happened(id);
                            // Its place is free: the driver has given it back with the completion. Another
                            // poller may be behind with an earlier one, so there may be no room yet.
                            loop {
                                let mut chain = side.qp.recv();
                                match chain.push(wc.wr_id, &[side.sge(slot * 64, 64)]) {
                                    Ok(()) => break chain.ring(),
                                    Err(PostError::QueueFull) => drop(chain),
                                    Err(error) => panic!("{error}"),
                                }
                                pause(until, stop, &|| "the receive queue stays full".into());
                            }
                        }
                        if found.is_empty() {
                            pause(until, stop, &|| {
                                format!(
                                    "side {me}: {:?} sent, {:?} received of {total}",
                                    sent[me].1, received[me].1
                                )
                            });
                        }
                    }
                });
            }
        }
    });
}

#[test]
fn one_poster_and_one_poller_on_each_side() {
    shared_qp(2, 1, 1, 20_000);
}

#[test]
fn many_threads_on_one_qp_and_one_cq() {
    shared_qp(2, 3, 2, 5000);
}

#[test]
fn many_threads_on_one_card() {
    shared_qp(1, 2, 3, 5000);
}

#[test]
fn each_thread_with_queues_of_its_own() {
    let (_net, a, b) = Net::new(2).both();
    std::thread::scope(|threads| {
        for thread in 0..6u8 {
            let (a, b) = if thread % 2 == 0 { (&a, &b) } else { (&b, &a) };
            threads.spawn(move || {
                for round in 0..3u8 {
                    let (mut x, y) = connect(a, b, options());
                    x.buffer.pattern(thread);
                    for n in 0..500u64 {
                        let at = n as usize * 40;
                        let (from, back) = ([x.sge(at, 3000)], [x.sge(60_000, 8)]);
                        x.post(&[
                            x.remote(n, WqeOpcode::WRITE, &from, &y, at),
                            SendWr { compare_add: 1, ..x.remote(n, WqeOpcode::FETCH_ADD, &back, &y, 65_528) },
                        ]);
                        x.expect(n);
                        x.expect(n);
                        assert!(y.buffer[at..at + 3000] == x.buffer[at..at + 3000]);
                    }
                    assert_eq!(y.buffer[65_528..], 500u64.to_ne_bytes(), "round {round}");
                }
            });
        }
    });
}

#[test]
fn many_qps_with_one_cq_and_several_pollers() {
    const EACH: u64 = 2000;
    const QPS: usize = 6;
    let (_net, a, b) = Net::new(2).both();
    let cq = a.create_cq(1024, 0).expect("a CQ");
    let pairs: Vec<(Side, Side)> = (0..QPS)
        .map(|_| {
            let x = Peer::tuned(&a, options(), None, |init| {
                (init.send_cq, init.recv_cq) = (cq.clone(), cq.clone())
            });
            let y = Peer::new(&b, options());
            join(&x, &y);
            (x, y)
        })
        .collect();
    let stop = AtomicBool::new(false);
    let until = Instant::now() + PATIENCE;
    // Every third request is signaled; all of them are counted by the memory they add to.
    let signaled = Once::new(QPS * (EACH / 3) as usize);
    std::thread::scope(|threads| {
        let (stop, signaled, cq) = (&stop, &signaled, &cq);
        for (n, (x, y)) in pairs.iter().enumerate() {
            threads.spawn(move || {
                let _stop = Stop(stop);
                let sge = [x.sge(0, 8)];
                for i in 0..EACH / 3 * 3 {
                    let last = i % 3 == 2;
                    let flags = if last { SendFlags::SIGNALED } else { SendFlags::empty() };
                    let id = n as u64 * (EACH / 3) + i / 3;
                    post(
                        x,
                        &SendWr { flags, compare_add: 1, ..x.remote(id, WqeOpcode::FETCH_ADD, &sge, y, 64) },
                        until,
                        stop,
                    );
                }
            });
        }
        for _ in 0..2 {
            threads.spawn(move || {
                let _stop = Stop(stop);
                while !signaled.done() {
                    let found = cq.poll(16, |wc| {
                        assert_eq!(wc.status, CqeStatus::SUCCESS);
                        signaled.happened(wc.wr_id);
                    });
                    if found.expect("the CQ is well") == 0 {
                        pause(until, stop, &|| format!("{:?} completions", signaled.1));
                    }
                }
            });
        }
    });
    for (_, y) in &pairs {
        assert_eq!(y.buffer[64..72], (EACH / 3 * 3).to_ne_bytes());
    }
}

#[test]
fn queues_come_and_go_beside_traffic() {
    let (_net, a, b) = Net::new(2).both();
    let (x, y) = connect(&a, &b, options());
    let done = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let _stop = Stop(&done);
                let until = Instant::now() + PATIENCE;
                // Until there was traffic beside them.
                for round in (0..).take_while(|&n| n < 60 || written.load(Ordering::SeqCst) == 0) {
                    assert!(round < 60 || Instant::now() < until, "no WRITE is done in {round} rounds");
                    let (p, q) = connect(&a, &b, Options { cqes: 64, ..options() });
                    q.recv(round, &[q.sge(0, 100)]);
                    p.completes(p.wr(round, WqeOpcode::SEND, &[p.sge(0, 100)]));
                    // The peer goes with its completion not polled, in either order.
                    if round % 2 == 0 {
                        drop(q);
                    }
                }
                done.store(true, Ordering::SeqCst);
            });
        }
        while !done.load(Ordering::SeqCst) {
            let n = written.load(Ordering::SeqCst);
            x.completes(x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 64)], &y, 0));
            written.store(n + 1, Ordering::SeqCst);
        }
    });
}

#[test]
fn a_sleeper_is_woken_by_each_completion() {
    let (_net, a, b) = Net::new(2).both();
    let (x, y) = connect(&a, &b, options());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for n in 0..1000 {
                y.recv(n, &[y.sge(0, 8)]);
                // Arm, look once more, sleep (as the man page of ibv_req_notify_cq has it).
                y.cq.arm(false);
                while y.poll().is_none() {
                    let event = tests::event_within(&b, PATIENCE);
                    assert_eq!(event, Some(driver::Event::Completion { cqn: y.cq.cqn() }), "message {n}");
                    y.cq.arm(false);
                }
            }
        });
        for n in 0..1000 {
            x.completes(x.wr(n, WqeOpcode::SEND, &[x.sge(0, 8)]));
        }
    });
}

/// Who holds the lock of the cards does what others leave to it meanwhile; but it is not kept by that for as long as
/// somebody posts.
#[test]
fn who_looks_in_is_not_kept_by_the_work_of_others() {
    /// Enough queue pairs that one always has something to send.
    const PAIRS: usize = 64;
    const POSTING: Duration = Duration::from_secs(3);
    // A hundred times what a look should take on a busy machine, and a fraction of the time that others post.
    const LONG: Duration = Duration::from_millis(1000);
    let (_net, a, b) = Net::new(2).both();
    let pairs: Vec<_> = (0..PAIRS).map(|_| connect(&a, &b, options())).collect();
    let longest = || {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _stop = Stop(&stop);
                let until = Instant::now() + POSTING;
                while Instant::now() < until {
                    for (x, y) in &pairs {
                        let sges = [x.sge(0, 8)];
                        let wr = SendWr {
                            flags: SendFlags::SIGNALED,
                            ..x.remote(0, WqeOpcode::WRITE, &sges, y, 0)
                        };
                        loop {
                            let mut chain = x.qp.send();
                            if chain.push(&wr).is_err() {
                                break;
                            }
                            chain.ring();
                        }
                    }
                    for (x, _) in &pairs {
                        while let Some(wc) = x.poll() {
                            assert_eq!(wc.status, CqeStatus::SUCCESS);
                        }
                    }
                }
                stop.store(true, Ordering::SeqCst);
            });
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::SeqCst) {
                let begin = Instant::now();
                b.query_port(1).expect("the port answers");
                longest = longest.max(begin.elapsed());
            }
            longest
        })
    };
    // The machine may stop this thread in a look, but not each time.
    let mut taken = Vec::new();
    let short = (0..3).any(|_| {
        taken.push(longest());
        taken[taken.len() - 1] < LONG
    });
    assert!(short, "a look at the port took {taken:?} beside somebody who posts");
}
