//! QP timers: transport time-outs and RNR waits. Few are armed at a time: a QP whose packets are all
//! answered at the end of a run has none.

use super::qp::Qp;
use super::tables::MAX_QPS;
use super::Device;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::bits::bits;
use crate::env::Env;
use crate::plain::{zeroed, Flag, Plain};
use fpga_regs::regs::port;
use fpga_regs::QpState;

/// Words of [`Timers`].
const WORDS: usize = MAX_QPS / 64;

/// QPs with an armed timer, a bit each. Atomic, as queue pairs of several islands share a word.
#[derive(Plain)]
#[repr(C)]
pub struct Timers {
    armed: [AtomicU64; WORDS],
    /// A bit for each word that may have a bit set, so that a look at few armed timers reads few words. Only who has all the
    /// cards clears one: nobody then misses a timer that is armed meanwhile.
    words: [AtomicU64; WORDS.div_ceil(64)],
}

impl Timers {
    fn bit(&self, q: usize) -> (&AtomicU64, u64) {
        (&self.armed[q / 64 % WORDS], 1 << (q % 64))
    }

    fn set(&self, q: usize) {
        let (word, bit) = self.bit(q);
        word.fetch_or(bit, SeqCst);
        let n = q / 64 % WORDS;
        let (word, bit) = (&self.words[n / 64], 1 << (n % 64));
        if word.load(SeqCst) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
    }

    fn clear(&self, q: usize) {
        let (word, bit) = self.bit(q);
        word.fetch_and(!bit, Relaxed);
    }

    /// Arms (or moves) a QP's timer.
    pub(super) fn arm(&self, q: usize, qps: &mut [Qp], at: u64) {
        let req = &mut qps[q].req;
        req.deadline = at;
        if !req.armed.get() {
            req.armed = true.into();
            self.set(q);
        }
    }

    /// Disarms a QP's timer.
    pub(super) fn disarm(&self, q: usize, qps: &mut [Qp]) {
        if qps[q].req.armed.take() {
            self.clear(q);
        }
    }

    /// QPs with an armed timer.
    pub(crate) fn armed(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.words.iter().enumerate().flat_map(|(n, word)| {
            let word = word.load(SeqCst);
            bits(word).map(move |bit| n * 64 + bit)
        });
        words.flat_map(|n| bits(self.armed[n].load(SeqCst)).map(move |bit| n * 64 + bit))
    }

    /// Forgets the words without a bit. With all the cards.
    fn tidy(&mut self) {
        let armed = &self.armed;
        for (n, word) in self.words.iter_mut().enumerate() {
            let word = word.get_mut();
            *word =
                bits(*word).filter(|bit| armed[n * 64 + bit].load(Relaxed) != 0).map(|bit| 1 << bit).sum();
        }
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

    /// Runs all timers that are due; returns the next deadline, if any. `note` is told of each QP before it is worked on,
    /// and of none after the last.
    pub fn run_timers(&mut self, env: &mut impl Env, note: impl Fn(Option<usize>)) -> Option<u64> {
        let now = env.now();
        self.timers.tidy();
        let due: Vec<usize> = self.timers.armed().filter(|&q| self.qps[q].req.deadline <= now).collect();
        for q in due {
            note(Some(q));
            self.run_timer_at(q, now, env);
        }
        note(None);
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
            self.timers.clear(q);
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
            req.seen = zeroed();
            self.count(self.qps[q].port.port, port::ACK_TIMEOUTS);
            self.retry(q, env);
        }
    }

    /// After the death of a process in the middle of a run, for one of the QPs that it may have had: its timer is armed
    /// as it says, and it is run if it has work.
    pub fn rebuild_timer(&mut self, q: usize, env: &mut impl Env) {
        if self.qps[q].req.armed.get() && self.qps[q].used.get() {
            let at = self.qps[q].req.deadline;
            self.timers.set(q);
            env.timer(at);
        } else {
            self.qps[q].req.armed = Flag::NO;
            self.timers.clear(q);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_armed_are_found_in_their_order_and_no_other_word_is_read() {
        let none = |_| AtomicU64::new(0);
        let mut timers = Timers { armed: std::array::from_fn(none), words: std::array::from_fn(none) };
        for q in [MAX_QPS - 1, 16, 4096, 17, 4095] {
            timers.set(q);
        }
        let armed = |timers: &Timers| timers.armed().collect::<Vec<_>>();
        let words = |timers: &Timers| -> u32 {
            timers.words.iter().map(|word| word.load(Relaxed).count_ones()).sum()
        };
        assert_eq!(armed(&timers), [16, 17, 4095, 4096, MAX_QPS - 1]);
        [16, 17, 4096].into_iter().for_each(|q| timers.clear(q));
        assert_eq!((armed(&timers), words(&timers)), (vec![4095, MAX_QPS - 1], 4));
        timers.tidy();
        assert_eq!((armed(&timers), words(&timers)), (vec![4095, MAX_QPS - 1], 2));
        timers.set(17);
        assert_eq!(armed(&timers), [17, 4095, MAX_QPS - 1]);
    }
}
