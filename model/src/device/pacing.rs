//! Packet pacing: a raw packet queue pair with a rate limit sends each frame when those before it have taken their time.
//!
//! A frame that is too early waits in its send queue for the timer of its queue pair, as one that waits for receivers does.
//! A WQE without a frame (NOP or malformed) waits for the rate, too.

use std::ops::RangeInclusive;

use fpga_regs::{AdminStatus, QpContext, Syndrome};

use super::command_error::Refused;
use super::Device;
use crate::env::Env;

/// Rate limits that a queue pair can have (kbit/s).
pub(super) const RATES: RangeInclusive<u32> = 1..=400_000_000;

/// How far a queue pair with a rate limit has sent.
#[derive(Clone, Copy, crate::plain::Plain)]
#[repr(C)]
pub struct Pace {
    /// When what was sent has taken its time at the rate (ns).
    until: u64,
    /// What that leaves of a nanosecond, in parts of the rate.
    rest: u32,
}

impl Pace {
    /// Until when (ns) the next frame waits.
    fn waits(&self, limits: &QpContext) -> u64 {
        let ahead = limits.max_burst().saturating_sub(limits.typical_packet().into());
        self.until.saturating_sub(takes(ahead.into(), limits.rate_limit()).0)
    }

    /// Bytes are sent now (ns); what was not used of the last `late` (ns) is made up for.
    fn sent(&mut self, bytes: usize, rate: u32, now: u64, late: u64) {
        let since = now.saturating_sub(late);
        if self.until < since {
            *self = Pace { until: since, rest: 0 };
        }
        let (time, rest) = takes(bytes as u64, rate);
        let rest = u64::from(self.rest) + rest;
        self.until = self.until.saturating_add(time + rest / u64::from(rate));
        self.rest = (rest % u64::from(rate)) as u32;
    }
}

/// How long bytes take at a rate: nanoseconds, and the rest in parts of the rate.
fn takes(bytes: u64, rate: u32) -> (u64, u64) {
    // A kbit/s is a bit per million nanoseconds.
    let bits = bytes * 8 * 1_000_000;
    (bits / u64::from(rate), bits % u64::from(rate))
}

/// MODIFY_QP of RATE_LIMIT.
pub(super) fn check_pace(raw: bool, a: &QpContext) -> Result<(), Refused> {
    let rate = a.rate_limit();
    let burst = a.max_burst() != 0 || a.typical_packet() != 0;
    match raw {
        false => Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED)),
        true if RATES.contains(&rate) || rate == 0 && !burst => Ok(()),
        true => Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE)),
    }
}

impl Device {
    /// Whether the next frame of a queue pair has to wait for its rate.
    pub(super) fn is_ahead<E: Env>(&mut self, q: usize, env: &mut E) -> bool {
        let qp = &self.qps[q];
        if qp.attributes.rate_limit() == 0 {
            return false;
        }
        let (until, now) = (qp.req.pace.waits(&qp.attributes), env.now());
        if until > now {
            self.frame_waits(q, until.max(now + E::PACING_WAIT), env);
        }
        until > now
    }

    /// A queue pair sends a frame of so many bytes.
    pub(super) fn keep_pace<E: Env>(&mut self, q: usize, bytes: usize, env: &mut E) {
        let qp = &mut self.qps[q];
        let rate = qp.attributes.rate_limit();
        if rate != 0 {
            qp.req.pace.sent(bytes, rate, env.now(), E::PACING_LATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends as soon as it may, for so long; gives the bytes.
    fn sends(limits: &QpContext, frame: usize, (from, to): (u64, u64), late: u64) -> u64 {
        let mut pace = Pace { until: 0, rest: 0 };
        let (mut now, mut bytes) = (from, 0);
        loop {
            now = pace.waits(limits).max(now);
            if now >= to {
                return bytes;
            }
            pace.sent(frame, limits.rate_limit(), now, late);
            bytes += frame as u64;
        }
    }

    #[test]
    fn a_rate_is_exact_though_a_frame_takes_no_whole_number_of_nanoseconds() {
        // 64 bytes at 10 Gbit/s take 51.2 ns; a second has 19,531,250 of them.
        let limits = QpContext::new().with_rate_limit(10_000_000);
        assert_eq!(sends(&limits, 64, (1 << 40, (1 << 40) + 1_000_000_000), 0), 1_250_000_000);
        // 1500 bytes at 1 kbit/s take 12 s.
        let limits = QpContext::new().with_rate_limit(1);
        assert_eq!(sends(&limits, 1500, (1 << 40, (1 << 40) + 12_000_000_001), 0), 2 * 1500);
    }

    #[test]
    fn a_burst_leaves_back_to_back_and_no_more() {
        let limits = QpContext::new().with_rate_limit(1000).with_max_burst(6000);
        let at_once = |limits: &QpContext| sends(limits, 1500, (1 << 40, (1 << 40) + 1), 0);
        assert_eq!(at_once(&limits.with_typical_packet(1500)), 6000);
        assert_eq!(at_once(&limits), 6000 + 1500);
        assert_eq!(at_once(&limits.with_max_burst(0)), 1500);
    }

    #[test]
    fn what_was_not_used_is_saved_for_a_moment_only() {
        let mut pace = Pace { until: 0, rest: 0 };
        // At 8 Mbit/s a byte takes 1 us.
        pace.sent(100, 8000, 1_000_000, 0);
        assert_eq!(pace.until, 1_100_000);
        pace.sent(100, 8000, 5_000_000, 1000);
        assert_eq!(pace.until, 5_099_000);
    }
}
