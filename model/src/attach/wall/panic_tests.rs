//! A panic while the cards are run.
#![allow(unsafe_code)]

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fpga_regs::{QpState, QpType};

use super::runner::{note, Runner};
use crate::attach::{run_keeper, NetOptions, SegmentCard};
use crate::env::{Env, Work};
use crate::journal;
use crate::profile::Profile;
use crate::segment::{now_ns, Segment};
use driver::Interrupts;

/// Runs `work` with two members of a net.
pub(super) fn with_net(options: impl Into<NetOptions>, work: impl FnOnce(Runner<Segment>, Runner<Segment>)) {
    with_members(options, |attach| work(attach(), attach()));
}

/// The same, with what makes members.
fn with_members(options: impl Into<NetOptions>, work: impl FnOnce(&dyn Fn() -> Runner<Segment>)) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net/sock");
    let (at, options) = (socket.clone(), options.into());
    let keeper = std::thread::spawn(move || run_keeper(&at, options).unwrap());
    work(&|| Runner::new(opened(|| Segment::attach(&socket))));
    keeper.join().unwrap();
}

#[test]
fn cards_that_a_panic_left_half_changed_are_repaired_first() {
    with_net(2, half_changed);
}

fn half_changed(a: Runner<Segment>, b: Runner<Segment>) {
    let generation = a.segment().generation();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        a.control(|world, env| {
            let qp = &mut world.cards[0].qps[7];
            (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), 7, QpType::UD, QpState::RTS);
            note(a.segment(), journal::one(0, 7));
            env.push(Work::Send { card: 0, qp: 7 });
            panic!("injected by the test");
        })
    }));
    assert!(panicked.is_err());
    // Whoever takes the lock is told, and nothing that was found out before counts.
    let guard = b.segment().lock(Duration::from_secs(5)).unwrap();
    assert!(guard.recovered());
    assert!(b.segment().generation() > generation);
    drop(guard);
    let state = b.control(|world, _| world.cards[0].qps[7].state).unwrap();
    assert_eq!(state, QpState::ERR, "what was under work goes to error");
    assert_eq!(b.segment().journal().load(Ordering::Relaxed), 0);
    assert!(!b.segment().lock(Duration::from_secs(5)).unwrap().recovered());
    // The process that panicked does not go on with what it had queued then.
    let left = a.control(|_, env| env.has_work()).unwrap();
    assert!(!left, "work of the run that panicked");
    b.control(|world, _| world.cards[0].qps[7].used = false.into()).unwrap();
}

#[test]
fn a_panic_in_simulated_time_leaves_nothing_of_its_step() {
    let clock = Some(Profile::load("f10a").unwrap().profile);
    with_net(NetOptions { clock, ..NetOptions::from(2) }, |a, b| {
        let guard = a.locked().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            a.engine(&guard, |engine| {
                engine.env.stash(8);
                engine.env.push(Work::Send { card: 0, qp: 7 });
                engine.env.send();
                panic!("injected by the test");
            })
        }));
        assert!(panicked.is_err());
        guard.doubt();
        drop(guard);
        // Somebody else starts anew, with all places free.
        drop(b.locked().unwrap());
        let guard = a.locked().unwrap();
        a.engine(&guard, |engine| {
            let step = &engine.env.step;
            assert!(step.stashes.is_empty() && step.wanted.is_empty() && step.sent.is_empty());
        });
    });
}

#[test]
fn others_come_while_the_simulation_is_held_up() {
    let clock = Some(Profile::load("f10a").unwrap().profile);
    with_members(NetOptions { clock, ..NetOptions::from(1) }, |attach| {
        let a = attach();
        let guard = a.locked().unwrap();
        // The keeper has something to do now, and finds the lock taken.
        a.segment().arm_deadline(now_ns());
        std::thread::sleep(Duration::from_millis(20));
        let before = Instant::now();
        drop(attach());
        assert!(before.elapsed() < Duration::from_secs(3), "the keeper waited for who holds the lock");
        drop(guard);
    });
}

#[test]
fn who_waits_for_an_interrupt_is_told_that_the_cards_are_lost() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net/sock");
    let at = socket.clone();
    let keeper = std::thread::spawn(move || run_keeper(&at, 1).unwrap());
    let card = opened(|| SegmentCard::open_alone(&socket, 0));
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
    drop(card);
    keeper.join().unwrap();
}

/// What `open` gives once there is a keeper.
fn opened<T, E: std::fmt::Display>(open: impl Fn() -> Result<T, E>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match open() {
            Ok(opened) => return opened,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
