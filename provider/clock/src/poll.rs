//! poll, select and epoll, with time-outs in virtual time.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong, c_void};

use crate::next::replace;
use crate::read_clock::{from_timespec, from_timeval, timeval, US};
use crate::sys::{self, fail, sys};
use crate::timeline;
use crate::wait::{wait, Interrupted};
use contract::clock::NEVER;

const MS: u64 = 1000 * US;

fn after_ms(ms: c_int) -> u64 {
    u64::try_from(ms).map_or(NEVER, |ms| timeline::after(ms * MS))
}

unsafe fn after_timespec(time: *const libc::timespec) -> Option<u64> {
    // SAFETY: the caller passes null or a valid time.
    match unsafe { time.as_ref() } {
        None => Some(NEVER),
        Some(time) if time.tv_sec < 0 => None,
        Some(time) => from_timespec(0, time).map(timeline::after),
    }
}

unsafe fn after_timeval(time: *const libc::timeval) -> Option<u64> {
    // SAFETY: the caller passes null or a valid time.
    match unsafe { time.as_ref() } {
        None => Some(NEVER),
        Some(time) => from_timeval(time).map(timeline::after),
    }
}

unsafe fn kernel_mask(mask: *const libc::sigset_t) -> Option<u64> {
    // SAFETY: the caller passes null or a valid set, whose first word is the kernel's.
    unsafe { mask.cast::<u64>().as_ref() }.copied()
}

unsafe fn poll_until(fds: *mut libc::pollfd, n: libc::nfds_t, deadline: u64, mask: Option<u64>) -> c_int {
    let fds = if n == 0 {
        &mut []
    } else {
        // SAFETY: the caller keeps the contract of poll(2).
        unsafe { std::slice::from_raw_parts_mut(fds, n as usize) }
    };
    match wait(fds, deadline, mask) {
        Ok(ready) => ready as c_int,
        Err(Interrupted { .. }) => fail(libc::EINTR),
    }
}

/// The sets of select(2): bit arrays of `n` descriptors each, of which any may be missing.
struct Sets {
    n: usize,
    words: [*mut c_ulong; 3],
}

/// What poll(2) calls the three conditions of select(2): asked for, and what counts as an answer.
const CONDITIONS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

const WORD: usize = c_ulong::BITS as usize;

impl Sets {
    /// # Safety
    /// The sets are those of a call of select(2), valid for this value's life.
    unsafe fn new(n: c_int, sets: [*mut libc::fd_set; 3]) -> Sets {
        Sets { n: n.max(0) as usize, words: sets.map(|set| set.cast()) }
    }

    fn has(&self, set: usize, fd: usize) -> bool {
        let words = self.words[set];
        // SAFETY: `fd` is below `n`, for which the sets have words.
        !words.is_null() && unsafe { *words.add(fd / WORD) } >> (fd % WORD) & 1 == 1
    }

    fn fds(&self) -> Vec<libc::pollfd> {
        let wanted = |fd: usize| {
            let asked =
                (0..3).filter(|&set| self.has(set, fd)).fold(0, |events, set| events | CONDITIONS[set].0);
            (asked != 0).then_some(libc::pollfd { fd: fd as c_int, events: asked, revents: 0 })
        };
        (0..self.n).filter_map(wanted).collect()
    }

    /// Leaves only what is ready in the sets; returns how many bits that are.
    fn answer(&self, fds: &[libc::pollfd]) -> c_int {
        let mut count = 0;
        for (set, words) in self.words.iter().enumerate().filter(|(_, words)| !words.is_null()) {
            let ready: Vec<usize> = fds
                .iter()
                .filter(|fd| fd.events & CONDITIONS[set].0 != 0 && fd.revents & CONDITIONS[set].1 != 0)
                .map(|fd| fd.fd as usize)
                .collect();
            for word in 0..self.n.div_ceil(WORD) {
                // SAFETY: the sets have words for `n` descriptors.
                unsafe { *words.add(word) = 0 };
            }
            for &fd in &ready {
                // SAFETY: `fd` is below `n`.
                unsafe { *words.add(fd / WORD) |= 1 << (fd % WORD) };
            }
            count += ready.len() as c_int;
        }
        count
    }

    fn wait(&self, deadline: u64, mask: Option<u64>) -> c_int {
        let mut fds = self.fds();
        match wait(&mut fds, deadline, mask) {
            Err(Interrupted { .. }) => fail(libc::EINTR),
            Ok(_) if fds.iter().any(|fd| fd.revents & libc::POLLNVAL != 0) => fail(libc::EBADF),
            Ok(_) => self.answer(&fds),
        }
    }
}

unsafe fn epoll_until(
    epoll: c_int,
    events: *mut libc::epoll_event,
    max: c_int,
    deadline: u64,
    mask: Option<u64>,
) -> c_int {
    let mut fds = [libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 }];
    if matches!(wait(&mut fds, deadline, mask), Err(Interrupted { .. })) {
        return fail(libc::EINTR);
    }
    // SAFETY: the caller keeps the contract of epoll_wait(2).
    sys::errno(unsafe { sys!(libc::SYS_epoll_wait, epoll, events, max, 0) }) as c_int
}

replace! {
    /// poll(2)
    fn poll(fds: *mut libc::pollfd, n: libc::nfds_t, timeout: c_int) -> c_int {
        poll_until(fds, n, after_ms(timeout), None)
    }

    /// poll(2) as `_FORTIFY_SOURCE` calls it, with the size of `fds` in bytes.
    fn __poll_chk(fds: *mut libc::pollfd, n: libc::nfds_t, timeout: c_int, size: usize) -> c_int {
        if size / size_of::<libc::pollfd>() < n as usize {
            libc::abort();
        }
        poll_until(fds, n, after_ms(timeout), None)
    }

    /// ppoll(2)
    fn ppoll(
        fds: *mut libc::pollfd, n: libc::nfds_t, timeout: *const libc::timespec, mask: *const libc::sigset_t,
    ) -> c_int {
        let Some(deadline) = after_timespec(timeout) else { return fail(libc::EINVAL) };
        poll_until(fds, n, deadline, kernel_mask(mask))
    }

    /// ppoll(2) as `_FORTIFY_SOURCE` calls it, with the size of `fds` in bytes.
    fn __ppoll_chk(
        fds: *mut libc::pollfd, n: libc::nfds_t, timeout: *const libc::timespec,
        mask: *const libc::sigset_t, size: usize,
    ) -> c_int {
        if size / size_of::<libc::pollfd>() < n as usize {
            libc::abort();
        }
        ppoll(fds, n, timeout, mask)
    }

    /// select(2); what is left of the time-out is written back, as Linux does.
    fn select(
        n: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set,
        timeout: *mut libc::timeval,
    ) -> c_int {
        let Some(deadline) = after_timeval(timeout) else { return fail(libc::EINVAL) };
        let result = Sets::new(n, [read, write, except]).wait(deadline, None);
        if let Some(timeout) = timeout.as_mut() {
            *timeout = timeval(0, deadline.saturating_sub(timeline::now()) / US);
        }
        result
    }

    /// pselect(2)
    fn pselect(
        n: c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set,
        timeout: *const libc::timespec, mask: *const libc::sigset_t,
    ) -> c_int {
        let Some(deadline) = after_timespec(timeout) else { return fail(libc::EINVAL) };
        Sets::new(n, [read, write, except]).wait(deadline, kernel_mask(mask))
    }

    /// epoll_wait(2)
    fn epoll_wait(epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout: c_int) -> c_int {
        epoll_until(epoll, events, max, after_ms(timeout), None)
    }

    /// epoll_pwait(2)
    fn epoll_pwait(
        epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout: c_int, mask: *const libc::sigset_t,
    ) -> c_int {
        epoll_until(epoll, events, max, after_ms(timeout), kernel_mask(mask))
    }

    /// epoll_pwait2(2)
    fn epoll_pwait2(
        epoll: c_int, events: *mut libc::epoll_event, max: c_int, timeout: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int {
        let Some(deadline) = after_timespec(timeout) else { return fail(libc::EINVAL) };
        epoll_until(epoll, events, max, deadline, kernel_mask(mask))
    }

    /// pause(2)
    fn pause() -> c_int {
        poll_until(std::ptr::null_mut(), 0, NEVER, None)
    }

    /// sigsuspend(2)
    fn sigsuspend(mask: *const libc::sigset_t) -> c_int {
        poll_until(std::ptr::null_mut(), 0, NEVER, kernel_mask(mask))
    }

    /// timer_create(2): refused, since a timer of the kernel's would go by the machine's time.
    fn timer_create(_clock: libc::clockid_t, _event: *mut libc::sigevent, _timer: *mut c_void) -> c_int {
        fail(libc::ENOSYS)
    }
}
