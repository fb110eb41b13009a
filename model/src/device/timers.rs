//! QP timers: transport time-outs and RNR waits. Few are armed at a time: a QP whose packets are all
//! answered at the end of a run has none.

use super::qp::Qp;
use super::tables::MAX_QPS;
use super::Device;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::env::Env;
use crate::plain::Flag;
use fpga_regs::regs::port;
use fpga_regs::QpState;

/// Words of [`Timers`].
const WORDS: usize = MAX_QPS / 64;

/// QPs with an armed timer, a bit each. Atomic, as queue pairs of several islands share a word.
#[repr(C)]
pub struct Timers([AtomicU64; WORDS]);

impl Timers {
    fn bit(&self, q: usize) -> (&AtomicU64, u64) {
        (&self.0[q / 64 % WORDS], 1 << (q % 64))
    }

    /// Arms (or moves) a QP's timer.
    pub(super) fn arm(&self, q: usize, qps: &mut [Qp], at: u64) {
        let req = &mut qps[q].req;
        req.deadline = at;
        if !req.armed.get() {
            req.armed = true.into();
            let (word, bit) = self.bit(q);
            word.fetch_or(bit, SeqCst);
        }
    }

    /// Disarms a QP's timer.
    pub(super) fn disarm(&self, q: usize, qps: &mut [Qp]) {
        if qps[q].req.armed.take() {
            let (word, bit) = self.bit(q);
            word.fetch_and(!bit, Relaxed);
        }
    }

    /// QPs with an armed timer.
    pub(crate) fn armed(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(n, word)| {
            let mut bits = word.load(SeqCst);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(n * 64 + bit)
            })
        })
    }
}

impl Device {
    /// Arms the timer of a QP with something outstanding, at the end of a run.
    pub fn arm_if_waiting(&mut self, q: usize, env: &mut impl Env) {
        let qp = &self.qps[q];
        let req = &qp.req;
        if req.una == req.psn || req.armed.get() || !qp.used.get() || !qp.is_reliable() {
            return;
        }
        if !matches!(qp.state, QpState::RTS | QpState::SQD) {
            return;
        }
        let timeout = qp.attributes.timeout();
        if timeout == 0 {
            return;
        }
        let at = env.now() + timeout_nanoseconds(timeout);
        self.timers.arm(q, &mut self.qps, at);
        env.timer(at);
    }

    /// A QP has sent until this time (ns) what it waits to be answered: its timer starts no earlier.
    pub fn starts_to_wait(&mut self, q: usize, at: u64) {
        let req = &self.qps[q].req;
        if !req.armed.get() || req.rnr_wait.get() {
            return;
        }
        let deadline = at.saturating_add(timeout_nanoseconds(self.qps[q].attributes.timeout()));
        if deadline > req.deadline {
            self.timers.arm(q, &mut self.qps, deadline);
        }
    }

    /// Runs all timers that are due; returns the next deadline, if any.
    pub fn run_timers(&mut self, env: &mut impl Env) -> Option<u64> {
        let now = env.now();
        for n in 0..WORDS {
            let mut bits = self.timers.0[n].load(Relaxed);
            while bits != 0 {
                let q = n * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.run_timer_at(q, now, env);
            }
        }
        self.raise_held(now, env);
        self.next_deadline()
    }

    /// Runs the timer of one QP, if it is due.
    pub fn run_timer(&mut self, q: usize, env: &mut impl Env) {
        let now = env.now();
        self.run_timer_at(q, now, env);
    }

    fn run_timer_at(&mut self, q: usize, now: u64, env: &mut impl Env) {
        let (word, bit) = self.timers.bit(q);
        if word.load(Relaxed) & bit != 0 && self.qps[q].req.deadline <= now {
            word.fetch_and(!bit, Relaxed);
            self.qps[q].req.armed = Flag::NO;
            self.timer_due(q, env);
        }
    }

    /// Earliest deadline (ns).
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.armed().map(|q| self.qps[q].req.deadline).chain(self.next_held()).min()
    }

    fn timer_due(&mut self, q: usize, env: &mut impl Env) {
        let req = &mut self.qps[q].req;
        if req.rnr_wait.get() {
            req.rnr_wait = false.into();
            env.send_later(self.id, q as u16);
        } else if req.una != req.psn {
            req.went_back_to = 0;
            self.count(self.qps[q].port.port, port::ACK_TIMEOUTS);
            self.retry(q, env);
        }
    }

    /// After the death of a process in the middle of a run, for one of the QPs that it may have had: its timer is armed
    /// as it says, and it is run if it has work.
    pub fn rebuild_timer(&mut self, q: usize, env: &mut impl Env) {
        if self.qps[q].req.armed.get() && self.qps[q].used.get() {
            let at = self.qps[q].req.deadline;
            let (word, bit) = self.timers.bit(q);
            word.fetch_or(bit, Relaxed);
            env.timer(at);
        } else {
            self.qps[q].req.armed = Flag::NO;
            let (word, bit) = self.timers.bit(q);
            word.fetch_and(!bit, Relaxed);
            self.arm_if_waiting(q, env);
        }
        // The dead may have taken the note of a doorbell, or gone back to send again.
        if self.has_work(q, env) {
            env.send_later(self.id, q as u16);
        }
    }
}

/// The transport time-out of attribute `timeout`: 4.096 us * 2^timeout (IB spec 9.7.6.1.3).
pub fn timeout_nanoseconds(timeout: u8) -> u64 {
    4096u64 << timeout.min(31)
}

impl crate::plain::Plain for Timers {}
