//! How far a queue pair has sent, and the way back to the oldest unacknowledged PSN.

use fpga_regs::QpState;

use super::qp::{Qp, Requester};
use crate::wire::psn;

/// Whether an index is before another; they run on, and are less than half of all apart.
fn less(index: u32, other: u32) -> bool {
    (index.wrapping_sub(other) as i32) < 0
}

impl Qp {
    /// Whether the WQE to send from next was begun, before the rewind or, in part, now.
    pub fn begun(&self) -> bool {
        self.req.cur_offset != 0 || self.begun_before(self.req.cur)
    }

    /// Whether the oldest WQE was begun.
    #[inline(always)]
    pub fn waits(&self) -> bool {
        let Requester { ci, cur, cur_offset, again, .. } = self.req;
        match again.get() {
            true => less(ci, cur) || less(ci, self.req.begun),
            false => ci != cur || cur_offset != 0,
        }
    }

    /// Whether the WQE at this index, from the oldest on, was begun before sending went back.
    fn begun_before(&self, index: u32) -> bool {
        self.req.again.get() && less(index, self.req.begun)
    }

    /// One past the last PSN that was sent: PSNs from `una` to here can be answered.
    #[inline]
    pub fn sent(&self) -> u32 {
        let Requester { psn, sent, again, .. } = self.req;
        if again.get() && psn::diff(sent, psn) > 0 {
            sent
        } else {
            psn
        }
    }

    /// Whether the PSN can be answered: what was sent and is not acknowledged, also if sending went back since.
    #[inline]
    pub fn awaits(&self, psn: u32) -> bool {
        let ahead = psn::diff(psn, self.req.una);
        ahead >= 0 && ahead < psn::diff(self.sent(), self.req.una)
    }

    /// Sending goes back to the oldest PSN that is not acknowledged. Returns how many PSNs are sent again.
    pub fn go_back(&mut self) -> u64 {
        let again = psn::diff(self.req.psn, self.req.una).max(0) as u64;
        let now = self.req.cur.wrapping_add((self.req.cur_offset != 0) as u32);
        let begun = if self.begun_before(now) { self.req.begun } else { now };
        (self.req.sent, self.req.begun) = (self.sent(), begun);
        self.send_from_una();
        self.req.again = less(self.req.cur, begun).into();
        self.req.rd_out = 0;
        self.req.rewinds = self.req.rewinds.wrapping_add(1);
        again
    }

    /// After sending went back: the WQE at this index, whose first packet has this PSN, was begun and cannot be sent. It is the next
    /// to send.
    pub fn stop_at(&mut self, index: u32, psn: u32) {
        (self.req.cur, self.req.psn, self.req.cur_offset) = (index, psn, 0);
        self.req.again = less(index, self.req.begun).into();
    }

    /// What is acknowledged need not be sent again.
    pub fn catch_up(&mut self) {
        if self.req.again.get() {
            if less(self.req.cur, self.req.ci) || psn::diff(self.req.una, self.req.psn) > 0 {
                self.send_from_una();
            }
            self.req.again = less(self.req.cur, self.req.begun).into();
        }
    }

    fn send_from_una(&mut self) {
        self.req.cur = self.req.ci;
        self.req.psn = self.req.una;
        self.req.cur_offset = (psn::diff(self.req.una, self.req.ci_psn).max(0) as u32) << self.mtu_log;
        // What could not be sent is tried again, or was answered since.
        self.req.pending_status = 0;
    }

    /// SQD: requests that were begun are not complete yet.
    pub fn draining(&self) -> bool {
        self.state == QpState::SQD && self.waits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::zeroed;

    #[test]
    fn an_error_of_what_was_answered_after_all_is_none() {
        // Two WQEs of a packet each were sent; going back, the first is sent again, and the second cannot be.
        let mut qp: Qp = zeroed();
        (qp.sq_mask, qp.mtu_log) = (7, 10);
        (qp.req.cur, qp.req.psn) = (2, 2);
        assert_eq!(qp.go_back(), 2);
        assert_eq!((qp.req.cur, qp.req.psn, qp.sent()), (0, 0, 2));
        (qp.req.cur, qp.req.psn, qp.req.pending_status) = (1, 1, 4);
        // The answer to what was sent first.
        assert!(qp.awaits(1));
        (qp.req.ci, qp.req.una, qp.req.ci_psn) = (2, 2, 2);
        qp.catch_up();
        assert_eq!((qp.req.cur, qp.req.psn, qp.req.again.get()), (2, 2, false));
        assert_eq!(qp.req.pending_status, 0, "it would fail the WQE after them");
    }
}
