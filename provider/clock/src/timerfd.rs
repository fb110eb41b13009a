//! timerfd by the virtual clock.
//!
//! A timer is an eventfd to which this library adds the expirations as soon as a thread waits for a descriptor, or
//! reads one, at or after their time: what both kinds of descriptor give to read is the same.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::next::replace;
use crate::read_clock::{from_timespec, origin, timespec, NS};
use crate::sys::{self, fail, sys};
use crate::{threads, timeline};
use contract::clock::NEVER;

/// Most timers of a process.
const MAX: usize = 64;

struct Timer {
    /// Its descriptor plus one; 0: a free place.
    fd: AtomicU32,
    /// What its clock shows at virtual time 0, in seconds.
    origin: AtomicU64,
    /// When it expires next ([`NEVER`]: it is not armed), and how often after that (0: not again).
    at: AtomicU64,
    interval: AtomicU64,
}

static TIMERS: [Timer; MAX] = [const {
    Timer {
        fd: AtomicU32::new(0),
        origin: AtomicU64::new(0),
        at: AtomicU64::new(NEVER),
        interval: AtomicU64::new(0),
    }
}; MAX];

/// Places in use are below this.
static TOP: AtomicU32 = AtomicU32::new(0);

fn timers() -> &'static [Timer] {
    &TIMERS[..TOP.load(Ordering::Acquire) as usize]
}

fn of(fd: c_int) -> Option<&'static Timer> {
    timers().iter().find(|timer| timer.fd.load(Ordering::Relaxed) == fd as u32 + 1)
}

/// Whether a descriptor is a timer.
pub fn is_one(fd: c_int) -> bool {
    of(fd).is_some()
}

/// When the next timer expires; [`NEVER`]: none is armed.
pub fn next_at() -> u64 {
    timers().iter().map(|timer| timer.at.load(Ordering::Relaxed)).min().unwrap_or(NEVER)
}

/// Lets the timers expire that are due by `now`.
pub fn expire(now: u64) {
    for timer in timers() {
        let at = timer.at.load(Ordering::Relaxed);
        if now < at {
            continue;
        }
        let interval = timer.interval.load(Ordering::Relaxed);
        let more = (now - at).checked_div(interval);
        let next = more.map_or(NEVER, |more| timeline::later(at, (more + 1).saturating_mul(interval)));
        // Otherwise another thread has, or the timer was set anew.
        if timer.at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let expirations = more.unwrap_or(0) + 1;
            let fd = timer.fd.load(Ordering::Relaxed).wrapping_sub(1);
            // SAFETY: eight valid bytes.
            unsafe { sys!(libc::SYS_write, fd, &raw const expirations, 8) };
        }
    }
}

/// The program closes a descriptor.
pub fn closes(fd: c_int) {
    if let Some(timer) = of(fd) {
        timer.at.store(NEVER, Ordering::Relaxed);
        timer.fd.store(0, Ordering::Release);
    }
}

/// The timers of a forked child are its parent's, which lets them expire.
pub fn forked() {
    timers().iter().for_each(|timer| timer.at.store(NEVER, Ordering::Relaxed));
}

impl Timer {
    /// What is left until it expires, and its interval.
    fn left(&self) -> libc::itimerspec {
        let left = match self.at.load(Ordering::Relaxed) {
            NEVER => 0,
            at => at.saturating_sub(timeline::now()).max(NS),
        };
        libc::itimerspec {
            it_value: timespec(0, left.next_multiple_of(NS)),
            it_interval: timespec(0, self.interval.load(Ordering::Relaxed)),
        }
    }

    /// Forgets the expirations that were not read.
    fn drain(&self) {
        let fd = self.fd.load(Ordering::Relaxed).wrapping_sub(1) as c_int;
        let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut count = 0u64;
        // SAFETY: one valid entry and time, and room for eight bytes; nobody blocks, as there is something to read.
        unsafe {
            if sys!(libc::SYS_ppoll, &raw mut ready, 1, &raw mut time, 0, 0) == 1 {
                sys!(libc::SYS_read, fd, &raw mut count, 8);
            }
        }
    }
}

replace! {
    /// timerfd_create(2)
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
        let Some(origin) = origin(clock) else { return fail(libc::EINVAL) };
        if flags & !(libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) != 0 {
            return fail(libc::EINVAL);
        }
        // The flags of both calls are those of open(2).
        let fd = sys::errno(sys!(libc::SYS_eventfd2, 0, flags)) as c_int;
        if fd < 0 {
            return fd;
        }
        // One of that number was closed unseen.
        closes(fd);
        let free = |timer: &&Timer| {
            timer.fd.compare_exchange(0, fd as u32 + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let Some(place) = TIMERS.iter().position(|timer| free(&timer)) else {
            sys!(libc::SYS_close, fd);
            return fail(libc::EMFILE);
        };
        TIMERS[place].origin.store(origin, Ordering::Relaxed);
        TOP.fetch_max(place as u32 + 1, Ordering::Release);
        fd
    }

    /// timerfd_settime(2)
    fn timerfd_settime(
        fd: c_int, flags: c_int, new: *const libc::itimerspec, old: *mut libc::itimerspec,
    ) -> c_int {
        let Some(timer) = of(fd) else {
            return sys::errno(sys!(libc::SYS_timerfd_settime, fd, flags, new, old)) as c_int;
        };
        let Some(new) = new.as_ref() else { return fail(libc::EFAULT) };
        timeline::acted();
        let now = timeline::now();
        expire(now);
        let absolute = flags & libc::TFD_TIMER_ABSTIME != 0;
        let value = match absolute {
            true => from_timespec(timer.origin.load(Ordering::Relaxed), &new.it_value),
            false => from_timespec(0, &new.it_value).map(timeline::after),
        };
        let (Some(at), Some(interval)) = (value, from_timespec(0, &new.it_interval)) else {
            return fail(libc::EINVAL);
        };
        if let Some(old) = old.as_mut() {
            *old = timer.left();
        }
        let off = new.it_value.tv_sec == 0 && new.it_value.tv_nsec == 0;
        timer.at.store(NEVER, Ordering::Relaxed);
        timer.drain();
        timer.interval.store(interval, Ordering::Relaxed);
        timer.at.store(if off { NEVER } else { at }, Ordering::Relaxed);
        // Those that wait already do not know of it.
        if timeline::is_attached() {
            threads::wake_others();
        }
        0
    }

    /// timerfd_gettime(2)
    fn timerfd_gettime(fd: c_int, time: *mut libc::itimerspec) -> c_int {
        let Some(timer) = of(fd) else {
            return sys::errno(sys!(libc::SYS_timerfd_gettime, fd, time)) as c_int;
        };
        if time.is_null() {
            return fail(libc::EFAULT);
        }
        expire(timeline::now());
        *time = timer.left();
        0
    }
}
