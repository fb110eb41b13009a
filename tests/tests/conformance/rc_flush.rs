//! Queue pairs in error: what was posted and what is posted later is flushed, in order; what the
//! device says about it.

use std::time::Duration;

use driver::{Data, SendFlags, SrqAttr};
use fpga_regs::{CqeStatus, EventKind, QpState, QpType, WqeOpcode};
use tests::{expect_async, expect_no_event, join, on_one_and_two_cards, Cards, Net, Options, Peer};

use super::srq::post;

fn small() -> Options {
    Options { depth: 32, bytes: 1 << 16, cqes: 128, inline: 256, sges: 16, ..Default::default() }
}

#[test]
fn both_queues_are_flushed_in_order_signaled_or_not() {
    for qp_type in [QpType::RC, QpType::UC] {
        on_one_and_two_cards(Options { qp_type, timeout: 0, ..small() }, |x, y| {
            // A silent peer, so that RC requests stay; UC requests would be done at once.
            y.to(QpState::RESET);
            (0..20).for_each(|n| x.recv(100 + n, &[x.sge(0, 10)]));
            let many = [x.sge(0, 3); 16];
            let bytes = [7u8; 200];
            let mut inline = x.remote(2, WqeOpcode::WRITE, &[], y, 0);
            inline.data = Data::Bytes(&bytes);
            let mut silent = x.remote(3, WqeOpcode::WRITE, &many, y, 0);
            silent.flags = SendFlags::empty();
            // WQEs of one to five blocks.
            let chain = [
                x.remote(1, WqeOpcode::WRITE, &many[..1], y, 0),
                inline,
                silent,
                x.wr(4, WqeOpcode::SEND, &many[..7]),
            ];
            if qp_type == QpType::RC {
                x.post(&chain);
                x.quiet_for(Duration::from_millis(2));
            }
            x.to(QpState::ERR);
            let sends = if qp_type == QpType::RC { 4 } else { 0 };
            let all: Vec<_> = (0..sends + 20).map(|_| x.wait()).collect();
            x.quiet();
            assert!(all.iter().all(|wc| wc.status == CqeStatus::WR_FLUSH_ERR && wc.qpn == x.qp.qpn()));
            let (receives, sends): (Vec<_>, Vec<_>) =
                all.iter().map(|wc| wc.wr_id).partition(|&id| id >= 100);
            assert_eq!(receives, (100..120).collect::<Vec<u64>>());
            assert_eq!(sends, (1..5).take(sends.len()).collect::<Vec<u64>>());
            // What is posted to a QP in error is flushed too.
            x.post(&[x.remote(1, WqeOpcode::READ, &many[..1], y, 0)].map(|wr| {
                if qp_type == QpType::RC {
                    wr
                } else {
                    x.wr(1, WqeOpcode::SEND, &[])
                }
            }));
            x.expect_flushed([1]);
            x.recv(200, &[x.sge(0, 10)]);
            x.expect_flushed([200]);
            x.post(&[silent, inline]);
            x.expect_flushed([3, 2]);
            for round in 0..100 {
                x.recv(round, &[]);
                x.post(&[x.wr(1000 + round, WqeOpcode::SEND, &many)]);
                let mut ids = [x.wait(), x.wait()].map(|wc| (wc.wr_id, wc.status));
                ids.sort_unstable_by_key(|id| id.0);
                let flushed = CqeStatus::WR_FLUSH_ERR;
                assert_eq!(ids, [(round, flushed), (1000 + round, flushed)]);
            }
            expect_no_event(&x.device);
        });
    }
}

#[test]
fn receives_are_flushed_from_init_and_rtr_too() {
    let (_net, device) = Net::one();
    for qp_type in [QpType::RC, QpType::UC, QpType::UD] {
        for rtr in [false, true] {
            let x = Peer::new(&device, Options { qp_type, ..small() });
            x.init();
            x.recv(1, &[x.sge(0, 100)]);
            if rtr {
                x.rtr(x.qp.qpn(), x.gid(), 0);
            }
            x.recv(2, &[x.sge(0, 100)]);
            x.quiet();
            x.to(QpState::ERR);
            x.expect_flushed([1, 2]);
            x.recv(3, &[]);
            x.expect_flushed([3]);
            assert_eq!(x.state(), QpState::ERR);
        }
    }
}

#[test]
fn reset_forgets_what_was_posted_and_what_completed() {
    on_one_and_two_cards(small(), |x, y| {
        for _ in 0..5 {
            (0..10).for_each(|n| x.recv(n, &[x.sge(0, 10)]));
            (0..5).for_each(|n| x.post(&[x.remote(50 + n, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0)]));
            x.expect(50);
            x.to(QpState::RESET);
            y.to(QpState::RESET);
            x.quiet();
            join(x, y);
            // The first receive of the new life is the first that is used.
            x.recv(99, &[x.sge(0, 10)]);
            y.completes(y.wr(1, WqeOpcode::SEND, &[y.sge(0, 7)]));
            assert_eq!(x.expect(99).byte_len, 7);
            x.to(QpState::ERR);
            x.quiet();
            x.to(QpState::RESET);
            y.to(QpState::RESET);
            join(x, y);
        }
    });
}

#[test]
fn the_first_packet_in_rtr_is_reported() {
    let cards = Cards::new();
    for qp_type in [QpType::RC, QpType::UC] {
        cards.each(Options { qp_type, ..small() }, |x, y| {
            // Both were in RTS already: no event.
            x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0));
            expect_no_event(&y.device);
            x.to(QpState::RESET);
            y.to(QpState::RESET);
            x.init();
            y.init();
            x.rtr(y.qp.qpn(), y.gid(), y.options.psn);
            y.rtr(x.qp.qpn(), x.gid(), x.options.psn);
            x.rts();
            for n in 0..3 {
                x.completes(x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0));
            }
            expect_async(&y.device, EventKind::COMM_EST, y.qp.qpn());
            expect_no_event(&y.device);
            y.rts();
            y.completes(y.remote(5, WqeOpcode::WRITE, &[y.sge(0, 8)], x, 0));
            expect_no_event(&x.device);
        });
    }
}

#[test]
fn a_qp_with_an_srq_reports_its_last_receive() {
    let (_net, device) = Net::one();
    for qp_type in [QpType::RC, QpType::UC, QpType::UD] {
        let pd = device.alloc_pd().expect("a PD");
        let srq = pd.create_srq(&SrqAttr { max_wr: 8, max_sge: 1, limit: 0 }).expect("an SRQ");
        let x = Peer::with_srq(&device, Options { qp_type, ..small() }, Some(srq.clone()));
        let y = Peer::with_srq(&device, Options { qp_type, ..small() }, Some(srq.clone()));
        join(&x, &y);
        post(&srq, 1, &[]);
        x.to(QpState::ERR);
        expect_async(&device, EventKind::QP_LAST_WQE, x.qp.qpn());
        expect_no_event(&device);
        // The shared receive stays for the other QP.
        x.quiet();
        assert_eq!(y.state(), QpState::RTS);
        x.post(&[x.wr(9, WqeOpcode::NOP, &[])]);
        x.expect_flushed([9]);
        expect_no_event(&device);
    }
}

#[test]
fn no_sends_before_rts_and_no_receives_before_init() {
    let (_net, device) = Net::one();
    let x = Peer::new(&device, small());
    let send = |x: &Peer<_>| {
        let mut post = x.qp.send();
        let result = post.push(&x.wr(1, WqeOpcode::SEND, &[]));
        drop(post);
        result
    };
    let recv = |x: &Peer<_>| {
        let mut post = x.qp.recv();
        let result = post.push(1, &[]);
        drop(post);
        result
    };
    assert!(send(&x).is_err() && recv(&x).is_err(), "RESET");
    x.init();
    assert!(send(&x).is_err() && recv(&x).is_ok(), "INIT");
    x.rtr(x.qp.qpn(), x.gid(), x.options.psn);
    assert!(send(&x).is_err() && recv(&x).is_ok(), "RTR");
    x.rts();
    assert!(send(&x).is_ok() && recv(&x).is_ok(), "RTS");
}
