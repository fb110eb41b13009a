//! Programs that come while others are there.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::panic_tests::with_members;
use super::BESIDE;

/// It waits for a pause of the others no longer than a program takes to start.
#[test]
fn a_program_begins_beside_one_that_goes_on() {
    with_members(1, |attach| {
        let (busy, new) = (attach(), attach());
        let (began, begun) = (busy.clock(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let at = scope.spawn(|| {
                let at = new.clock();
                begun.store(true, Ordering::Relaxed);
                new.leave();
                at
            });
            while !begun.load(Ordering::Relaxed) {
                busy.sleep_until(busy.clock() + BESIDE / 100);
            }
            let at = at.join().unwrap();
            assert!(at >= began + BESIDE && at % BESIDE == 0, "at {at}");
        });
        busy.leave();
    });
}
