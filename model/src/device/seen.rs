//! Which answers came behind a missing one, so that none is asked for again that is on its way.
//!
//! A requester that misses an answer asks for it and for all behind it (go-back-N). Until they come, more comes of what it had asked
//! for before, and the missing one itself, if it was late and not lost. The next one, which was dropped, is missing then, but has
//! been asked for. So it asks once more only when an answer comes that came before, or one that was first sent later: what it asked
//! for is coming then.

use crate::plain::Plain;
use crate::wire::psn;

/// What was asked for, and PSNs that came since, as the anti-replay window of IPsec has them (RFC 4303 3.4.3). Zero: nothing was
/// asked for.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Seen {
    /// Bit `n`: the PSN `n` before `last` came.
    came: u64,
    /// The latest of them.
    last: u32,
    /// What was asked for, with all that follows.
    from: u32,
    /// One past what had been sent by then.
    sent: u32,
}

impl Seen {
    /// What is missing is asked for, since a later PSN came; `sent` is one past what has been sent.
    pub(super) fn asked(missing: u32, psn: u32, sent: u32) -> Seen {
        Seen { came: 1, last: psn, from: missing, sent }
    }

    /// Whether it came, or may have: what is as late as that is not known.
    fn has(&self, psn: u32) -> bool {
        let before = psn::diff(self.last, psn);
        before >= 0 && self.came.checked_shr(before as u32).is_none_or(|came| came & 1 != 0)
    }

    /// A PSN comes, and `missing`, before it, has not. Whether that was asked for and is on its way: nothing has come twice, nor
    /// what was first sent later. The same one is asked for once: after that the time-out does it.
    pub(super) fn awaits(&mut self, missing: u32, psn: u32) -> bool {
        let taken = psn::sub(missing, 1);
        let twice = self.has(psn) || self.has(taken) || psn::diff(taken, self.last) > 0;
        let passed = twice || psn::diff(psn, self.sent) >= 0;
        let awaits = self.came != 0 && (missing == self.from || !passed);
        let ahead = psn::diff(psn, self.last);
        if ahead > 0 {
            (self.came, self.last) = (self.came.checked_shl(ahead as u32).unwrap_or(0), psn);
        }
        self.came |= 1u64.checked_shl(psn::diff(self.last, psn) as u32).unwrap_or(0);
        awaits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::zeroed;

    #[test]
    fn what_is_on_its_way_is_not_asked_for() {
        assert!(!zeroed::<Seen>().awaits(10, 11), "nothing was");
        for first in [10, 0xff_ffff, 0xff_fffe] {
            let at = |n| psn::add(first, n);
            let mut seen = Seen::asked(at(0), at(1), at(7));
            assert!(seen.awaits(at(0), at(2)));
            // What was missing comes late, and so does more.
            assert!([3, 6, 5, 4].iter().all(|&n| seen.awaits(at(1), at(n))));
            // All comes again, but one.
            assert!(!seen.awaits(at(1), at(2)));
        }
    }

    #[test]
    fn what_was_asked_for_has_come_when_more_is_missing() {
        assert!(!Seen::asked(10, 11, 400).awaits(12, 13), "11 came again");
        assert!(!Seen::asked(10, 11, 400).awaits(20, 21));
        assert!(!Seen::asked(10, 300, 400).awaits(11, 301), "later than is known");
        // 10 came again, and 11 did not, after which 12 was sent for the first time.
        assert!(!Seen::asked(10, 11, 12).awaits(11, 12));
    }
}
