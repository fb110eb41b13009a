//! A panic while the cards are run.
#![allow(unsafe_code)]

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use fpga_regs::{QpState, QpType};

use super::card::WallCard;
use super::runner::Runner;
use crate::attach::card::Joined;
use crate::attach::PrivateNet;
use crate::env::Env;
use crate::eventually::eventually;
use crate::journal;
use crate::segment::{AttachError, ALL};
use driver::Interrupts;

/// Becomes a member of the net whose keeper listens at `socket`.
pub(super) fn join(socket: &Path) -> Result<Arc<Runner>, AttachError> {
    Joined::new(socket).map(|joined| match joined {
        Joined::Wall(runner) => runner,
        Joined::Virtual(_) => unreachable!("no clock was asked for"),
    })
}

/// Runs `work` with two members of a net of `cards` cards.
pub(super) fn with_net(cards: u8, work: impl FnOnce(Arc<Runner>, Arc<Runner>)) {
    let directory = tempfile::tempdir().unwrap();
    let (net, member) = PrivateNet::start(&directory.path().join("net/sock"), cards, join).unwrap();
    work(member, join(net.socket()).unwrap());
}

#[test]
fn cards_that_a_panic_left_half_changed_are_repaired_first() {
    with_net(2, half_changed);
}

fn half_changed(a: Arc<Runner>, b: Arc<Runner>) {
    let generation = a.segment().control(ALL).generation.load(Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        a.control(|world, env| {
            let qp = &mut world.cards[0].qps[7];
            (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), 7, QpType::UD, QpState::RTS);
            a.segment().control(ALL).write_journal(journal::one(0, 7));
            env.send_later(0, 7);
            panic!("injected by the test");
        })
    }));
    assert!(panicked.is_err());
    // The next lock holder is told, and earlier findings no longer count.
    let guard = b.segment().lock(Duration::from_secs(5)).unwrap();
    assert!(guard.recovered());
    assert!(b.segment().control(ALL).generation.load(Ordering::Relaxed) > generation);
    drop(guard);
    let state = b.control(|world, _| world.cards[0].qps[7].state).unwrap();
    assert_eq!(state, QpState::ERR, "what was under work goes to error");
    assert_eq!(b.segment().journal().load(Ordering::Relaxed), 0);
    assert!(!b.segment().lock(Duration::from_secs(5)).unwrap().recovered());
    // The process that panicked does not continue with what it had queued.
    let left = a.control(|_, env| env.has_work()).unwrap();
    assert!(!left, "work of the run that panicked");
    b.control(|world, _| world.cards[0].qps[7].used = false.into()).unwrap();
}

/// Who gives receives runs the queue pairs whose frames wait for them, those of others, too.
#[test]
fn a_raw_packet_queue_pair_outlives_who_ran_it() {
    with_net(1, |a, b| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            a.control(|world, env| {
                let card = &mut world.cards[0];
                let qp = &mut card.qps[7];
                (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), 7, QpType::RAW_PACKET, QpState::RTS);
                card.take_qp(7);
                card.frame_waits(7, u64::MAX, env);
                // Of a frame that has left, half is noted.
                card.qps[7].req.cur = 1;
                a.segment().control(ALL).write_journal(journal::anothers(0, 7));
                panic!("injected by the test");
            })
        }));
        assert!(panicked.is_err());
        b.control(|world, _| {
            let card = &mut world.cards[0];
            let qp = &card.qps[7];
            assert_eq!(qp.state, QpState::RTS);
            assert_eq!((qp.req.cur, qp.req.psn, qp.req.rnr_wait.get()), (0, qp.req.una, false));
            assert_eq!(card.next_deadline(), None);
            card.qps[7].used = false.into();
        })
        .unwrap();
    });
}

/// Another thread has all the cards for longer than a doorbell tries.
#[test]
fn what_could_not_be_run_is_run_later() {
    with_net(2, |a, b| {
        let guard = b.segment().lock(Duration::from_secs(5)).unwrap();
        assert!(!a.run_qp(0, 7) && a.has_pending());
        a.run_pending();
        assert!(a.has_pending(), "the cards are not to be had");
        std::thread::scope(|scope| {
            scope.spawn(|| a.run_pending_within(Duration::from_secs(5)));
            std::thread::sleep(Duration::from_millis(20));
            drop(guard);
        });
        assert!(!a.has_pending());
    });
}

/// A thread runs the queue pairs at both ends of its connections, and dies with one of the other end's left to do.
#[test]
fn what_a_dead_process_had_to_run_is_run() {
    with_net(1, |a, b| {
        a.control(|world, env| {
            let function = world.cards[0].attach(a.segment().member()).unwrap();
            env.bells(0).reset_qp(7, Some(function));
            let qp = &mut world.cards[0].qps[7];
            (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), 7, QpType::RC, QpState::RTS);
            qp.function = function;
            world.cards[0].pds[0].users = 1;
            world.cards[0].cqs[0].users = 2;
            world.cards[0].take_qp(7);
        })
        .unwrap();
        a.bells(0, 7).sq.store(1, Ordering::Release);
        drop(b);
        // There is no request where the queue's ring should be.
        let state = || a.control(|world, _| world.cards[0].qps[7].state).unwrap();
        assert!(eventually(|| state() == QpState::ERR), "nobody runs it");
    });
}

#[test]
fn who_waits_for_an_interrupt_is_told_that_the_cards_are_lost() {
    let directory = tempfile::tempdir().unwrap();
    let open = |socket: &Path| match Joined::new(socket)? {
        Joined::Wall(runner) => WallCard::open(runner, 0, false),
        Joined::Virtual(_) => unreachable!("no clock was asked for"),
    };
    let (_net, card) = PrivateNet::start(&directory.path().join("net/sock"), 1, open).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| loop {
            match card.wait_interrupt(0, Duration::from_secs(60)) {
                Ok(interrupted) => assert!(interrupted, "nobody said a word"),
                Err(error) => return error.to_string(),
            }
        });
        // Let it sleep.
        std::thread::sleep(Duration::from_millis(50));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let guard = card.runner.segment().lock(Duration::from_secs(5)).unwrap();
            guard.recovery_begins();
            panic!("injected by the test");
        }));
        assert!(panicked.is_err());
        assert!(waits.join().unwrap().contains("beyond repair"));
    });
}
