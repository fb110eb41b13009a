//! The seed of random tests.

use std::time::{SystemTime, UNIX_EPOCH};

/// `VERBENA_SEED`, or another one each time; printed, so that a failure can be had again.
pub fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let seed = std::env::var("VERBENA_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(now);
    println!("VERBENA_SEED={seed}");
    seed
}
