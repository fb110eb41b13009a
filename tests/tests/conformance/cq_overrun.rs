//! Completion queues that are overrun.

use driver::{AttrMask, Event, QpAttr, QpInit, Sge};
use fpga_regs::{CqeStatus, EventKind, QpState, QpType, WqeOpcode};
use std::time::Duration;
use tests::{event_within, expect_no_event, join, on_one_and_two_cards, Net, Options, Peer, Side};

use super::cq::{small, write};

/// How long an event that must come may take, and how long none must come after the last.
const PATIENCE: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_millis(50);

/// The next two events are that a queue was overrun, and its queue pair failed, in any order.
fn expect_overrun(side: &Side) {
    let mut events = [event_within(&side.device, PATIENCE), event_within(&side.device, PATIENCE)];
    events.sort_by_key(|event| format!("{event:?}"));
    let error = |kind, object| Some(Event::Async { kind, object });
    assert_eq!(events, [error(EventKind::CQ_ERR, side.cq.cqn()), error(EventKind::QP_FATAL, side.qp.qpn())]);
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
        expect_overrun(x);
        expect_no_event(&x.device);
        assert_eq!(x.state(), QpState::ERR);
        // What was in the queue is still there; nothing comes after it.
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
        expect_overrun(y);
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
    let (_net, a, b) = Net::new(2).both();
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
    while let Some(event) = event_within(&a, if fatal.len() < 3 { PATIENCE } else { SILENCE }) {
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
        let send_cq = x.device.create_cq(8, 0).expect("a CQ");
        let init = QpInit { send_cq, ..QpInit::new(QpType::UC, &x.cq, *x.qp.caps()) };
        assert!(x.pd.create_qp(&init).is_err());
    });
}

#[test]
fn queues_that_overrun_each_other_all_tell() {
    let (_net, device) = Net::one();
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
    while let Some(event) = event_within(&device, if overrun.len() < CHAIN { PATIENCE } else { SILENCE }) {
        if let Event::Async { kind: EventKind::CQ_ERR, object } = event {
            assert!(overrun.insert(object), "once each");
        }
    }
    let all: std::collections::BTreeSet<_> = peers.iter().map(|p| p.cq.cqn()).collect();
    assert_eq!(overrun, all);
    assert!(qps.iter().all(|qp| qp.state() == QpState::ERR));
}
