//! Doorbells of several threads of a process.

use std::sync::atomic::Ordering;
use std::sync::mpsc;

use super::panic_tests::{begun, with_members};
use super::Threads;
use crate::sim::doorbell::DoorbellWrite;
use crate::sim::event::Event;

/// What the receive queue of QP 0 and SRQ 0 of card 0 have been told.
fn producers(threads: &Threads) -> [u32; 2] {
    let bells = &threads.net().bells[0];
    [&bells.qp[0].rq, &bells.srq[0].producer].map(|producer| producer.load(Ordering::Relaxed))
}

fn ring(threads: &Threads, producer: u32) {
    let life = 0;
    threads.bell(DoorbellWrite::plain(
        0,
        Event::RecvBell { card: 0, qp: 0, producer, life },
        threads.profile(),
    ));
    threads.bell(DoorbellWrite::plain(
        0,
        Event::SharedBell { card: 0, srq: 0, producer, life },
        threads.profile(),
    ));
}

/// The clock of the thread that rings last is behind: what it says is the last all the same.
#[test]
fn doorbells_of_a_queue_arrive_in_the_order_of_ringing() {
    with_members(1, |attach| {
        let threads = attach();
        let ahead = threads.profile().pcie.mmio_ps / 2;
        threads.clock();
        let (rings, rung) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let began = threads.clock();
                assert_eq!(threads.spend(ahead), began + ahead);
                ring(&threads, 1);
                rings.send(()).unwrap();
                threads.leave();
            });
            rung.recv().unwrap();
            ring(&threads, 2);
        });
        threads.sleep_until(threads.clock() + 1_000_000_000);
        assert_eq!(producers(&threads), [2, 2]);
        threads.leave();
    });
}

/// A queue is reset while a doorbell is on its way, which another thread rang: it is not for the queue's next life.
#[test]
fn a_doorbell_of_a_former_life_says_nothing() {
    with_members(1, |attach| {
        let threads = attach();
        ring(&threads, 7);
        threads.locked().unwrap().engine(|engine| {
            engine.env.bells[0].reset_qp(0, None);
            engine.env.bells[0].reset_srq(0, None);
        });
        threads.sleep_until(threads.clock() + 1_000_000_000);
        assert_eq!(producers(&threads), [0, 0]);
        threads.leave();
    });
}

/// Nobody rings one again: of two that are on their way, a card is hearing one when the process dies that runs it.
#[test]
fn doorbells_outlive_a_process_that_died_with_the_lock() {
    with_members(1, |attach| {
        let (a, b) = (attach(), attach());
        ring(&a, 7);
        let mut held = b.locked().unwrap();
        assert!(held.engine(begun).is_bell());
        held.doubt();
        drop(held);
        drop(b.locked().unwrap());
        a.sleep_until(a.clock() + 1_000_000_000);
        assert_eq!(producers(&a), [7, 7]);
        a.leave();
    });
}
