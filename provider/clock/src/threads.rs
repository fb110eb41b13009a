//! The threads that the program starts: which there are.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::next::replace;
use crate::spin::tick;
use crate::sys::{self, sys};
use crate::timeline;
use contract::clock::WAKE_SIGNAL;

/// Further threads are not checked for spinning.
const MAX: usize = 256;

/// Number of the thread (0: a free place) and of its timer plus one (0: it has none).
struct Place {
    tid: AtomicI32,
    timer: AtomicU64,
}

static PLACES: [Place; MAX] = [const { Place { tid: AtomicI32::new(0), timer: AtomicU64::new(0) } }; MAX];

/// True if the program has started threads that have not ended.
pub fn several() -> bool {
    PLACES.iter().filter(|p| p.tid.load(Ordering::Relaxed) != 0).count() > 1
}

fn mine() -> Option<&'static Place> {
    let tid = sys::gettid();
    PLACES.iter().find(|p| p.tid.load(Ordering::Relaxed) == tid)
}

fn arm(place: &Place) {
    let tid = place.tid.load(Ordering::Acquire);
    if tid != 0 && place.timer.load(Ordering::Relaxed) == 0 {
        if let Some(timer) = tick::create(tid) {
            place.timer.store(timer as u64 + 1, Ordering::Release);
            tick::set(timer, true);
        }
    }
}

fn disarm(place: &Place) {
    if let Some(timer) = place.timer.swap(0, Ordering::AcqRel).checked_sub(1) {
        tick::delete(timer as c_int);
    }
}

/// The calling thread exists; it is checked for spinning while a timeline is attached.
pub fn started() {
    let tid = sys::gettid();
    let free = |p: &&Place| p.tid.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if let Some(place) = PLACES.iter().find(free) {
        if timeline::is_attached() {
            arm(place);
        }
    }
}

fn ended() {
    if let Some(place) = mine() {
        disarm(place);
        place.tid.store(0, Ordering::Release);
    }
}

/// A timeline has attached.
pub fn arm_all() {
    PLACES.iter().for_each(arm);
}

/// Stops the checks of the calling thread while it waits in the kernel, or starts it again.
pub fn look(on: bool) {
    with_timer(|timer| tick::set(timer, on));
}

/// Gives the calling thread's timer to `call`, if it has one.
pub fn with_timer(call: impl FnOnce(c_int)) {
    if let Some(timer) = mine().and_then(|p| p.timer.load(Ordering::Acquire).checked_sub(1)) {
        call(timer as c_int);
    }
}

/// Ends the waits of the other threads, which find out anew what they wait for.
pub fn wake_others() {
    let (pid, me) = (sys::getpid(), sys::gettid());
    let all = PLACES.iter().map(|place| place.tid.load(Ordering::Relaxed));
    for tid in all.filter(|&tid| tid != 0 && tid != me) {
        // SAFETY: plain numbers.
        unsafe { sys!(libc::SYS_tgkill, pid, tid, WAKE_SIGNAL) };
    }
}

/// A forked child has one thread and no timers.
pub fn forked() {
    for place in &PLACES {
        place.tid.store(0, Ordering::Relaxed);
        place.timer.store(0, Ordering::Relaxed);
    }
    started();
}

struct Start {
    routine: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
    /// By which the timeline knows it.
    token: u64,
}

/// Ends the checks of a thread however it ends: also by pthread_exit, which unwinds.
struct Look;

impl Drop for Look {
    fn drop(&mut self) {
        ended();
    }
}

thread_local! {
    static LOOK: std::cell::Cell<Option<Look>> = const { std::cell::Cell::new(None) };
}

extern "C-unwind" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: made by pthread_create below for this thread alone.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start { routine, argument, token } = *start;
    timeline::thread_runs(token, false);
    started();
    LOOK.set(Some(Look));
    routine(argument)
}

replace! {
    /// pthread_create(3)
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int {
        let token = timeline::thread_starts();
        let start = Box::into_raw(Box::new(Start { routine, argument, token }));
        let error = next(thread, attributes, run, start.cast::<c_void>());
        if error != 0 {
            timeline::thread_runs(token, true);
            drop(Box::from_raw(start));
        }
        error
    }
}
