//! Seeds of the C library's random numbers: where a program takes its process number and the time,
//! the process number would make every run another one. With the time being virtual, the common
//! ways to mix the two can be recognised, and get 1 for the number. All other seeds stay.
#![allow(unsafe_code)]

use std::ffi::{c_long, c_uint};

use crate::next::replace;
use crate::read_clock::{EPOCH_S, US};
use crate::{sys, timeline};

/// How a program mixes its process number and the time into a seed.
const WAYS: [fn(u64, u64) -> u64; 4] = [
    |pid, _| pid,
    |pid, time| pid.wrapping_mul(time),
    |pid, time| pid ^ time,
    |pid, time| pid.wrapping_add(time),
];

/// The seed without the process number `pid`, if `time` is when it was made; both seen through `kept`
/// bits.
fn without_pid(seed: u64, pid: u64, time: u64, kept: u64) -> u64 {
    let way = WAYS.iter().find(|way| (way(pid, time) ^ seed) & kept == 0);
    way.map_or(seed, |way| way(1, time))
}

/// The time may have gone on by a second between its reading and the seed.
fn seed(value: u64, kept: u64) -> u64 {
    let (pid, now) = (sys::getpid() as u64, EPOCH_S + timeline::now() / (1_000_000 * US));
    let first = without_pid(value, pid, now, kept);
    if first != value {
        first
    } else {
        without_pid(value, pid, now - 1, kept)
    }
}

const INT: u64 = 0xffff_ffff;

replace! {
    /// srand48(3), which keeps the lower half of its argument
    fn srand48(value: c_long) {
        next(seed(value as u64, INT) as c_long)
    }

    /// srand(3)
    fn srand(value: c_uint) {
        next(seed(value.into(), INT) as c_uint)
    }

    /// srandom(3)
    fn srandom(value: c_uint) {
        next(seed(value.into(), INT) as c_uint)
    }
}

#[cfg(test)]
mod tests {
    use super::{without_pid, INT};

    #[test]
    fn only_the_process_number_goes() {
        let now = 1_767_225_600;
        assert_eq!(without_pid((4711 * now) & INT, 4711, now, INT), now);
        assert_eq!(without_pid(4711 ^ now, 4711, now, INT), 1 ^ now);
        assert_eq!(without_pid(4711 + now, 4711, now, INT), 1 + now);
        assert_eq!(without_pid(4711, 4711, now, INT), 1);
        for own in [0, 1, 42, now, now * 2] {
            assert_eq!(without_pid(own, 4711, now, INT), own);
        }
    }
}
