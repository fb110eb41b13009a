//! Reliable connections: time-outs and receivers that are not ready. How often, and for how long.

use std::time::{Duration, Instant};

use driver::{AttrMask, QpAttr};
use fpga_regs::{CqeStatus, QpState, WqeOpcode};
use tests::{connect, expect_async, on_one_and_two_cards, Cards, Options, Side};

/// What the machine may add to a time (it has few cores, and tests run side by side).
const SLACK: Duration = Duration::from_millis(1500);

pub(super) fn small() -> Options {
    Options { depth: 16, bytes: 1 << 16, cqes: 128, ..Default::default() }
}

/// `4.096 us * 2^timeout` (IB spec 9.7.6.1.3).
fn timeout(code: u8) -> Duration {
    Duration::from_nanos(4096 << code)
}

/// Sets the time that this receiver asks a sender to wait.
fn set_rnr_timer(y: &Side, code: u8) {
    let attr = QpAttr { state: QpState::RTS, min_rnr_timer: code, ..Default::default() };
    y.qp.modify(&attr, AttrMask::STATE | AttrMask::MIN_RNR_TIMER).expect("the timer");
}

/// Runs it with a connection within one card and with one between two, with up to three of each until it is in time: the
/// machine may stop a test for longer than the slack.
fn in_time(cards: &Cards, options: Options, body: impl Fn(&mut Side, &mut Side) -> bool) {
    cards.each(options, |x, y| {
        let is_in_time = |_| {
            let (mut x, mut y) = connect(&x.device, &y.device, options);
            body(&mut x, &mut y)
        };
        assert!((0..3).any(is_in_time), "three times it gave up too late");
    });
}

/// Whether what was to take at least so long took no more than four times as long, which the specification lets a card take.
fn is_in_time(took: Duration, least: Duration) -> bool {
    assert!(took >= least, "gave up after {took:?}, {least:?} were to be waited");
    let in_time = took <= least * 4 + SLACK;
    if !in_time {
        println!("gave up only after {took:?}");
    }
    in_time
}

/// Three requests to a peer that is silent: the first fails after all tries, the others are flushed. Whether it was in time.
fn exceeds(x: &Side, y: &Side, retry_cnt: u32, code: u8) -> bool {
    let sge = [x.sge(0, 3000)];
    let resent = x.counter("ACK_TIMEOUTS");
    let start = Instant::now();
    x.post(&[
        x.remote(1, WqeOpcode::WRITE, &sge, y, 0),
        x.remote(2, WqeOpcode::READ, &sge, y, 0),
        x.wr(3, WqeOpcode::SEND, &sge),
    ]);
    x.expect_status(1, CqeStatus::RETRY_EXC_ERR);
    let took = start.elapsed();
    x.expect_flushed([2, 3]);
    assert_eq!(x.state(), QpState::ERR);
    assert_eq!(x.counter("ACK_TIMEOUTS") - resent, u64::from(retry_cnt) + 1);
    // The time runs once for the first try and once for each retry.
    is_in_time(took, timeout(code) * (retry_cnt + 1))
}

#[test]
fn a_destroyed_peer_is_retried_as_often_as_the_attributes_say() {
    let cards = Cards::new();
    for (retry_cnt, code) in [(0, 12), (1, 11), (3, 10), (7, 9)] {
        in_time(&cards, Options { retry_cnt, timeout: code, ..small() }, |x, y| {
            y.qp.destroy().expect("destroyed");
            exceeds(x, y, retry_cnt.into(), code)
        });
    }
}

#[test]
fn a_peer_in_reset_init_or_error_is_silent() {
    let cards = Cards::new();
    for state in [QpState::RESET, QpState::INIT, QpState::ERR] {
        in_time(&cards, Options { retry_cnt: 2, timeout: 10, ..small() }, |x, y| {
            match state {
                QpState::INIT => {
                    y.to(QpState::RESET);
                    y.init();
                }
                other => y.to(other),
            }
            exceeds(x, y, 2, 10)
        });
    }
}

#[test]
fn a_peer_that_comes_late_is_reached_by_a_retry() {
    on_one_and_two_cards(Options { retry_cnt: 7, timeout: 17, ..small() }, |x, y| {
        y.to(QpState::RESET);
        y.init();
        x.buffer.pattern(5);
        let sge = [x.sge(0, 5000)];
        x.post(&[
            x.remote(1, WqeOpcode::WRITE, &sge, y, 100),
            x.remote(2, WqeOpcode::WRITE, &sge, y, 10_000),
        ]);
        x.quiet_for(Duration::from_millis(8));
        y.rtr(x.qp.qpn(), x.gid(), x.options.psn);
        x.expect(1);
        x.expect(2);
        assert!(x.buffer[..5000] == y.buffer[100..5100] && x.buffer[..5000] == y.buffer[10_000..15_000]);
        expect_async(&y.device, fpga_regs::EventKind::COMM_EST, y.qp.qpn());
    });
}

#[test]
fn without_a_timeout_a_silent_peer_is_waited_for() {
    on_one_and_two_cards(Options { retry_cnt: 0, timeout: 0, ..small() }, |x, y| {
        y.qp.destroy().expect("destroyed");
        x.post(&[x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0)]);
        x.quiet_for(Duration::from_millis(60));
        assert_eq!(x.state(), QpState::RTS);
        x.to(QpState::ERR);
        x.expect_flushed([1]);
    });
}

#[test]
fn a_receiver_that_is_not_ready_is_asked_as_often_as_rnr_retry_says() {
    let cards = Cards::new();
    for opcode in [WqeOpcode::SEND, WqeOpcode::WRITE_WITH_IMM] {
        for rnr_retry in 0..=6 {
            in_time(&cards, Options { rnr_retry, timeout: 14, ..small() }, |x, y| {
                // 1.28 ms.
                set_rnr_timer(y, 14);
                let naks = y.counter("RNR_NAK");
                let start = Instant::now();
                let sge = [x.sge(0, 3000)];
                let mut wr = x.remote(1, opcode, &sge, y, 0);
                wr.imm = 77;
                x.post(&[wr, x.remote(2, WqeOpcode::WRITE, &sge, y, 0)]);
                x.expect_status(1, CqeStatus::RNR_RETRY_EXC_ERR);
                let took = start.elapsed();
                x.expect_flushed([2]);
                assert_eq!(y.counter("RNR_NAK") - naks, u64::from(rnr_retry) + 1, "tries");
                assert_eq!(y.state(), QpState::RTS, "nothing happened to the receiver");
                assert!(y.poll().is_none());
                is_in_time(took, Duration::from_micros(1280) * rnr_retry.into())
            });
        }
    }
}

#[test]
fn rnr_retry_seven_waits_until_a_receive_is_posted() {
    on_one_and_two_cards(Options { rnr_retry: 7, ..small() }, |x, y| {
        x.buffer.pattern(9);
        let sge = [x.sge(0, 9000)];
        x.post(&[
            x.remote(1, WqeOpcode::WRITE, &sge, y, 30_000),
            x.wr(2, WqeOpcode::SEND, &sge),
            x.wr(3, WqeOpcode::SEND, &sge),
            x.remote(4, WqeOpcode::READ, &[x.sge(40_000, 9000)], y, 30_000),
        ]);
        x.expect(1);
        x.quiet_for(Duration::from_millis(20));
        y.recv(10, &[y.sge(0, 9000)]);
        x.expect(2);
        x.quiet_for(Duration::from_millis(5));
        y.recv(11, &[y.sge(10_000, 9000)]);
        x.expect(3);
        x.expect(4);
        y.expect(10);
        y.expect(11);
        y.quiet();
        for at in [0, 10_000, 30_000] {
            assert!(y.buffer[at..at + 9000] == x.buffer[..9000]);
        }
        assert!(x.buffer[40_000..49_000] == x.buffer[..9000]);
    });
}

#[test]
fn each_message_has_the_full_count_of_rnr_retries() {
    // One retry; the receiver is late for every message, but never twice for the same one.
    on_one_and_two_cards(Options { rnr_retry: 1, timeout: 14, ..small() }, |x, y| {
        // 655.36 ms: a busy machine may take its time with the receive.
        set_rnr_timer(y, 0);
        for n in 0..3 {
            let start = Instant::now();
            x.post(&[x.wr(n, WqeOpcode::SEND, &[x.sge(0, 100)])]);
            y.recv(n, &[y.sge(0, 100)]);
            x.expect(n);
            assert!(start.elapsed() >= Duration::from_millis(650), "the receiver asked for 655.36 ms");
            y.expect(n);
        }
    });
}

#[test]
fn the_error_state_ends_a_wait_for_the_receiver() {
    on_one_and_two_cards(Options { rnr_retry: 7, ..small() }, |x, y| {
        set_rnr_timer(y, 20);
        x.post(&[x.wr(1, WqeOpcode::SEND, &[]), x.wr(2, WqeOpcode::SEND, &[])]);
        x.to(QpState::ERR);
        x.expect_flushed([1, 2]);
        // And nothing is sent when the time is over.
        y.recv(5, &[]);
        y.quiet_for(Duration::from_millis(15));
    });
}

#[test]
fn a_qp_works_again_after_its_retries_were_used_up() {
    in_time(&Cards::new(), Options { retry_cnt: 1, timeout: 9, ..small() }, |x, y| {
        y.to(QpState::RESET);
        let in_time = exceeds(x, y, 1, 9);
        x.to(QpState::RESET);
        tests::join(x, y);
        x.buffer.pattern(2);
        let sge = [x.sge(0, 100)];
        let wrs: Vec<_> = (0..50).map(|n| x.remote(n, WqeOpcode::WRITE, &sge, y, 0)).collect();
        for chain in wrs.chunks(10) {
            x.post(chain);
            chain.iter().for_each(|wr| {
                x.expect(wr.wr_id);
            });
        }
        assert!(x.buffer[..100] == y.buffer[..100]);
        in_time
    });
}

#[test]
fn a_responder_that_is_connected_to_another_queue_pair_is_not_heard() {
    let cards = Cards::new();
    let options = Options { timeout: 1, retry_cnt: 2, ..small() };
    for (opcode, length) in [
        (WqeOpcode::SEND, 8),
        (WqeOpcode::WRITE, 8),
        (WqeOpcode::WRITE, 3000),
        (WqeOpcode::READ, 3000),
        (WqeOpcode::FETCH_ADD, 8),
    ] {
        cards.each(options, |x, y| {
            // Its answers go to a queue pair that is in a connection of its own, or to none.
            for wrong in [x.another_qp().qpn(), x.qp.qpn() ^ 1, x.qp.qpn() ^ 1 << 16] {
                for side in [&mut *x, &mut *y] {
                    while side.poll().is_some() {}
                    side.to(QpState::RESET);
                    side.init();
                }
                x.rtr(y.qp.qpn(), y.gid(), y.options.psn);
                y.rtr(wrong, x.gid(), x.options.psn);
                x.rts();
                y.rts();
                y.recv(5, &[y.sge(0, 64)]);
                let sge = [x.sge(0, length)];
                x.post(&[x.remote(1, opcode, &sge, y, 1024)]);
                x.expect_status(1, CqeStatus::RETRY_EXC_ERR);
                assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::RTS), "{opcode}");
            }
        });
    }
}
