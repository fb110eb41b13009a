//! When a queue pair sends again what has no answer, and how often.

use std::fmt;

use model::congestion::SwitchOptions;
use model::device::timeout_nanoseconds;

/// `timeout` where nothing is lost, 268 ms: as many as all senders of an incast wait for.
const LOSSLESS: u8 = 16;
/// Least `timeout` where packets are lost, 1.05 ms: what small buffers lose is sent again once others have sent theirs.
const LEAST_LOSSY: u8 = 8;
/// Largest `timeout`: it has five bits.
pub const MOST_TIMEOUT: u8 = 31;
/// Largest `retry_cnt`: it has three bits.
pub const MOST: u8 = 7;

/// Of all queue pairs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Times in a row, 0 to 7: `retry_cnt`.
    pub count: u8,
    /// Each is after 4.096 us x 2^timeout without an answer; 1 to 31.
    pub timeout: u8,
}

/// The `timeout` for a way by so many switches, whose ports send so many bits a second. Of a net that loses packets it is no
/// shorter than a packet and its answer wait if all their queues are full: what is only late is not sent again.
pub fn default_timeout(switch: &SwitchOptions, switches: u8, rate: u64) -> u8 {
    if switch.pfc.is_some() {
        return LOSSLESS;
    }
    let queued = 2 * u128::from(switches) * u128::from(switch.buffer);
    let full_ns = queued * 8_000_000_000 / u128::from(rate.max(1));
    (LEAST_LOSSY..MOST_TIMEOUT)
        .find(|&n| u128::from(timeout_nanoseconds(n)) >= full_ns)
        .unwrap_or(MOST_TIMEOUT)
}

impl fmt::Display for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, each after {:.3} us", self.count, timeout_nanoseconds(self.timeout) as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_queues() {
        let timeout = |switch: &str, switches, gbps: u64| {
            default_timeout(&switch.parse().expect("a switch"), switches, gbps * 1_000_000_000)
        };
        // 2 MiB at 25 Gb/s are 0.67 ms, there and back 1.34 ms.
        assert_eq!(timeout("default", 1, 25), 9);
        assert_eq!(timeout("default", 3, 25), 10);
        assert_eq!(timeout("default", 1, 10), 10);
        assert_eq!(timeout("buffer=16MiB", 1, 25), 12);
        assert_eq!((timeout("buffer=64KiB", 1, 25), timeout("pfc", 3, 25)), (LEAST_LOSSY, LOSSLESS));
        assert_eq!(timeout("buffer=4000000GB", 3, 1), MOST_TIMEOUT);
    }

    #[test]
    fn the_wait_is_as_text() {
        assert_eq!(Retries { count: 7, timeout: 9 }.to_string(), "7, each after 2097.152 us");
        assert_eq!(timeout_nanoseconds(1), 8192);
    }
}
