//! What threads in the way of each other do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fpga_regs::{QpState, QpType};

use super::super::panic_tests::with_net;
use crate::segment::Entry;

const QPS: [u16; 2] = [7, 8];
/// Longer than the islands take to be of long ago.
const LATER: Duration = Duration::from_millis(2100);
const PATIENCE: Duration = Duration::from_secs(30);

/// A datagram once joined two queue pairs that have sent each other nothing since. A thread is in their island most of the time.
#[test]
fn what_waits_for_no_reason_is_found_anew() {
    with_net(1, |a, b| {
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
        let label = |q: usize| a.bells(0, QPS[q]).label();
        let joined = label(0);
        assert!(joined == label(1) && a.segment().is_valid(joined));
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
            for _ in 0..100 {
                a.run_qp(0, QPS[0]);
            }
            let fresh = a.segment().is_valid(joined);
            std::thread::sleep(LATER);
            let until = Instant::now() + PATIENCE;
            while a.segment().is_valid(joined) && Instant::now() < until {
                a.run_qp(0, QPS[0]);
            }
            done.store(true, Ordering::Relaxed);
            assert!(fresh, "not before its time");
        });
        assert!(!a.segment().is_valid(joined), "they are one island still");
        a.control(|world, _| QPS.map(|q| world.cards[0].qps[usize::from(q)].used = false.into())).unwrap();
    });
}
