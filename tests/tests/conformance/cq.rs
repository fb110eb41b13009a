//! Completion queues: events, solicited ones, resizing, overrun, completions of QPs that are gone.

use std::time::Duration;

use driver::{AttrMask, Event, QpAttr, QpInit, SendFlags, Sge};
use fpga_regs::{CqeStatus, EventKind, QpState, QpType, WqeOpcode};
use tests::{
    connect, event_within, expect_completion_event, expect_no_event, join, on_one_and_two_cards, Net,
    Options, Peer, Side,
};

fn small() -> Options {
    Options { depth: 64, bytes: 1 << 17, timeout: 14, cqes: 128, ..Default::default() }
}

fn write(x: &Side, y: &Side, id: u64) {
    x.post(&[x.remote(id, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0)]);
}

fn send(x: &Side, y: &Side, id: u64, flags: SendFlags) {
    y.recv(id, &[]);
    let mut wr = x.wr(id, WqeOpcode::SEND, &[]);
    wr.flags |= flags;
    x.post(&[wr]);
    x.expect(id);
}

#[test]
fn an_armed_queue_tells_once() {
    on_one_and_two_cards(small(), |x, y| {
        write(x, y, 1);
        x.expect(1);
        expect_no_event(&x.device);
        for round in 0..20 {
            x.cq.arm(false);
            expect_no_event(&x.device);
            write(x, y, round);
            write(x, y, round);
            expect_completion_event(&x.device, x.cq.cqn());
            x.expect(round);
            x.expect(round);
            // Not armed: nothing.
            write(x, y, round);
            x.expect(round);
            expect_no_event(&x.device);
        }
    });
}

#[test]
fn a_completion_between_the_last_poll_and_arming_is_not_missed() {
    on_one_and_two_cards(small(), |x, y| {
        for round in 0..50 {
            x.quiet();
            write(x, y, round);
            // The program did not see it, arms and sleeps: either the event comes, or (as the man page has
            // it) a poll after arming finds the completion.
            x.cq.arm(false);
            let told = event_within(&x.device, Duration::from_millis(20))
                == Some(Event::Completion { cqn: x.cq.cqn() });
            assert!(told, "a sleeper would not have been woken");
            x.expect(round);
        }
        expect_no_event(&x.device);
    });
}

#[test]
fn arming_for_solicited_completions() {
    on_one_and_two_cards(small(), |x, y| {
        for round in 0..10 {
            y.cq.arm(true);
            send(x, y, 1, SendFlags::empty());
            expect_no_event(&y.device);
            y.expect(1);
            send(x, y, 2, SendFlags::SOLICITED);
            expect_completion_event(&y.device, y.cq.cqn());
            y.expect(2);
            // Armed once: the next one is silent.
            send(x, y, 3, SendFlags::SOLICITED);
            expect_no_event(&y.device);
            y.expect(3);
            // Any completion: the stronger wish stays, in whichever order they come.
            y.cq.arm(false);
            y.cq.arm(true);
            send(x, y, round, SendFlags::empty());
            expect_completion_event(&y.device, y.cq.cqn());
            y.expect(round);
            y.cq.arm(true);
            y.cq.arm(false);
            send(x, y, round, SendFlags::empty());
            expect_completion_event(&y.device, y.cq.cqn());
            y.expect(round);
        }
        // WRITE_WITH_IMM can be solicited too; a WRITE completes nothing.
        y.cq.arm(true);
        y.recv(1, &[]);
        let mut wr = x.remote(1, WqeOpcode::WRITE_WITH_IMM, &[], y, 0);
        wr.flags |= SendFlags::SOLICITED;
        x.post(&[wr]);
        x.expect(1);
        expect_completion_event(&y.device, y.cq.cqn());
        y.expect(1);
        // A completion in error counts as solicited.
        y.cq.arm(true);
        y.recv(2, &[]);
        y.to(QpState::ERR);
        expect_completion_event(&y.device, y.cq.cqn());
        y.expect_flushed([2]);
    });
}

#[test]
fn each_queue_has_its_own_events() {
    let net = Net::new(1);
    let a = net.open(0);
    let pairs: Vec<(Side, Side)> =
        (0..8).map(|_| connect(&a, &a, Options { cqes: 8, depth: 4, ..small() })).collect();
    pairs.iter().for_each(|(x, y)| {
        x.cq.arm(false);
        y.cq.arm(false);
    });
    for n in [3usize, 0, 7, 5] {
        let (x, y) = &pairs[n];
        write(x, y, n as u64);
        expect_completion_event(&a, x.cq.cqn());
        x.expect(n as u64);
    }
    expect_no_event(&a);
}

#[test]
fn resizing_keeps_what_waits() {
    on_one_and_two_cards(Options { cqes: 16, depth: 200, ..small() }, |x, y| {
        let mut posted = 0u64;
        let mut polled = 0u64;
        for (round, size) in [64u32, 16, 17, 1024, 32, 512, 16, 256].into_iter().cycle().take(48).enumerate()
        {
            for _ in 0..round % 7 {
                write(x, y, posted);
                posted += 1;
            }
            x.cq.resize(size).expect("resized");
            assert!(x.cq.entries() >= size);
            for _ in 0..round % 3 {
                if polled < posted {
                    x.expect(polled);
                    polled += 1;
                }
            }
            // Room for what waits, but not for less.
            while posted - polled > 7 {
                x.expect(polled);
                polled += 1;
            }
        }
        (0..20).for_each(|_| {
            x.cq.resize(64).expect("resized");
            write(x, y, posted);
            posted += 1;
        });
        assert!(x.cq.resize(8).is_err(), "more waits than that");
        (polled..posted).for_each(|n| {
            x.expect(n);
        });
        x.quiet();
        x.cq.resize(8).expect("nothing waits");
        assert!(x.cq.resize(0).is_err());
        assert!(x.cq.resize(x.device.limits().max_cqe() + 1).is_err());
        // It stays armed.
        x.cq.arm(false);
        x.cq.resize(32).expect("resized");
        write(x, y, 7);
        expect_completion_event(&x.device, x.cq.cqn());
        x.expect(7);
    });
}

#[test]
fn a_full_queue_is_no_overrun_and_one_more_is() {
    on_one_and_two_cards(Options { cqes: 16, depth: 64, ..small() }, |x, y| {
        let room = u64::from(x.cq.entries());
        // Full, again and again.
        for _ in 0..5 {
            (0..room).for_each(|n| write(x, y, n));
            (0..room).for_each(|n| {
                x.expect(n);
            });
        }
        expect_no_event(&x.device);
        assert_eq!(x.state(), QpState::RTS);
        (0..room).for_each(|n| write(x, y, n));
        expect_no_event(&x.device);
        write(x, y, 99);
        let mut events = [
            event_within(&x.device, Duration::from_secs(1)),
            event_within(&x.device, Duration::from_secs(1)),
        ];
        events.sort_by_key(|event| format!("{event:?}"));
        let error = |kind, object| Some(Event::Async { kind, object });
        assert_eq!(events, [error(EventKind::CQ_ERR, x.cq.cqn()), error(EventKind::QP_FATAL, x.qp.qpn())]);
        expect_no_event(&x.device);
        assert_eq!(x.state(), QpState::ERR);
        // What was in the queue is still there; nothing comes behind it.
        (0..room).for_each(|n| {
            x.expect(n);
        });
        write(x, y, 100);
        x.quiet_for(Duration::from_millis(3));
    });
}

#[test]
fn receives_overrun_a_queue_too() {
    on_one_and_two_cards(Options { timeout: 8, retry_cnt: 1, ..small() }, |x, y| {
        y.cq.resize(8).expect("resized");
        (0..20).for_each(|n| y.recv(n, &[]));
        let wrs: Vec<_> = (0..12).map(|n| x.wr(n, WqeOpcode::SEND, &[])).collect();
        x.post(&wrs);
        let mut events = [
            event_within(&y.device, Duration::from_secs(1)),
            event_within(&y.device, Duration::from_secs(1)),
        ];
        events.sort_by_key(|event| format!("{event:?}"));
        let error = |kind, object| Some(Event::Async { kind, object });
        assert_eq!(events, [error(EventKind::CQ_ERR, y.cq.cqn()), error(EventKind::QP_FATAL, y.qp.qpn())]);
        (0..8).for_each(|n| {
            y.expect(n);
        });
        y.quiet();
        // The sender finds nobody any more: what was not acknowledged fails, and none succeeds after that.
        let ends: Vec<_> = (0..12).map(|_| x.wait()).collect();
        assert!(ends.iter().map(|wc| wc.wr_id).eq(0..12));
        let failed = ends.iter().position(|wc| wc.status != CqeStatus::SUCCESS).expect("one fails");
        assert!((8..12).contains(&failed));
        assert_eq!(ends[failed].status, CqeStatus::RETRY_EXC_ERR);
        assert!(ends[failed + 1..].iter().all(|wc| wc.status == CqeStatus::WR_FLUSH_ERR));
    });
}

#[test]
fn an_overrun_hits_every_qp_of_the_queue() {
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
    let x = Peer::new(&a, Options { cqes: 16, ..small() });
    // Two more QPs complete to x's queue: one its sends, one its receives.
    let sends = Peer::tuned(&a, small(), None, |init| init.send_cq = x.cq.clone());
    let receives = Peer::tuned(&a, small(), None, |init| init.recv_cq = x.cq.clone());
    let other = Peer::new(&a, small());
    let peers: Vec<Side> = [&x, &sends, &receives, &other]
        .into_iter()
        .map(|p| {
            let y = Peer::new(&b, small());
            join(p, &y);
            y
        })
        .collect();
    sends.recv(5, &[]);
    receives.recv(6, &[]);
    (0..17).for_each(|n| write(&x, &peers[0], n));
    let mut fatal = Vec::new();
    while let Some(event) = event_within(&a, Duration::from_millis(50)) {
        match event {
            Event::Async { kind: EventKind::QP_FATAL, object } => fatal.push(object),
            Event::Async { kind: EventKind::CQ_ERR, object } => assert_eq!(object, x.cq.cqn()),
            event => panic!("{event:?}"),
        }
    }
    fatal.sort_unstable();
    let mut all = [x.qp.qpn(), sends.qp.qpn(), receives.qp.qpn()];
    all.sort_unstable();
    assert_eq!(fatal, all);
    assert_eq!(other.state(), QpState::RTS);
    write(&other, &peers[3], 1);
    other.expect(1);
    // The receives of the QP whose sends are lost are flushed to their own queue.
    assert_eq!(sends.state(), QpState::ERR);
    sends.expect_flushed([5]);
}

#[test]
fn nothing_works_with_a_queue_that_was_overrun() {
    on_one_and_two_cards(Options { cqes: 8, depth: 64, qp_type: QpType::UC, ..small() }, |x, y| {
        let room = u64::from(x.cq.entries());
        (0..room).for_each(|n| write(x, y, n));
        // The one completion too many is that of an error.
        let wrong = [Sge { lkey: x.mr.lkey() ^ 1, ..x.sge(0, 8) }];
        x.post(&[x.wr(99, WqeOpcode::SEND, &wrong)]);
        assert_eq!(x.state(), QpState::ERR, "and not SQE");
        (0..room).for_each(|n| {
            x.expect(n);
        });
        // Its completions would be lost.
        x.to(QpState::RESET);
        let attr = QpAttr { state: QpState::INIT, port: 1, ..Default::default() };
        let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        assert!(x.qp.modify(&attr, mask).is_err());
        let init = QpInit {
            qp_type: QpType::UC,
            send_cq: x.device.create_cq(8, 0).expect("a CQ"),
            recv_cq: x.cq.clone(),
            srq: None,
            caps: *x.qp.caps(),
            sq_sig_all: false,
        };
        assert!(x.pd.create_qp(&init).is_err());
    });
}

#[test]
fn queues_that_overrun_each_other_all_tell() {
    let net = Net::new(1);
    let device = net.open(0);
    // Each completes its sends to one queue and its receives to the next, which are full but for one.
    const CHAIN: usize = 60;
    let peers: Vec<Side> = (0..CHAIN).map(|_| Peer::new(&device, Options { cqes: 4, ..small() })).collect();
    let more = u64::from(peers[0].cq.entries()) + 1;
    let qps: Vec<_> = (0..CHAIN - 1)
        .map(|n| {
            Peer::tuned(&device, Options { depth: 64, ..small() }, None, |init| {
                init.send_cq = peers[n].cq.clone();
                init.recv_cq = peers[n + 1].cq.clone();
            })
        })
        .collect();
    for qp in &qps {
        qp.init();
        (0..more).for_each(|n| qp.recv(n, &[]));
    }
    // The first queue is overrun by a queue pair of its own.
    let y = Peer::new(&device, small());
    join(&peers[0], &y);
    (0..more).for_each(|n| write(&peers[0], &y, n));
    let mut overrun = std::collections::BTreeSet::new();
    while let Some(event) = event_within(&device, Duration::from_millis(50)) {
        if let Event::Async { kind: EventKind::CQ_ERR, object } = event {
            assert!(overrun.insert(object), "once each");
        }
    }
    let all: std::collections::BTreeSet<_> = peers.iter().map(|p| p.cq.cqn()).collect();
    assert_eq!(overrun, all);
    assert!(qps.iter().all(|qp| qp.state() == QpState::ERR));
}

#[test]
fn completions_of_a_destroyed_qp_do_not_come_back() {
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
    let x = Peer::new(&a, small());
    let y = Peer::new(&b, small());
    join(&x, &y);
    for round in 0..40u64 {
        // Another QP at the same queue, its completions between those of the first.
        let p = Peer::tuned(&a, Options { depth: 64, ..small() }, None, |init| {
            init.send_cq = x.cq.clone();
            init.recv_cq = x.cq.clone();
        });
        let q = Peer::new(&b, small());
        join(&p, &q);
        for n in 0..4 {
            write(&p, &q, 1000 + n);
            write(&x, &y, round * 4 + n);
        }
        p.recv(2000, &[]);
        p.to(QpState::ERR);
        p.qp.destroy().expect("destroyed");
        (0..4).for_each(|n| {
            x.expect(round * 4 + n);
        });
        x.quiet();
    }
}

#[test]
fn sends_and_receives_in_two_queues() {
    let net = Net::new(2);
    let (a, b) = (net.open(0), net.open(1));
    let receives = a.create_cq(32, 0).expect("a CQ");
    let x = Peer::tuned(&a, small(), None, |init| init.recv_cq = receives.clone());
    let y = Peer::new(&b, small());
    join(&x, &y);
    x.recv(1, &[]);
    x.recv(2, &[]);
    y.post(&[y.wr(9, WqeOpcode::SEND, &[])]);
    y.expect(9);
    write(&x, &y, 5);
    x.expect(5);
    x.quiet();
    let mut found = Vec::new();
    x.to(QpState::ERR);
    receives.poll(8, |wc| found.push((wc.wr_id, wc.status))).expect("polled");
    assert_eq!(found, [(1, CqeStatus::SUCCESS), (2, CqeStatus::WR_FLUSH_ERR)]);
    x.quiet();
    assert!(receives.destroy().is_err(), "the QP uses it");
    x.qp.destroy().expect("destroyed");
    receives.destroy().expect("destroyed");
    assert!(receives.poll(1, |_| ()).is_err());
}
