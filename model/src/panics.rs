//! Where a panic ends.
//!
//! The cards are in memory that any program of the net can write over, so the code that runs them may panic. Their lock
//! then counts as a dead holder's, and the next holder repairs the cards first. The panic unwinds to the entry from C
//! or the thread's loop, and ends there.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Does `work`. Returns `otherwise` if it panics.
pub fn guarded<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

/// Does the `work` of a `drop`. Clean-up after a panic uses the cards again; a second panic there would abort the
/// program, so it stops here. A first panic passes through.
pub fn tidied<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    if std::thread::panicking() {
        guarded(otherwise, work)
    } else {
        work()
    }
}

/// Locks a mutex, even if a thread panicked while holding it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tidies;

    impl Drop for Tidies {
        fn drop(&mut self) {
            assert_eq!(tidied(0, || panic!("the second, by the test")), 0);
        }
    }

    #[test]
    fn a_second_panic_stops_where_it_is_and_the_first_one_goes_on() {
        let said = catch_unwind(|| {
            let _tidies = Tidies;
            panic!("the first, by the test");
        });
        assert_eq!(said.unwrap_err().downcast_ref::<&str>(), Some(&"the first, by the test"));
        assert!(catch_unwind(|| tidied((), || panic!("alone, by the test"))).is_err());
    }
}
