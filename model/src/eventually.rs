//! How tests wait.

use std::time::{Duration, Instant};

/// True once `condition` is, false if a minute goes by.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(60) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
