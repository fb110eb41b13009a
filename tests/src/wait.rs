//! Waiting for what others do.

use std::time::{Duration, Instant};

/// More than anything takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks, at least.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// What to say where something is not so: a text, or a closure that makes it at the end.
pub trait Instead {
    /// The text.
    fn text(self) -> String;
}

impl Instead for &str {
    fn text(self) -> String {
        self.to_owned()
    }
}

impl<F: FnOnce() -> String> Instead for F {
    fn text(self) -> String {
        self()
    }
}

/// Waits until something is so; it says what is, instead, if a minute goes by.
#[track_caller]
pub fn wait_for(instead: impl Instead, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        let looked = Instant::now();
        if is() {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{}", instead.text());
        // A look that starts a program takes a core that what is waited for needs.
        std::thread::sleep(PAUSE.max(2 * looked.elapsed()));
    }
}
