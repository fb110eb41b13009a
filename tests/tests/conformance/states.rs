//! The states of a queue pair: the drained send queue (SQD), the send queue in error (SQE), and the
//! attributes that each step needs (`ibv_modify_qp(3)`, IB spec 10.3.1).

use std::time::Duration;

use driver::{AttrMask, QpAttr};
use fpga_regs::{Access, CqeStatus, EventKind, QpState, QpType, WqeOpcode};
use tests::{expect_async, expect_no_event, on_one_and_two_cards, wait_for, Cards, Net, Options, Peer};

use super::rc_operations::small;

#[test]
fn an_idle_queue_is_drained_at_once_and_goes_on_in_rts() {
    let cards = Cards::new();
    for qp_type in [QpType::RC, QpType::UC] {
        cards.each(Options { qp_type, ..small() }, |x, y| {
            let sge = [x.sge(0, 2000)];
            x.completes(x.remote(1, WqeOpcode::WRITE, &sge, y, 0));
            x.drain();
            expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn());
            assert_eq!(x.state(), QpState::SQD);
            // What is posted in SQD waits; nothing of it is seen by the peer.
            x.buffer.pattern(3);
            x.post(&[
                x.remote(2, WqeOpcode::WRITE, &sge, y, 10_000),
                x.remote(3, WqeOpcode::WRITE, &sge, y, 20_000),
            ]);
            x.quiet_for(Duration::from_millis(5));
            assert!(y.buffer[10_000..12_000].iter().all(|&b| b == 0));
            // The receive side works meanwhile.
            x.recv(10, &[x.sge(100_000, 100)]);
            y.completes(y.wr(4, WqeOpcode::SEND, &[y.sge(0, 100)]));
            x.expect(10);
            x.to(QpState::RTS);
            x.expect(2);
            x.expect(3);
            // Of UC the completion says only that it was sent.
            let arrived = || y.buffer[20_000..22_000] == x.buffer[..2000];
            wait_for("the data do not arrive", || qp_type == QpType::RC || arrived());
            assert!(arrived());
            expect_no_event(&x.device);
        });
    }
}

#[test]
fn the_event_is_for_those_who_ask_for_it() {
    on_one_and_two_cards(small(), |x, _| {
        x.to(QpState::SQD);
        expect_no_event(&x.device);
        x.to(QpState::RTS);
        x.drain();
        expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn());
        x.to(QpState::RTS);
        expect_no_event(&x.device);
    });
}

#[test]
fn requests_under_way_are_finished_before_the_queue_is_drained() {
    on_one_and_two_cards(small(), |x, y| {
        x.buffer.pattern(1);
        let sge = [x.sge(0, 5000)];
        // The first waits for a receive; both were sent.
        let write = x.remote(2, WqeOpcode::WRITE, &sge, y, 50_000);
        x.post_begun(&[x.wr(1, WqeOpcode::SEND, &sge), write], 10);
        x.drain();
        expect_no_event(&x.device);
        assert!(x.qp.query().expect("a query").sq_draining, "the QP says that it drains");
        x.post(&[x.remote(3, WqeOpcode::WRITE, &sge, y, 100_000)]);
        y.recv(10, &[y.sge(0, 5000)]);
        x.expect(1);
        x.expect(2);
        expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn());
        assert!(!x.qp.query().expect("a query").sq_draining);
        x.quiet_for(Duration::from_millis(3));
        assert!(y.buffer[..5000] == x.buffer[..5000] && y.buffer[50_000..55_000] == x.buffer[..5000]);
        assert!(y.buffer[100_000..105_000].iter().all(|&b| b == 0), "what was posted in SQD waits");
        y.expect(10);
        x.to(QpState::RTS);
        x.expect(3);
        assert!(y.buffer[100_000..105_000] == x.buffer[..5000]);
    });
}

#[test]
fn the_wish_for_the_drained_event_is_the_value_and_outlives_other_changes() {
    on_one_and_two_cards(small(), |x, y| {
        let sge = [x.sge(0, 8)];
        for wish in [false, true] {
            // Waits for a receive.
            x.post_begun(&[x.wr(1, WqeOpcode::SEND, &sge)], 1);
            let attr = QpAttr { state: QpState::SQD, en_sqd_async_notify: wish, ..Default::default() };
            x.qp.modify(&attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY).expect("SQD");
            let attr = QpAttr { state: QpState::SQD, retry_cnt: 6, ..Default::default() };
            x.qp.modify(&attr, AttrMask::STATE | AttrMask::RETRY_CNT).expect("another retry count");
            y.recv(10, &[y.sge(0, 64)]);
            x.expect(1);
            y.expect(10);
            match wish {
                true => expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn()),
                false => expect_no_event(&x.device),
            }
            x.to(QpState::RTS);
        }
    });
}

#[test]
fn a_time_out_in_sqd_resends_what_was_sent() {
    on_one_and_two_cards(Options { timeout: 17, retry_cnt: 7, ..small() }, |x, y| {
        y.to(QpState::RESET);
        y.init();
        x.buffer.pattern(1);
        let sges: Vec<_> = (0..6).map(|n| [x.sge(n * 1000, 3000)]).collect();
        let wrs: Vec<_> =
            (0..6).map(|n| x.remote(n as u64, WqeOpcode::WRITE, &sges[n], y, n * 10_000)).collect();
        let before = x.counter("ACK_TIMEOUTS");
        x.post_begun(&wrs, 18);
        x.drain();
        wait_for("no time-out", || x.counter("ACK_TIMEOUTS") > before);
        expect_no_event(&x.device);
        y.rtr(x.qp.qpn(), x.gid(), x.options.psn);
        for n in 0..6 {
            x.expect(n as u64);
            assert!(y.buffer[n * 10_000..][..3000] == x.buffer[n * 1000..][..3000]);
        }
        expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn());
        x.to(QpState::RTS);
        x.post(&wrs[..1]);
        x.expect(0);
    });
}

#[test]
fn attributes_may_change_in_sqd() {
    on_one_and_two_cards(small(), |x, y| {
        x.drain();
        expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn());
        let attr = QpAttr {
            state: QpState::SQD,
            rnr_retry: 0,
            timeout: 12,
            retry_cnt: 1,
            access: Access::REMOTE_READ,
            ..Default::default()
        };
        let mask = AttrMask::STATE
            | AttrMask::RNR_RETRY
            | AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::ACCESS_FLAGS;
        x.qp.modify(&attr, mask).expect("SQD to SQD");
        let now = x.qp.query().expect("a query");
        assert_eq!(
            (now.state, now.rnr_retry, now.timeout, now.retry_cnt, now.access),
            (QpState::SQD, 0, 12, 1, Access::REMOTE_READ)
        );
        x.to(QpState::RTS);
        // The new values count: no second try, and no right to write.
        x.post(&[x.wr(1, WqeOpcode::SEND, &[])]);
        x.expect_status(1, CqeStatus::RNR_RETRY_EXC_ERR);
        let _ = y;
    });
    on_one_and_two_cards(small(), |x, y| {
        y.set_access(Access::REMOTE_READ);
        x.post(&[
            x.remote(1, WqeOpcode::READ, &[x.sge(0, 8)], y, 0),
            x.remote(2, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0),
        ]);
        x.expect(1);
        x.expect_status(2, CqeStatus::REM_INV_REQ_ERR);
    });
}

#[test]
fn a_send_error_of_an_unreliable_qp_stops_its_send_queue_only() {
    let cards = Cards::new();
    cards.each(Options { qp_type: QpType::UC, ..small() }, |x, y| {
        x.buffer.pattern(1);
        let good = [x.sge(0, 3000)];
        let mut bad = [x.sge(0, 100)];
        bad[0].lkey ^= 1;
        x.recv(10, &[x.sge(100_000, 3000)]);
        x.recv(11, &[x.sge(110_000, 3000)]);
        y.recv(20, &[y.sge(0, 3000)]);
        x.post(&[
            x.wr(1, WqeOpcode::SEND, &good),
            x.wr(2, WqeOpcode::SEND, &bad),
            x.wr(3, WqeOpcode::SEND, &good),
        ]);
        x.expect(1);
        x.expect_status(2, CqeStatus::LOC_PROT_ERR);
        x.expect_flushed([3]);
        y.expect(20);
        assert_eq!(x.state(), QpState::SQE);
        // Sends are flushed, receives work.
        x.post(&[x.wr(4, WqeOpcode::SEND, &good)]);
        x.expect_flushed([4]);
        y.completes(y.wr(5, WqeOpcode::SEND, &[y.sge(0, 3000)]));
        x.expect(10);
        x.quiet();
        // Back to work.
        x.to(QpState::RTS);
        y.recv(21, &[y.sge(10_000, 3000)]);
        x.completes(x.wr(6, WqeOpcode::SEND, &good));
        y.expect(21);
        assert!(y.buffer[10_000..13_000] == x.buffer[..3000]);
        x.to(QpState::ERR);
        x.expect_flushed([11]);
    });
}

#[test]
fn each_step_needs_its_attributes() {
    let (_net, device) = Net::one();
    for qp_type in [QpType::RC, QpType::UC, QpType::UD] {
        let x = Peer::new(&device, Options { qp_type, ..small() });
        let modify = |attr: QpAttr, mask: AttrMask| x.qp.modify(&attr, mask);
        let to = |state| QpAttr { state, port: 1, path_mtu: 3, ..Default::default() };
        // No step skips a state, none goes back (but to RESET and ERR).
        for state in [QpState::RTR, QpState::RTS, QpState::SQD, QpState::ERR] {
            assert!(modify(to(state), AttrMask::STATE).is_err(), "{qp_type}: RESET to {state}");
        }
        assert!(
            modify(to(QpState::INIT), AttrMask::STATE | AttrMask::PORT | AttrMask::PKEY_INDEX).is_err(),
            "the access flags or the Q_Key are missing"
        );
        x.init();
        assert!(
            modify(to(QpState::RTS), AttrMask::STATE | AttrMask::SQ_PSN).is_err(),
            "{qp_type}: INIT to RTS"
        );
        if qp_type != QpType::UD {
            assert!(
                modify(to(QpState::RTR), AttrMask::STATE | AttrMask::RQ_PSN).is_err(),
                "the way to the peer is missing"
            );
        }
        x.rtr(x.qp.qpn(), x.gid(), 5);
        assert!(
            modify(to(QpState::INIT), AttrMask::STATE | AttrMask::PORT).is_err(),
            "{qp_type}: RTR to INIT"
        );
        x.rts();
        let attr = x.qp.query().expect("a query");
        assert_eq!((attr.state, attr.sq_psn), (QpState::RTS, x.options.psn));
        let wrong = QpAttr { cur_state: QpState::SQD, ..to(QpState::RTS) };
        assert!(modify(wrong, AttrMask::STATE | AttrMask::CUR_STATE).is_err(), "the QP is not in SQD");
        assert!(
            modify(to(QpState::RTS), AttrMask::STATE | AttrMask::DEST_QPN).is_err(),
            "DEST_QPN is not for RTS"
        );
        for state in [QpState::ERR, QpState::RESET] {
            x.to(state);
            assert_eq!(x.state(), state);
        }
        // From ERR only RESET leads out.
        x.init();
        x.to(QpState::ERR);
        assert!(modify(to(QpState::RTS), AttrMask::STATE).is_err());
    }
}

#[test]
fn values_beyond_the_limits_are_refused() {
    let (_net, device) = Net::one();
    let x = Peer::new(&device, small());
    let init = |change: fn(&mut QpAttr)| {
        let mut attr = QpAttr { state: QpState::INIT, port: 1, ..Default::default() };
        change(&mut attr);
        x.qp.modify(&attr, AttrMask::STATE | AttrMask::PORT | AttrMask::PKEY_INDEX | AttrMask::ACCESS_FLAGS)
    };
    assert!(init(|a| a.port = 0).is_err());
    assert!(init(|a| a.port = 3).is_err());
    assert!(init(|a| a.pkey_index = 1).is_err());
    assert_eq!(x.state(), QpState::RESET, "a refused change changes nothing");
    assert!(init(|_| ()).is_ok());
    let rtr = |change: fn(&mut QpAttr)| {
        let mut attr = QpAttr {
            state: QpState::RTR,
            path_mtu: 3,
            dest_qpn: 77,
            max_dest_rd_atomic: 1,
            ah: x.av(x.gid()),
            ..Default::default()
        };
        change(&mut attr);
        let mask =
            AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
        x.qp.modify(&attr, mask | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER)
    };
    let wrong: [fn(&mut QpAttr); 8] = [
        |a| a.path_mtu = 0,
        |a| a.path_mtu = 6,
        |a| a.dest_qpn = 1 << 24,
        |a| a.rq_psn = 1 << 24,
        |a| a.max_dest_rd_atomic = 17,
        |a| a.min_rnr_timer = 32,
        |a| a.ah.sgid_index = 16,
        |a| a.ah.dgid = [0xfe; 16],
    ];
    for (n, change) in wrong.into_iter().enumerate() {
        assert!(rtr(change).is_err(), "wrong value {n}");
    }
    let empty = rtr(|a| a.ah.sgid_index = 15).expect_err("there is no such GID");
    assert_eq!(empty.errno(), libc::ENODATA);
    assert!(rtr(|_| ()).is_ok());
    let rts = |change: fn(&mut QpAttr)| {
        let mut attr = QpAttr { state: QpState::RTS, ..Default::default() };
        change(&mut attr);
        let mask = AttrMask::STATE
            | AttrMask::SQ_PSN
            | AttrMask::TIMEOUT
            | AttrMask::RETRY_CNT
            | AttrMask::RNR_RETRY;
        x.qp.modify(&attr, mask | AttrMask::MAX_QP_RD_ATOMIC)
    };
    let wrong: [fn(&mut QpAttr); 5] = [
        |a| a.timeout = 32,
        |a| a.retry_cnt = 8,
        |a| a.rnr_retry = 8,
        |a| a.max_rd_atomic = 17,
        |a| a.sq_psn = 1 << 24,
    ];
    for (n, change) in wrong.into_iter().enumerate() {
        assert!(rts(change).is_err(), "wrong value {n}");
    }
    assert!(rts(|_| ()).is_ok());
}
