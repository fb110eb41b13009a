//! DCQCN: the rate of a queue pair that is told of congestion, in its two published forms.
//!
//! [`Variant::Paper`] is that of Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015,
//! section 3 and figure 7: a CNP reduces the rate at once; a timer and a byte counter raise it again. What the paper
//! leaves to QCN, the hyper increase and the least rate, is as in IEEE 802.1Qau.
//!
//! [`Variant::Mlx`] is that of the ns-3 model of Mellanox's cards (`RdmaHw` of HPCC's authors, "Mellanox's version
//! of DCQCN"): a CNP is noted, alpha and the rate follow at fixed intervals, and there is no byte counter.
//!
//! Nothing here needs an event: what the timers have done is found out when a rate is asked for.

use super::units::ONE;
use crate::plain::{Flag, Plain};

/// Which form of DCQCN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Variant {
    /// The paper's.
    Paper = 1,
    /// The one of Mellanox's ns-3 model.
    Mlx = 2,
}

/// The parameters. All zeros: no congestion control.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
pub struct Parameters {
    /// [`Variant`], or 0.
    pub variant: u8,
    /// A CNP always sets the target rate to the rate; if not, only when the rate was raised since the last one.
    pub clamp: Flag,
    /// Increases in fast recovery (F).
    pub recovery: u32,
    /// Weight of a CNP in alpha (g), in 2^-32.
    pub g: u64,
    /// Period of the update of alpha (K), ps.
    pub alpha_ps: u64,
    /// Period of the timer that raises the rate (T), ps.
    pub timer_ps: u64,
    /// Bytes after which the rate is raised (B); 0: never. The paper's only.
    pub bytes: u64,
    /// Period of the check whether there was a CNP, ps. Mellanox's only.
    pub check_ps: u64,
    /// Rate after the first CNP, as a fraction of the port's, in 2^-32. Mellanox's only.
    pub first: u64,
    /// Additive increase, bit/s.
    pub ai: u64,
    /// Hyper increase, bit/s.
    pub hai: u64,
    /// Least rate, bit/s.
    pub min: u64,
    /// Least time between two CNPs of a flow, ps.
    pub cnp_ps: u64,
}

impl Parameters {
    /// There is congestion control.
    #[inline]
    pub fn on(&self) -> bool {
        self.variant != 0
    }

    fn mlx(&self) -> bool {
        self.variant == Variant::Mlx as u8
    }
}

/// The rate of a queue pair. All zeros: it was never told of congestion, and sends as fast as its port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
pub struct RateControl {
    /// Bit/s; 0: that of the port.
    rate: u64,
    /// The rate before the last reduction, to which it recovers.
    target: u64,
    /// Estimate of congestion, in 2^-32.
    alpha: u64,
    /// When alpha is updated.
    alpha_at: u64,
    /// When the timer raises the rate.
    timer_at: u64,
    /// When the next check is.
    check_at: u64,
    /// Bytes sent since the byte counter raised the rate.
    bytes: u64,
    /// Increases by the timer since the last reduction.
    time_stage: u32,
    /// Increases by the byte counter since then.
    byte_stage: u32,
    /// There was a CNP since alpha was updated.
    told: Flag,
    /// There was a CNP since the last check.
    reduces: Flag,
}

/// The timer does not run.
const NEVER: u64 = u64::MAX;
/// What ns-3's model adds to the first check, so that it comes after the update of alpha.
const AFTER_ALPHA: u64 = 1000;

impl RateControl {
    /// The rate at `now` in bit/s; `line` is the port's. `None`: the port's.
    pub fn rate(&mut self, p: &Parameters, line: u64, now: u64) -> Option<u64> {
        if self.rate == 0 {
            return None;
        }
        self.advance(p, line, now);
        Some(self.rate)
    }

    /// The rate to which it recovers, and alpha as a fraction.
    pub fn target(&self) -> (u64, f64) {
        (self.target, self.alpha as f64 / ONE as f64)
    }

    /// A CNP has arrived.
    pub fn notified(&mut self, p: &Parameters, line: u64, now: u64) {
        let first = self.rate == 0;
        if first {
            (self.rate, self.target, self.alpha) = (line, line, ONE);
        } else {
            self.advance(p, line, now);
        }
        if !p.mlx() {
            self.reduce(p);
            self.alpha = weighed(self.alpha, p.g, true);
            (self.bytes, self.byte_stage) = (0, 0);
            (self.alpha_at, self.timer_at) = (now + p.alpha_ps, now + p.timer_ps);
            return;
        }
        if first {
            self.rate = part(line, p.first).max(p.min);
            self.target = self.rate;
            (self.alpha_at, self.timer_at) = (now + p.alpha_ps, NEVER);
            self.check_at = now + p.check_ps + AFTER_ALPHA;
        } else {
            self.told = true.into();
            if self.check_at <= now {
                self.check_at += ((now - self.check_at) / p.check_ps + 1) * p.check_ps;
            }
        }
        self.reduces = true.into();
    }

    /// This many bytes were sent.
    pub fn sent(&mut self, p: &Parameters, line: u64, bytes: u64) {
        if self.rate == 0 || p.mlx() || p.bytes == 0 {
            return;
        }
        self.bytes += bytes;
        while self.bytes >= p.bytes {
            self.bytes -= p.bytes;
            self.byte_stage = self.byte_stage.saturating_add(1);
            self.increase(p, line);
        }
    }

    /// Does what the timers have done up to `now`.
    fn advance(&mut self, p: &Parameters, line: u64, now: u64) {
        loop {
            let check = if self.reduces.get() { self.check_at } else { NEVER };
            let next = self.timer_at.min(self.alpha_at).min(check);
            if next > now {
                return;
            }
            if self.recovered(line) {
                return self.skip(p, now);
            }
            if next == self.timer_at {
                self.timer_at += p.timer_ps;
                // Mellanox's counts the increases before this one.
                if p.mlx() {
                    self.increase(p, line);
                }
                self.time_stage = self.time_stage.saturating_add(1);
                if !p.mlx() {
                    self.increase(p, line);
                }
            } else if next == self.alpha_at {
                self.alpha_at += p.alpha_ps;
                self.alpha = weighed(self.alpha, p.g, self.told.take());
            } else {
                self.reduces = Flag::NO;
                self.reduce(p);
                self.timer_at = next + p.timer_ps;
                self.check_at = next + p.check_ps;
            }
        }
    }

    /// The rate is the port's again, and no timer changes anything but their own counts.
    fn recovered(&self, line: u64) -> bool {
        (self.rate, self.target, self.alpha) == (line, line, 0) && !self.reduces.get()
    }

    /// The same as [`advance`](Self::advance) after recovery, in one step.
    fn skip(&mut self, p: &Parameters, now: u64) {
        let past = |at: &mut u64, period: u64| {
            let times = if *at > now { 0 } else { (now - *at) / period + 1 };
            *at += times * period;
            u32::try_from(times).unwrap_or(u32::MAX)
        };
        past(&mut self.alpha_at, p.alpha_ps);
        let times = past(&mut self.timer_at, p.timer_ps);
        self.time_stage = self.time_stage.saturating_add(times);
    }

    fn reduce(&mut self, p: &Parameters) {
        if p.clamp.get() || self.time_stage != 0 || self.byte_stage != 0 {
            self.target = self.rate;
        }
        self.rate = (self.rate - part(self.rate, self.alpha) / 2).max(p.min);
        self.time_stage = 0;
    }

    fn increase(&mut self, p: &Parameters, line: u64) {
        let more = if p.mlx() {
            match self.time_stage.cmp(&p.recovery) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => p.ai,
                std::cmp::Ordering::Greater => p.hai,
            }
        } else {
            let most = self.time_stage.max(self.byte_stage);
            let least = self.time_stage.min(self.byte_stage);
            match least.checked_sub(p.recovery) {
                Some(beyond @ 1..) => p.hai.saturating_mul(beyond.into()),
                _ if most >= p.recovery => p.ai,
                _ => 0,
            }
        };
        self.target = self.target.saturating_add(more).min(line);
        self.rate = (self.rate + self.target).div_ceil(2);
    }
}

/// `value * fraction`.
fn part(value: u64, fraction: u64) -> u64 {
    ((u128::from(value) * u128::from(fraction)) >> 32) as u64
}

/// alpha (1 - g), plus g if there was a CNP.
fn weighed(alpha: u64, g: u64, told: bool) -> u64 {
    part(alpha, ONE - g.min(ONE)) + if told { g } else { 0 }
}

#[cfg(test)]
#[path = "dcqcn_tests.rs"]
mod tests;
