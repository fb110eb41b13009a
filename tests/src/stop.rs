//! Threads of which one may fail.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the other threads when one fails, so that the failure is seen and not the time-out.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
