//! A thread of the provider's own that waits for a card's interrupts, in simulated time.

use std::sync::Arc;

use super::Threads;

/// The place of such a thread. It exists before the thread, so that nothing depends on when the machine starts it.
pub struct Follower {
    threads: Arc<Threads>,
    place: u16,
}

impl Follower {
    pub(crate) fn new(threads: &Arc<Threads>, card: u16, function: u16) -> Option<Follower> {
        let place = threads.adopt(card, function)?;
        Some(Follower { threads: Arc::clone(threads), place })
    }

    /// For the thread itself: from now on it acts at this place.
    pub fn begin(&self) {
        self.threads.take_place(self.place);
    }

    /// Waits for the thread's end by `ends`: whatever it is about to do, it does not wait for simulated time.
    pub fn dismiss(&self, ends: impl FnOnce()) {
        self.threads.dismiss(self.place);
        self.threads.held_up(ends);
    }
}
