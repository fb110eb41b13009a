//! Shared receive queues: sharing, the limit event, completion out of order, a full queue.

use std::sync::Arc;

use driver::{PostError, SendWr, Sge, Srq, SrqAttr, SrqAttrMask};
use fpga_regs::{CqeStatus, EventKind, QpState, QpType, WqeOpcode};
use tests::{expect_async, expect_no_event, join, Net, Options, Peer, Side, TestCard};

fn small() -> Options {
    Options { depth: 32, bytes: 1 << 17, timeout: 14, cqes: 512, ..Default::default() }
}

/// Posts a receive to an SRQ.
pub(super) fn post(srq: &Srq<TestCard>, wr_id: u64, sges: &[Sge]) {
    let mut post = srq.post();
    post.push(wr_id, sges).expect("room");
    post.ring();
}

/// An SRQ on card 1, and `n` connections from card 0 into it.
fn shared(net: &Net, n: usize, attr: SrqAttr, options: Options) -> (Arc<Srq<TestCard>>, Vec<(Side, Side)>) {
    let (a, b) = (net.open(0), net.open(1));
    let srq = b.alloc_pd().expect("a PD").create_srq(&attr).expect("an SRQ");
    let pairs = (0..n)
        .map(|_| {
            let (x, y) = (Peer::new(&a, options), Peer::with_srq(&b, options, Some(srq.clone())));
            join(&x, &y);
            (x, y)
        })
        .collect();
    (srq, pairs)
}

#[test]
fn several_qps_take_from_one_queue_in_the_order_of_posting() {
    let net = Net::new(2);
    for qp_type in [QpType::RC, QpType::UC] {
        let (srq, pairs) =
            shared(&net, 5, SrqAttr { max_wr: 16, max_sge: 3, limit: 0 }, Options { qp_type, ..small() });
        // The receives use memory of the first peer: its domain is that of the SRQ.
        let memory = &pairs[0].1;
        let mut next = 0;
        for round in 0..40usize {
            let batch = round % 16 + 1;
            for i in 0..batch {
                let at = i * 4096;
                post(
                    &srq,
                    next + i as u64,
                    &[memory.sge(at, 5), memory.sge(at + 100, 1000), memory.sge(at + 2000, 1000)],
                );
            }
            for i in 0..batch {
                let (x, y) = &pairs[(round * 7 + i * 3) % pairs.len()];
                let bytes: Vec<u8> = (0..60).map(|b| (b + i + round) as u8).collect();
                x.completes(SendWr { data: driver::Data::Bytes(&bytes), ..x.wr(1, WqeOpcode::SEND, &[]) });
                let wc = y.expect(next + i as u64);
                assert_eq!((wc.byte_len, wc.qpn), (60, y.qp.qpn()));
                assert!(
                    memory.buffer[i * 4096..][..5] == bytes[..5]
                        && memory.buffer[i * 4096 + 100..][..55] == bytes[5..]
                );
            }
            next += batch as u64;
        }
    }
}

#[test]
fn receives_complete_out_of_order_and_their_places_are_used_again() {
    let net = Net::new(2);
    let (srq, pairs) = shared(&net, 3, SrqAttr { max_wr: 6, max_sge: 1, limit: 0 }, small());
    let memory = &pairs[0].1;
    (0..6).for_each(|n| post(&srq, n, &[memory.sge(n as usize * 1000, 1000)]));
    assert_eq!(srq.post().push(6, &[]), Err(PostError::QueueFull));
    // Two receives for each QP; the completions are polled in another order than they were taken.
    for _ in 0..2 {
        for (x, _) in &pairs {
            x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(0, 10)]));
        }
    }
    assert_eq!(srq.post().push(6, &[]), Err(PostError::QueueFull), "taken, but not polled");
    for round in 0..200usize {
        let k = (round * 5 + 2) % 3;
        let (x, y) = &pairs[k];
        y.wait();
        post(&srq, 6 + round as u64, &[memory.sge(0, 1000)]);
        assert_eq!(srq.post().push(99, &[]), Err(PostError::QueueFull));
        x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(0, 10)]));
    }
}

#[test]
fn an_empty_queue_is_receiver_not_ready() {
    let net = Net::new(2);
    let (srq, pairs) =
        shared(&net, 2, SrqAttr { max_wr: 4, max_sge: 1, limit: 0 }, Options { rnr_retry: 7, ..small() });
    let memory = &pairs[0].1;
    for (n, (x, _)) in pairs.iter().enumerate() {
        x.post(&[x.wr(n as u64, WqeOpcode::SEND, &[x.sge(0, 3000)])]);
    }
    pairs[0].0.quiet_for(std::time::Duration::from_millis(4));
    pairs[1].0.quiet();
    post(&srq, 1, &[memory.sge(0, 3000)]);
    post(&srq, 2, &[memory.sge(4000, 3000)]);
    for (n, (x, y)) in pairs.iter().enumerate() {
        x.expect(n as u64);
        assert_eq!(y.wait().byte_len, 3000);
    }
}

#[test]
fn the_limit_event_comes_once_and_can_be_armed_again() {
    let net = Net::new(2);
    let (srq, pairs) = shared(&net, 1, SrqAttr { max_wr: 16, max_sge: 1, limit: 0 }, small());
    let (x, y) = &pairs[0];
    let take = |n: usize| {
        for _ in 0..n {
            x.completes(x.wr(1, WqeOpcode::SEND, &[]));
            y.wait();
        }
    };
    let arm = |limit| srq.modify(&SrqAttr { limit, ..Default::default() }, SrqAttrMask::LIMIT);
    (0..16).for_each(|n| post(&srq, n, &[]));
    take(8);
    expect_no_event(&y.device);
    for round in 0..3 {
        arm(5).expect("armed");
        assert_eq!(srq.query().expect("a query").limit, 5);
        take(3);
        // Five are left: that is not fewer than five.
        expect_no_event(&y.device);
        take(1);
        expect_async(&y.device, EventKind::SRQ_LIMIT, srq.srqn());
        assert_eq!(srq.query().expect("a query").limit, 0, "disarmed");
        take(2);
        expect_no_event(&y.device);
        (0..6).for_each(|n| post(&srq, 100 * round + n, &[]));
    }
    // Armed with fewer than the limit in the queue: at once.
    arm(9).expect("armed");
    expect_async(&y.device, EventKind::SRQ_LIMIT, srq.srqn());
    expect_no_event(&y.device);
    // Disarmed by hand.
    arm(4).expect("armed");
    arm(0).expect("disarmed");
    take(8);
    expect_no_event(&y.device);
    assert!(arm(17).is_err(), "more than the queue has");
    assert!(srq.modify(&SrqAttr { max_wr: 32, ..Default::default() }, SrqAttrMask::MAX_WR).is_err());
}

#[test]
fn a_qp_in_error_leaves_the_queue_to_the_others() {
    let net = Net::new(2);
    let (srq, pairs) = shared(&net, 2, SrqAttr { max_wr: 8, max_sge: 1, limit: 0 }, small());
    let memory = &pairs[0].1;
    (0..4).for_each(|n| post(&srq, n, &[memory.sge(0, 100)]));
    // The first QP gets a message that is too long: one receive fails, no other is flushed.
    let (x, y) = &pairs[0];
    x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, 101)])]);
    x.expect_status(1, CqeStatus::REM_INV_REQ_ERR);
    y.expect_status(0, CqeStatus::LOC_LEN_ERR);
    y.quiet();
    let mut kinds = [0; 2];
    // The first must come, and then nothing for a while.
    let patience = |come: u32| std::time::Duration::from_millis(if come == 0 { 30_000 } else { 10 });
    while let Some(event) = tests::event_within(&y.device, patience(kinds[0])) {
        match event {
            driver::Event::Async { kind: EventKind::QP_LAST_WQE, object } if object == y.qp.qpn() => {
                kinds[0] += 1
            }
            driver::Event::Async { kind: EventKind::QP_REQ_ERR, object } if object == y.qp.qpn() => {
                kinds[1] += 1
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kinds[0], 1, "the last receive is reported once");
    let (x, y) = &pairs[1];
    for n in 1..4 {
        x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(0, 100)]));
        y.expect(n);
    }
    assert_eq!(y.state(), QpState::RTS);
    // Destroyed with completions not polled: their places are free again.
    (0..8).for_each(|n| post(&srq, n, &[]));
    for _ in 0..8 {
        x.completes(x.wr(1, WqeOpcode::SEND, &[]));
    }
    assert_eq!(srq.post().push(9, &[]), Err(PostError::QueueFull));
    y.qp.destroy().expect("destroyed");
    (0..8).for_each(|n| post(&srq, n, &[]));
    assert_eq!(srq.post().push(9, &[]), Err(PostError::QueueFull));
}

#[test]
fn a_chain_that_is_taken_back_leaves_nothing() {
    let net = Net::new(2);
    let (srq, pairs) = shared(&net, 1, SrqAttr { max_wr: 4, max_sge: 1, limit: 0 }, small());
    let (x, y) = &pairs[0];
    for round in 0..20 {
        let mut chain = srq.post();
        (0..4).for_each(|n| chain.push(n, &[]).expect("room"));
        assert_eq!(chain.push(4, &[]), Err(PostError::QueueFull));
        drop(chain);
        post(&srq, 50 + round, &[]);
        x.completes(x.wr(1, WqeOpcode::SEND, &[]));
        y.expect(50 + round);
    }
    assert!(matches!(srq.post().push(1, &[y.sge(0, 1), y.sge(0, 1)]), Err(PostError::Invalid(_))));
}
