//! Tests of the robust lock.

use super::*;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

const LONG: Duration = Duration::from_secs(60);

fn lock() -> RobustLock {
    RobustLock(AtomicU32::new(0))
}

/// What is pending for the calling thread: nothing, when no lock of it is held.
fn pending() -> *mut u8 {
    Me::of_thread().known().1.pending.load(Ordering::Relaxed)
}

#[test]
fn it_excludes_others_until_it_is_given_back() {
    let lock = lock();
    let Taken::Free(held) = lock.try_take() else { panic!("taken") };
    assert!(!pending().is_null());
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(lock.try_take(), Taken::Busy));
            let begin = Instant::now();
            let refused = lock.take(Duration::from_millis(50));
            assert!(matches!(refused, Err(Refused::TimedOut)));
            assert!(begin.elapsed() >= Duration::from_millis(50));
            assert!(pending().is_null());
        });
    });
    lock.give(&held);
    assert!(pending().is_null());
    assert_eq!(lock.holder(), 0);
    let Ok((held, false)) = lock.take(LONG) else { panic!("given back") };
    lock.give(&held);
}

#[test]
fn a_second_lock_by_its_holder_is_refused() {
    let lock = lock();
    let Ok((held, false)) = lock.take(LONG) else { panic!("taken") };
    assert!(matches!(lock.take(LONG), Err(Refused::Recursive)));
    assert!(matches!(lock.try_take(), Taken::Busy));
    lock.give(&held);
    let Ok((held, false)) = lock.take(LONG) else { panic!("given back") };
    lock.give(&held);
}

#[test]
fn sleepers_are_woken_one_after_the_other() {
    let lock = lock();
    let Taken::Free(held) = lock.try_take() else { panic!("taken") };
    thread::scope(|scope| {
        let sleepers = [(); 3].map(|()| {
            scope.spawn(|| {
                let Ok((held, died)) = lock.take(LONG) else { panic!("in time") };
                thread::sleep(Duration::from_millis(5));
                lock.give(&held);
                died
            })
        });
        while lock.0.load(Ordering::Relaxed) & WAITERS == 0 {
            thread::yield_now();
        }
        lock.give(&held);
        for sleeper in sleepers {
            assert!(!sleeper.join().unwrap());
        }
    });
    assert_eq!(lock.0.load(Ordering::Relaxed), 0);
}

#[test]
fn the_lock_of_a_thread_that_ends_is_taken_from_it() {
    let lock = lock();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Never given back.
            let Taken::Free(_) = lock.try_take() else { panic!("taken") };
            tell.send(()).unwrap();
            while lock.0.load(Ordering::Relaxed) & WAITERS == 0 {
                thread::yield_now();
            }
        });
        told.recv().unwrap();
        // Asleep when the kernel finds the lock.
        let Ok((held, died)) = lock.take(LONG) else { panic!("in time") };
        assert!(died);
        lock.give(&held);
    });
    let Taken::Free(held) = lock.try_take() else { panic!("nobody died since") };
    lock.give(&held);
}

#[test]
fn an_abandoned_lock_is_taken_as_from_the_dead() {
    let lock = lock();
    let Taken::Free(held) = lock.try_take() else { panic!("taken") };
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let Ok((held, died)) = lock.take(LONG) else { panic!("in time") };
            lock.give(&held);
            died
        });
        while lock.0.load(Ordering::Relaxed) & WAITERS == 0 {
            thread::yield_now();
        }
        lock.abandon(&held);
        assert!(pending().is_null());
        assert!(sleeper.join().unwrap());
    });
    let Taken::Free(held) = lock.try_take() else { panic!("told once") };
    lock.give(&held);
}

#[test]
fn a_condemned_lock_is_refused_at_once_and_to_those_who_wait() {
    let lock = lock();
    let Taken::Free(held) = lock.try_take() else { panic!("taken") };
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| matches!(lock.take(LONG), Err(Refused::Condemned)));
        while lock.0.load(Ordering::Relaxed) & WAITERS == 0 {
            thread::yield_now();
        }
        lock.condemn(&held);
        assert!(sleeper.join().unwrap());
    });
    assert!(matches!(lock.try_take(), Taken::Busy));
    assert!(matches!(lock.take(LONG), Err(Refused::Condemned)));
    assert!(lock.is_condemned() && pending().is_null());
}

/// One that was woken, and is killed before it has the lock: another thread takes it, and knows of no sleeper.
#[test]
fn a_sleeper_whom_nobody_wakes_finds_the_lock_free() {
    let lock = RobustLock(AtomicU32::new(5));
    let begin = Instant::now();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let Ok((held, false)) = lock.take(LONG) else { panic!("in time") };
            lock.give(&held);
        });
        while lock.0.load(Ordering::Relaxed) & WAITERS == 0 {
            thread::yield_now();
        }
        lock.0.store(6, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
        lock.0.store(0, Ordering::Relaxed);
        sleeper.join().unwrap();
    });
    assert!(begin.elapsed() < LONG / 2);
}

#[test]
fn a_holder_that_is_not_there_is_taken_for_dead() {
    let lock = RobustLock(AtomicU32::new(0x3ff0_0000));
    assert!(matches!(lock.try_take(), Taken::Busy));
    lock.holder_is_gone(7);
    assert!(matches!(lock.try_take(), Taken::Busy), "somebody else has it");
    lock.holder_is_gone(0x3ff0_0000);
    let Taken::FromDead(held) = lock.try_take() else { panic!("given up") };
    lock.give(&held);
}

#[test]
fn two_locks_are_given_back_in_turn() {
    let (a, b) = (lock(), lock());
    let Taken::Free(outer) = a.try_take() else { panic!("taken") };
    let pending_outer = pending();
    let Taken::Free(inner) = b.try_take() else { panic!("taken") };
    assert_ne!(pending(), pending_outer);
    b.give(&inner);
    assert_eq!(pending(), pending_outer);
    a.give(&outer);
    assert!(pending().is_null());
}
