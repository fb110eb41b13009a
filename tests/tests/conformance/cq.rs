//! Completion queues: events, solicited ones, resizing, completions of QPs that are gone.

use driver::{CqOptions, SendFlags};
use fpga_regs::{CqeStatus, QpState, WqeOpcode};
use std::time::{Duration, Instant};
use tests::{
    connect, expect_completion_event, expect_no_event, join, on_one_and_two_cards, Net, Options, Peer, Side,
};

pub(super) fn small() -> Options {
    Options { depth: 64, bytes: 1 << 17, timeout: 14, cqes: 128, ..Default::default() }
}

pub(super) fn write(x: &Side, y: &Side, id: u64) {
    x.post(&[x.remote(id, WqeOpcode::WRITE, &[x.sge(0, 8)], y, 0)]);
}

fn send(x: &Side, y: &Side, id: u64, flags: SendFlags) {
    y.recv(id, &[]);
    let mut wr = x.wr(id, WqeOpcode::SEND, &[]);
    wr.flags |= flags;
    x.completes(wr);
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
            expect_completion_event(&x.device, x.cq.cqn());
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
        x.completes(wr);
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
    let (_net, a) = Net::one();
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
fn completions_of_a_destroyed_qp_do_not_come_back() {
    let (_net, a, b) = Net::new(2).both();
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
    let (_net, a, b) = Net::new(2).both();
    let receives = a.create_cq(32, 0).expect("a CQ");
    let x = Peer::tuned(&a, small(), None, |init| init.recv_cq = receives.clone());
    let y = Peer::new(&b, small());
    join(&x, &y);
    x.recv(1, &[]);
    x.recv(2, &[]);
    y.completes(y.wr(9, WqeOpcode::SEND, &[]));
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

/// A queue that was created for it has the card's time in each completion, also after a resize; others have not.
#[test]
fn completions_have_the_time_where_it_is_asked_for() {
    on_one_and_two_cards(small(), |x, y| {
        let stamped = x
            .device
            .create_cq_with(16, 0, CqOptions { stamped: true, ..CqOptions::default() })
            .expect("a CQ");
        let own = Peer::tuned(&x.device, small(), None, |init| init.send_cq = stamped.clone());
        let peer = Peer::new(&y.device, small());
        join(&own, &peer);
        let mut last = x.device.time();
        for round in 0..10 {
            if round == 5 {
                stamped.resize(32).expect("a larger ring");
            }
            write(&own, &peer, round);
            let mut stamp = None;
            let until = Instant::now() + Duration::from_secs(20);
            while stamp.is_none() && Instant::now() < until {
                stamped.poll(1, |wc| stamp = Some((wc.wr_id, wc.timestamp))).expect("a poll");
            }
            let now = x.device.time();
            let (id, stamp) = stamp.expect("a completion");
            assert!(id == round && (last..=now).contains(&stamp), "{stamp} is not in {last}..={now}");
            last = stamp;
        }
        write(x, y, 1);
        assert_eq!(x.expect(1).timestamp, 0);
    });
}
