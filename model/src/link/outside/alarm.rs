//! A descriptor that becomes readable at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec,
};

use crate::segment::now_ns;

/// It is set until it rings.
pub(super) struct Alarm {
    timer: OwnedFd,
    /// When it rings (CLOCK_MONOTONIC, ns); `u64::MAX`: it is not set.
    rings_at: u64,
}

impl Alarm {
    pub fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, rings_at: u64::MAX })
    }

    /// Whether it rings. Then it is not set any more.
    pub fn rings(&mut self) -> bool {
        let rings = rustix::io::read(&self.timer, &mut [0; 8]).is_ok();
        if rings {
            self.rings_at = u64::MAX;
        }
        rings
    }

    /// Sets it to a time (ns), unless it rings before that.
    pub fn set(&mut self, at: u64) {
        if at >= self.rings_at {
            return;
        }
        self.rings_at = at;
        let rest = at.saturating_sub(now_ns()).max(1);
        let second = 1_000_000_000;
        let it_value = Timespec { tv_sec: (rest / second) as i64, tv_nsec: (rest % second) as i64 };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        // Only wrong times are refused.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
