//! Where a panic ends.
//!
//! The cards lie in memory that any program of the net can write over, so what runs them may panic. The lock of the cards
//! counts as a dead holder's then, and who takes it next repairs them first. The panic goes up to whoever called from C
//! or keeps a loop going, and ends there.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// Does `work`; if that panics it is `otherwise`.
pub fn guarded<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

/// Does `work` of a `drop`. Whoever tidies up behind a panic uses the cards again; a second panic on the way would end
/// the program, so it stops here. A first one goes its way.
pub fn tidied<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    if std::thread::panicking() {
        guarded(otherwise, work)
    } else {
        work()
    }
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
