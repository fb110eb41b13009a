//! What threads in the way of each other do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::Hints;
use fpga_regs::{QpState, QpType};

use super::super::card::WallCard;
use super::super::panic_tests::with_net;
use super::Runner;
use crate::segment::{Entry, Label};

const QPS: [u16; 2] = [7, 8];
/// Longer than the islands take to be of long ago, and well before that.
const LATER: Duration = Duration::from_millis(2100);
const EARLY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(30);

/// With two queue pairs that a datagram once joined, which send each other nothing, and the moment before.
fn with_joined(work: impl FnOnce(&Arc<Runner>, &Arc<Runner>, Label, Instant)) {
    with_net(2, |a, b| {
        let begin = Instant::now();
        a.control(|world, _| world.void_islands()).unwrap();
        a.control(|world, env| {
            for q in QPS.map(usize::from) {
                world.cards[0].take_qp(q);
                let qp = &mut world.cards[0].qps[q];
                (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), q as u32, QpType::UD, QpState::RTS);
            }
            env.join(world, QPS.map(|q| Some((0, q.into()))));
        })
        .unwrap();
        let [joined, other] = QPS.map(|q| a.bells(0, q).label());
        assert!(joined == other && a.segment().is_valid(joined));
        work(&a, &b, joined, begin);
        a.control(|world, _| QPS.map(|q| world.cards[0].qps[usize::from(q)].used = false.into())).unwrap();
    });
}

/// A thread is in the island most of the time.
#[test]
fn what_waits_for_no_reason_is_found_anew() {
    with_joined(|a, b, joined, begin| {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Entry::Entered(_within) = b.segment().enter(joined) {
                        std::thread::sleep(Duration::from_micros(20));
                    }
                    std::thread::yield_now();
                }
            });
            // They may hang together yet.
            while begin.elapsed() < EARLY {
                a.run_qp(0, QPS[0]);
            }
            let fresh = a.segment().is_valid(joined) || begin.elapsed() > LATER;
            std::thread::sleep(LATER);
            let until = Instant::now() + PATIENCE;
            while a.segment().is_valid(joined) && Instant::now() < until {
                a.run_qp(0, QPS[0]);
            }
            done.store(true, Ordering::Relaxed);
            assert!(fresh, "not before its time");
        });
        assert!(!a.segment().is_valid(joined), "they are one island still");
    });
}

/// It would close the gate to all islands each time.
#[test]
fn a_thread_stopped_in_its_island_is_not_waited_for_each_time() {
    with_joined(|a, b, joined, _| {
        std::thread::sleep(LATER);
        let Entry::Entered(within) = b.segment().enter(joined) else { panic!("nobody is in it") };
        let before = Instant::now();
        assert!(!a.run_qp(0, QPS[0]), "it is in the way");
        assert!(!a.segment().islands_are_old() || before.elapsed() > LATER, "it was tried just now");
        assert!(a.segment().is_valid(joined));
        drop(within);
        a.run_pending();
    });
}

/// Of the threads in the way, each needs a core to leave its island.
#[test]
fn who_polls_in_vain_for_long_waits_for_the_thread_in_the_way() {
    const STAY: Duration = Duration::from_millis(200);
    const MANY: usize = 20_000;
    with_joined(|a, b, joined, _| {
        // The queue pairs have no owner.
        let card = WallCard::open(a.clone(), 1, false).unwrap();
        let Entry::Entered(within) = b.segment().enter(joined) else { panic!("nobody is in it") };
        assert!(!a.run_qp(0, QPS[0]), "it is in the way");
        let polls = std::thread::scope(|scope| {
            let polls =
                scope.spawn(|| (0..).take_while(|&empty| (card.relax(empty), a.has_pending()).1).count());
            std::thread::sleep(STAY);
            drop(within);
            polls.join().unwrap()
        });
        assert!(polls < MANY, "{polls} polls, each for a core that the other thread may need");
    });
}
