//! QP timers: transport time-outs and RNR waits. Few are armed at a time: a QP whose packets are all
//! answered at the end of a run has none.

use super::qp::Qp;
use super::tables::MAX_QPS;
use super::Device;
use crate::env::Env;
use crate::plain::plain;
use fpga_regs::regs::port;
use fpga_regs::{QpState, QpType};

/// QPs with a timer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Timers {
    /// QPs in `armed`.
    pub count: u32,
    /// QPs with an armed timer, in no order.
    armed: [u16; MAX_QPS],
}

impl Timers {
    /// Arms (or moves) a QP's timer.
    pub(super) fn arm(&mut self, q: usize, qps: &mut [Qp], at: u64) {
        let req = &mut qps[q].req;
        req.deadline = at;
        let n = self.len();
        if !req.armed.get() && n < MAX_QPS {
            req.armed = true.into();
            req.timer_slot = n as u16;
            self.armed[n] = q as u16;
            self.count = n as u32 + 1;
        }
    }

    /// How many there are. The table is in memory that other processes can write.
    fn len(&self) -> usize {
        (self.count as usize).min(MAX_QPS)
    }

    /// Disarms a QP's timer.
    pub(super) fn disarm(&mut self, q: usize, qps: &mut [Qp]) {
        if !qps[q].req.armed.get() {
            return;
        }
        let slot = qps[q].req.timer_slot as usize;
        if slot < self.len() && self.armed[slot] as usize == q {
            self.remove(slot, qps);
        }
        qps[q].req.armed = false.into();
    }

    /// Removes the timer at `slot`; returns its QP.
    fn remove(&mut self, slot: usize, qps: &mut [Qp]) -> usize {
        let (q, end) = (self.armed[slot] as usize % MAX_QPS, self.len() - 1);
        let last = self.armed[end];
        self.armed[slot] = last;
        qps[last as usize % MAX_QPS].req.timer_slot = slot as u16;
        self.count = end as u32;
        qps[q].req.armed = false.into();
        q
    }
}

impl Device {
    /// Arms the timer of a QP with something outstanding, at the end of a run.
    pub fn arm_if_waiting(&mut self, q: usize, env: &mut impl Env) {
        let qp = &self.qps[q];
        let req = &qp.req;
        if req.una == req.psn || req.armed.get() || !qp.used.get() || qp.qp_type != QpType::RC {
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

    /// Runs all timers that are due; returns the next deadline, if any.
    pub fn run_timers(&mut self, env: &mut impl Env) -> Option<u64> {
        if self.timers.count == 0 {
            return None;
        }
        let now = env.now();
        let mut i = 0;
        while i < self.timers.len() {
            let q = self.timers.armed[i] as usize % MAX_QPS;
            if self.qps[q].req.deadline <= now {
                // The list has changed at `i`, and is shorter whatever it contains.
                let q = self.timers.remove(i, &mut self.qps);
                self.timer_due(q, env);
            } else {
                i += 1;
            }
        }
        self.next_deadline()
    }

    /// Earliest deadline (ns).
    pub fn next_deadline(&self) -> Option<u64> {
        let armed = &self.timers.armed[..self.timers.len()];
        armed.iter().map(|&q| self.qps[q as usize % MAX_QPS].req.deadline).min()
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

    /// After the death of a process in the middle of a run: every list that is derived from the
    /// QPs is rebuilt, and so is the work that was queued.
    pub fn rebuild_timers(&mut self, env: &mut impl Env) {
        self.timers.count = 0;
        for q in self.tables.qp.range() {
            let req = &mut self.qps[q].req;
            if !req.armed.take() {
                self.arm_if_waiting(q, env);
            } else if self.qps[q].used.get() {
                let at = self.qps[q].req.deadline;
                self.timers.arm(q, &mut self.qps, at);
                env.timer(at);
            }
            // The dead may have taken the note of a doorbell, or gone back to send again.
            if self.has_work(q, env) {
                env.send_later(self.id, q as u16);
            }
        }
    }
}

/// The transport time-out of attribute `timeout`: 4.096 us * 2^timeout (IB spec 9.7.6.1.3).
pub fn timeout_nanoseconds(timeout: u8) -> u64 {
    4096u64 << timeout.min(31)
}

plain! {
    Timers { count, armed }
}
