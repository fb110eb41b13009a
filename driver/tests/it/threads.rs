//! Several threads on one QP and one CQ.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use driver::{PostError, QpCaps};
use fpga_regs::{AdminOpcode, QpType};

use crate::doorbells::write;
use crate::setup::{connect, create, Setup, CAPS};

/// Posts `count` requests named from `first` on, in chains of up to three, as far as the queue lets it.
fn produce(qp: &driver::Qp<crate::fake::Fake>, first: u64, count: u64) {
    let mut id = first;
    while id < first + count {
        let mut post = qp.send();
        for _ in 0..3 {
            if id == first + count {
                break;
            }
            match post.push(&write(id)) {
                Ok(()) => id += 1,
                Err(PostError::QueueFull) => break,
                Err(error) => panic!("{error}"),
            }
        }
        post.ring();
    }
}

#[test]
fn shared_and_separate_queues() {
    const EACH: u64 = 3000;
    let caps = QpCaps { max_send_wr: 7, ..CAPS };
    let setup = Setup::immediate(caps);
    let second = create(&setup.pd, &setup.cq, QpType::RC, caps, None);
    connect(&second);
    let seen = Mutex::new(HashSet::new());
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        // Two threads share one QP, a third has its own; all complete into one CQ.
        scope.spawn(|| produce(&setup.qp, 0, EACH));
        scope.spawn(|| produce(&setup.qp, 10_000, EACH));
        scope.spawn(|| produce(&second, 20_000, EACH));
        for _ in 0..2 {
            scope.spawn(|| {
                while found.load(Ordering::Relaxed) < 3 * EACH {
                    let mut ids = Vec::new();
                    setup.cq.poll(4, |wc| ids.push(wc.wr_id)).unwrap();
                    if ids.is_empty() {
                        std::thread::yield_now();
                    }
                    found.fetch_add(ids.len() as u64, Ordering::Relaxed);
                    let mut seen = seen.lock().unwrap();
                    for id in ids {
                        assert!(seen.insert(id), "{id} completed twice");
                    }
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    for first in [0, 10_000, 20_000] {
        assert!((first..first + EACH).all(|id| seen.contains(&id)));
    }
}

#[test]
fn a_place_is_taken_again_before_the_driver_has_forgotten_who_had_it() {
    let setup = Setup::immediate(CAPS);
    let first = create(&setup.pd, &setup.cq, QpType::RC, CAPS, None);
    produce(&setup.qp, 0, 1);
    let executed = |opcode| {
        let start = Instant::now();
        while setup.card().commands().last().unwrap().opcode() != opcode {
            assert!(start.elapsed() < Duration::from_secs(10), "no {opcode}");
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        // Who polls holds the lock that forgetting needs.
        let polled = setup.cq.poll(1, |_| {
            scope.spawn(|| first.destroy().unwrap());
            executed(AdminOpcode::DESTROY_QP);
            scope.spawn(|| create(&setup.pd, &setup.cq, QpType::RC, CAPS, None));
            executed(AdminOpcode::CREATE_QP);
            // Time to find the place taken.
            std::thread::sleep(Duration::from_millis(20));
        });
        assert_eq!(polled.unwrap(), 1);
    });
}
