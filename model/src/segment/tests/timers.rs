//! The keeper looks at the timers when it is asked to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use super::super::futex::{futex_wait, futex_wake};
use super::super::now_ns;
use super::{eventually, Net};

#[test]
fn a_deadline_is_met_without_being_asked_again() {
    let calls = Arc::new(AtomicU64::new(0));
    let last = Arc::new(AtomicU64::new(0));
    let (count, time) = (calls.clone(), last.clone());
    let net = Net::start_with(move |options| {
        options.on_timer = Box::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            time.store(now_ns(), Ordering::SeqCst);
            u64::MAX
        });
    });
    let a = net.attach();
    assert!(eventually(|| calls.load(Ordering::SeqCst) > 0));
    std::thread::sleep(Duration::from_millis(300));
    let mut before = 0;
    // A busy machine may stop the keeper.
    let on_time = (0..5).any(|_| {
        before = calls.load(Ordering::SeqCst);
        let deadline = now_ns() + 30_000_000;
        a.arm_deadline(deadline);
        // One that is later does not take its place.
        a.arm_deadline(deadline + 3_600_000_000_000);
        assert!(eventually(|| last.load(Ordering::SeqCst) >= deadline));
        last.load(Ordering::SeqCst) - deadline < 200_000_000
    });
    assert!(on_time, "five times the keeper was more than 200 ms late");
    std::thread::sleep(Duration::from_millis(100));
    let calls_then = calls.load(Ordering::SeqCst) - before;
    assert!(calls_then <= 2, "{calls_then} calls for one deadline");
    a.wake_keeper();
    let before = before + calls_then;
    assert!(eventually(|| calls.load(Ordering::SeqCst) > before));
}

#[test]
fn futex_words_wake_across_mappings() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let sleeper = std::thread::spawn(move || {
        // SAFETY: inside the world; only used as an atomic.
        #[allow(unsafe_code)]
        let word = unsafe { &*a.world_ptr().cast::<std::sync::atomic::AtomicU32>() };
        while word.load(Ordering::Acquire) == 0 {
            assert!(futex_wait(word, 0, Some(Duration::from_secs(10))));
        }
        assert!(!futex_wait(word, 1, Some(Duration::from_millis(5))));
    });
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: as above.
    #[allow(unsafe_code)]
    let word = unsafe { &*b.world_ptr().cast::<std::sync::atomic::AtomicU32>() };
    word.store(1, Ordering::Release);
    futex_wake(word, 1);
    sleeper.join().unwrap();
}

#[test]
fn looks_run_no_timers() {
    let (timers, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (run, looked) = (timers.clone(), looks.clone());
    let net = Net::start_with(move |options| {
        options.on_timer = Box::new(move |_| {
            run.fetch_add(1, Ordering::SeqCst);
            u64::MAX
        });
        options.on_look = Some(Box::new(move |_| {
            looked.fetch_add(1, Ordering::SeqCst);
            now_ns() + 2_000_000
        }));
    });
    let _a = net.attach();
    assert!(eventually(|| looks.load(Ordering::SeqCst) >= 30));
    let timers = timers.load(Ordering::SeqCst);
    assert!(timers <= 10, "the timers were run {timers} times");
}
