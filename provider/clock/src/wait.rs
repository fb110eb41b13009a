//! Waiting in the kernel: the timeline is told, and may end the wait when its virtual time is over.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use crate::cost::Source;
use crate::read_clock::NS;
use crate::signals::{self, bit, SYNCHRONOUS};
use crate::sys::{self, sys};
use crate::timeline;
use crate::{alarm, stream, threads, timerfd};
use contract::clock::{WaitFd, NEVER, TICK_SIGNAL, WAKE_SIGNAL};

thread_local! {
    /// The timeline has sent its signal.
    static WOKEN: Cell<bool> = const { Cell::new(false) };
    /// The thread is in a wait that checks `WOKEN`.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

/// Handles [`WAKE_SIGNAL`], whose arrival ends a `ppoll`. Other waits continue, unless it came
/// for the program's alarm, whose handler says whether they do.
pub extern "C-unwind" fn on_wake(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    WOKEN.set(true);
    if LOOKS.get() || !alarm::deliver(timeline::now()) {
        return;
    }
    if signals::is_seen_after(libc::SIGALRM, context) && !signals::restarts(true) {
        // SAFETY: the kernel passes a valid ucontext, which nothing else refers to.
        unsafe { end_call(&mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
    }
}

/// Lets the system call that the kernel is about to make again return EINTR instead.
///
/// # Safety
/// The registers must be those of a thread that a signal has interrupted.
unsafe fn end_call(registers: &mut [i64; 23]) {
    let at = registers[libc::REG_RIP as usize] as *const [u8; 2];
    // SAFETY: the thread is about to execute the instruction there, of at least one byte; a second one
    // is missing only at the very end of the program's text.
    if unsafe { *at } == [0x0f, 0x05] {
        registers[libc::REG_RAX as usize] = -i64::from(libc::EINTR);
        registers[libc::REG_RIP as usize] += 2;
    }
}

/// A handler of the program has interrupted the wait.
#[derive(Debug)]
pub struct Interrupted {
    /// It was that of SIGALRM.
    by_alarm: bool,
}

const BY_ALARM: Interrupted = Interrupted { by_alarm: true };
const BY_ANOTHER: Interrupted = Interrupted { by_alarm: false };

/// ppoll(2) as the kernel knows it; `limit` in real nanoseconds.
fn ppoll(fds: &mut [libc::pollfd], limit: Option<u64>, mask: Option<u64>) -> sys::Sys {
    // The kernel writes what is left of it.
    let mut time = limit.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000).min(i64::MAX as u64) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    let time = time.as_mut().map_or(std::ptr::null_mut(), |time| &raw mut *time);
    let mask = mask.as_ref().map_or(std::ptr::null(), |mask| &raw const *mask);
    // SAFETY: the slice, the time and the mask are valid for the call.
    unsafe { sys!(libc::SYS_ppoll, fds.as_mut_ptr(), fds.len(), time, mask, 8) }
}

/// Waits until one of the descriptors is ready, at most until the virtual time `deadline`, with the
/// signal mask `mask` if there is one. Returns how many are ready: none at the deadline.
pub fn wait(fds: &mut [libc::pollfd], deadline: u64, mask: Option<u64>) -> Result<usize, Interrupted> {
    loop {
        timerfd::expire(timeline::now());
        let ready = wait_until(fds, deadline.min(timerfd::next_at()), mask)?;
        if ready != 0 || timeline::now() >= deadline {
            return Ok(ready);
        }
    }
}

/// The same, also until a timer expires.
fn wait_until(fds: &mut [libc::pollfd], deadline: u64, mask: Option<u64>) -> Result<usize, Interrupted> {
    timeline::acted();
    let mask = mask.map(|mask| mask & !SYNCHRONOUS);
    // Our own signals end no wait of the program: the kernel would not tell them from the program's.
    let own = bit(TICK_SIGNAL) | bit(WAKE_SIGNAL);
    let ready = ppoll(fds, Some(0), Some(mask.unwrap_or_else(signals::blocked) | own));
    if ready == -(libc::EINTR as isize) {
        return Err(BY_ANOTHER);
    }
    if ready != 0 {
        return Ok(ready.max(0) as usize);
    }
    if deadline <= timeline::now() {
        timeline::read(Source::Clock); // looking again and again must not stop time
        return Ok(0);
    }
    if timeline::is_attached() {
        wait_attached(fds, deadline, mask)
    } else {
        wait_alone(fds, deadline, mask)
    }
}

fn wait_attached(fds: &mut [libc::pollfd], deadline: u64, mask: Option<u64>) -> Result<usize, Interrupted> {
    let streams: Vec<WaitFd> = fds.iter().flat_map(|fd| stream::waits(fd.fd, fd.events)).collect();
    let before = signals::blocked();
    signals::set_blocked(before | bit(WAKE_SIGNAL));
    LOOKS.set(true);
    threads::look(false);
    let result = loop {
        WOKEN.set(false);
        let rung = alarm::rung();
        let token = timeline::block(&streams, deadline);
        let waiting = (mask.unwrap_or(before) | bit(TICK_SIGNAL)) & !bit(WAKE_SIGNAL);
        let ready = ppoll(fds, None, Some(waiting));
        let now = timeline::unblock(token);
        if ready > 0 {
            break Ok(ready as usize);
        }
        alarm::deliver(now);
        // Perhaps it rang on the way here.
        if alarm::rung() != rung && signals::is_seen(libc::SIGALRM) {
            break Err(BY_ALARM);
        }
        if ready < 0 && !WOKEN.get() {
            break Err(BY_ANOTHER);
        }
        if now >= deadline || timerfd::next_at() < deadline {
            break Ok(0);
        }
    };
    threads::look(true);
    LOOKS.set(false);
    signals::set_blocked(before);
    result
}

/// True if a child may end and interrupt the wait.
fn has_children() -> bool {
    // SAFETY: only asks, with no place for an answer.
    unsafe {
        let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        sys!(libc::SYS_waitid, libc::P_ALL, 0, 0, how, 0) == 0
    }
}

/// Without a timeline a wait is a real one, and time advances by its length if nothing else ends it.
/// Where there is nothing to wait for, it is over at once.
fn wait_alone(fds: &mut [libc::pollfd], deadline: u64, mask: Option<u64>) -> Result<usize, Interrupted> {
    // A watchdog over a child, as coreutils' timeout is one, rather than a way to sleep.
    let guards = deadline == NEVER && has_children();
    loop {
        let until = deadline.min(alarm::at());
        let left = until.saturating_sub(timeline::now());
        let limit = if fds.is_empty() && !guards { 0 } else { left / NS };
        let ready = ppoll(fds, (until != NEVER).then_some(limit), mask);
        if ready < 0 {
            return Err(BY_ANOTHER);
        }
        if ready > 0 {
            return Ok(ready as usize);
        }
        timeline::sleep_until(until);
        if alarm::deliver(timeline::now()) && signals::is_seen(libc::SIGALRM) {
            return Err(BY_ALARM);
        }
        if timeline::now() >= deadline {
            return Ok(0);
        }
    }
}

/// Waits until `fd` is ready for `events`. Continues after handlers that restart their calls.
pub fn wait_one(fd: c_int, events: i16, deadline: u64) -> Result<usize, Interrupted> {
    let mut fds = [libc::pollfd { fd, events, revents: 0 }];
    loop {
        match wait(&mut fds, deadline, None) {
            Err(interrupted) if signals::restarts(interrupted.by_alarm) => {}
            result => return result,
        }
    }
}

/// Waits for something that is not a descriptor, in the call `real` of the C library.
pub fn wait_for<R>(real: impl FnOnce() -> R) -> R {
    if !timeline::is_attached() {
        return real();
    }
    let token = timeline::block(&[], NEVER);
    threads::look(false);
    let result = real();
    let errno = sys::get_errno();
    threads::look(true);
    alarm::deliver(timeline::unblock(token));
    sys::set_errno(errno);
    result
}
