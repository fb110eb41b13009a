//! What is freed only once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Whether an object of the card is freed.
#[derive(Default)]
pub(crate) struct Freed(AtomicBool);

impl Freed {
    /// Frees it; [`Error::Destroyed`] of a `what` that already is. One that cannot be freed yet stays, and is tried again.
    pub fn once(&self, what: &'static str, free: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.0.swap(true, Ordering::AcqRel) {
            return Err(Error::Destroyed(what));
        }
        let done = free();
        self.0.store(done.is_ok(), Ordering::Release);
        done
    }
}
