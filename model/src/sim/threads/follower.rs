//! A thread of the provider's own that waits for a card's interrupts, in simulated time.

use std::sync::Arc;

use crate::attach::wall::runner::Runner;
use crate::segment::Segment;

/// The place of such a thread. It is there before the thread is, so that when the machine starts the thread
/// decides nothing.
pub struct Follower {
    runner: Arc<Runner<Segment>>,
    place: u16,
}

impl Follower {
    pub(crate) fn new(runner: &Arc<Runner<Segment>>, card: u8, function: u16) -> Option<Follower> {
        let place = runner.adopt(card, function)?;
        Some(Follower { runner: Arc::clone(runner), place })
    }

    /// For the thread itself: what it does from now on, it does at this place.
    pub fn begin(&self) {
        self.runner.take_place(self.place);
    }

    /// Before the thread's end is waited for: whatever it is about to do, it does not wait for simulated time.
    pub fn dismiss(&self) {
        self.runner.dismiss(self.place);
    }
}
