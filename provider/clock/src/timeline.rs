//! The process's clock: its own, or that of the timeline that has attached.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicU8, Ordering};

use contract::clock::{self as abi, ConnKey, WaitFd};

/// What a reading costs while nobody has attached: the time of a reading through the vDSO.
const LOCAL_READ_PS: u64 = 20_000;

/// What a reading costs at most for a program that only waits for time to pass.
const LARGEST_READ_PS: u64 = 500_000_000;

struct Attached {
    table: abi::Timeline,
    data: *mut c_void,
    pid: c_int,
}

/// Leaked on attach: a thread may still be inside when it is replaced.
static ATTACHED: AtomicPtr<Attached> = AtomicPtr::new(ptr::null_mut());

/// The clock while nobody has attached.
static LOCAL: AtomicU64 = AtomicU64::new(0);

/// Time that was used where the timeline could not be asked to run up to it.
static OWED: AtomicU64 = AtomicU64::new(0);

/// Readings since the program did anything else that this library sees.
static READINGS: AtomicU64 = AtomicU64::new(0);

/// The [`Source`] of the last of them.
static SOURCE: AtomicU8 = AtomicU8::new(0);

/// The calls at the last of them.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// What this library has seen of the program.
static ACTIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread is inside a function of the timeline: a signal handler of the program that
    /// reads a clock there must not enter it again.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// The timeline has called back, and may be told of an alarm.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
    /// A handler has set the alarm where the timeline could not be told.
    static UNTOLD: Cell<bool> = const { Cell::new(false) };
}

fn attached() -> Option<&'static Attached> {
    // SAFETY: what is attached is never freed.
    unsafe { ATTACHED.load(Ordering::Acquire).as_ref() }
}

/// True while a timeline is attached.
pub fn is_attached() -> bool {
    attached().is_some()
}

/// True for a child of vfork, which shares all memory with the process that is attached.
pub fn is_borrowed() -> bool {
    attached().is_some_and(|it| it.pid != crate::sys::getpid())
}

fn enter<R>(otherwise: R, call: impl FnOnce(&Attached) -> R) -> R {
    let Some(attached) = attached() else { return otherwise };
    if INSIDE.replace(true) {
        return otherwise;
    }
    let result = call(attached);
    INSIDE.set(false);
    if UNTOLD.replace(false) {
        alarm(crate::alarm::at());
    }
    result
}

/// The time, without a cost.
pub fn now() -> u64 {
    match attached() {
        // SAFETY: `now` may be called from anywhere with the table's own data.
        Some(it) => unsafe { (it.table.now)(it.data) + OWED.load(Ordering::Relaxed) },
        None => LOCAL.load(Ordering::Relaxed),
    }
}

/// The clock goes on by `ps`; returns the new time and delivers an alarm that has become due.
pub fn spend(ps: u64) -> u64 {
    let time = if is_attached() {
        let pay = |it: &Attached| {
            // SAFETY: the table's function with its data, not from inside the timeline.
            Some(unsafe { (it.table.spend)(it.data, ps + OWED.swap(0, Ordering::Relaxed)) })
        };
        enter(None, pay).unwrap_or_else(now)
    } else {
        LOCAL.fetch_add(ps, Ordering::Relaxed) + ps
    };
    crate::alarm::deliver(time);
    time
}

/// The thread waits so long for what is not known here.
pub fn wait_a_while(ps: u64) -> u64 {
    ACTIONS.fetch_add(1, Ordering::Relaxed);
    spend(ps)
}

/// What one reading of a clock costs.
pub fn read_cost() -> u64 {
    ACTIONS.fetch_add(1, Ordering::Relaxed);
    attached().map_or(LOCAL_READ_PS, |it| it.table.clock_read_ps)
}

/// What a program reads the time from.
#[derive(Clone, Copy, PartialEq)]
pub enum Source {
    /// The time stamp counter.
    Tsc = 1,
    /// A clock of the C library.
    Clock,
    /// One that shows microseconds.
    Microseconds,
}

impl Source {
    /// The smallest step that a waiting program can see, and after how many such steps in a row it is given
    /// larger ones: how much too long it may wait is one in so many.
    fn steps(self, cost: u64) -> (u64, u64) {
        match self {
            Source::Tsc | Source::Clock => (cost, 128),
            Source::Microseconds => (1_000_000, 4),
        }
    }
}

/// What this reading costs if one clock is all that the program reads, and waits for it to reach some
/// value: larger and larger steps. Any call into the attached library ends that, and so does another clock:
/// a calibration of one by the other must find the same small step at both ends of each measurement.
pub fn impatient_cost(source: Source) -> u64 {
    let cost = read_cost();
    let calls = calls().unwrap_or(0);
    let other_calls = CALLS.swap(calls, Ordering::Relaxed) != calls;
    if SOURCE.swap(source as u8, Ordering::Relaxed) != source as u8 || other_calls {
        READINGS.store(0, Ordering::Relaxed);
    }
    let (step, patience) = source.steps(cost);
    match READINGS.fetch_add(1, Ordering::Relaxed) / patience {
        0 => cost,
        times => (step << times.min(16)).min(LARGEST_READ_PS.max(cost)),
    }
}

/// The program did something else than reading a clock.
pub fn acted() {
    READINGS.store(0, Ordering::Relaxed);
    ACTIONS.fetch_add(1, Ordering::Relaxed);
}

/// A counter of what this library has seen of the program.
pub fn actions() -> u64 {
    ACTIONS.load(Ordering::Relaxed)
}

/// Reads the clock as a program does: at its cost.
pub fn read(source: Source) -> u64 {
    spend(impatient_cost(source))
}

/// As [`read`] where the timeline must not run: on a small signal stack. The next `spend` pays.
pub fn read_owing(source: Source) -> u64 {
    if !is_attached() {
        return read(source);
    }
    OWED.fetch_add(impatient_cost(source), Ordering::Relaxed);
    now()
}

/// Lets the clock go on to `at` (not back), without anything being waited for.
pub fn sleep_until(at: u64) -> u64 {
    acted();
    if is_attached() {
        // SAFETY: the table's function with its data, not from inside the timeline.
        enter(None, |it| Some(unsafe { (it.table.sleep_until)(it.data, at) })).unwrap_or_else(now)
    } else {
        LOCAL.fetch_max(at, Ordering::Relaxed).max(at)
    }
}

/// See [`abi::Timeline::block`].
pub fn block(fds: &[WaitFd], deadline: u64) -> u64 {
    acted();
    // SAFETY: the table's function with its data; the slice is valid for the call.
    enter(0, |it| unsafe { (it.table.block)(it.data, fds.as_ptr(), fds.len(), deadline) })
}

/// See [`abi::Timeline::unblock`].
pub fn unblock(token: u64) -> u64 {
    // SAFETY: the table's function with its data and a token that it gave.
    enter(None, |it| Some(unsafe { (it.table.unblock)(it.data, token) })).unwrap_or_else(now)
}

/// See [`abi::Timeline::sent`].
pub fn sent(key: &ConnKey, end: u64) {
    acted();
    // SAFETY: the table's function with its data; the key is valid for the call.
    enter((), |it| unsafe { (it.table.sent)(it.data, key, end) });
}

/// See [`abi::Timeline::received`].
pub fn received(key: &ConnKey, end: u64) {
    // SAFETY: the table's function with its data; the key is valid for the call.
    enter((), |it| unsafe { (it.table.received)(it.data, key, end) });
    crate::alarm::deliver(now());
}

/// See [`abi::Timeline::closed`].
pub fn closed(key: &ConnKey) {
    // SAFETY: the table's function with its data; the key is valid for the call.
    enter((), |it| unsafe { (it.table.closed)(it.data, key) });
}

/// See [`abi::Timeline::alarm`].
pub fn alarm(at: u64) {
    let Some(it) = attached() else { return };
    if INSIDE.get() && !LISTENS.get() {
        return UNTOLD.set(true);
    }
    let inside = INSIDE.replace(true);
    // SAFETY: the table's function with its data, where the timeline is not at work.
    unsafe { (it.table.alarm)(it.data, at) };
    INSIDE.set(inside);
}

/// See [`abi::Timeline::memory_wait`]. The thread is known not to be inside.
pub fn memory_wait(places: &abi::Places) {
    acted();
    // SAFETY: the table's function with its data, from a loop proven to wait on memory.
    let time = enter(None, |it| Some(unsafe { (it.table.memory_wait)(it.data, places) }));
    crate::alarm::deliver(time.unwrap_or_else(now));
}

/// See [`abi::Timeline::thread_starts`]; 0: nobody has attached.
pub fn thread_starts() -> u64 {
    let ask = |it: &Attached| {
        // SAFETY: the table's function with its data.
        it.table.thread_starts.map_or(0, |starts| unsafe { starts(it.data) })
    };
    enter(0, ask)
}

/// See [`abi::Timeline::thread_runs`].
pub fn thread_runs(token: u64, failed: bool) {
    let tell = |it: &Attached| {
        if let Some(runs) = it.table.thread_runs.filter(|_| token != 0) {
            // SAFETY: the table's function with its data and a token that it gave.
            unsafe { runs(it.data, token, failed) };
        }
    };
    enter((), tell);
}

/// The count of calls into the attached library; `None` while this thread is inside the timeline
/// or nobody has attached.
pub fn calls() -> Option<u64> {
    let it = attached()?;
    // SAFETY: the table's function, which only loads, with its data.
    (!INSIDE.get()).then(|| unsafe { (it.table.calls)(it.data) })
}

/// A forked child starts alone at its parent's time.
pub fn forked(time: u64) {
    ATTACHED.store(ptr::null_mut(), Ordering::Release);
    LOCAL.store(time, Ordering::Relaxed);
    INSIDE.set(false);
    LISTENS.set(false);
}

/// See [`abi::Attach`].
///
/// # Safety
/// As [`abi::Attach`]: `table` is valid, its functions stay loaded, `data` fits them.
#[cfg_attr(not(test), no_mangle)]
pub unsafe extern "C" fn verbena_clock_attach(table: *const abi::Timeline, data: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    let table = unsafe { *table };
    if table.version != abi::VERSION {
        return -1;
    }
    crate::exempt::exempt(table.now as usize);
    ATTACHED.store(
        Box::into_raw(Box::new(Attached { table, data, pid: crate::sys::getpid() })),
        Ordering::Release,
    );
    crate::alarm::tell();
    crate::process::tell_end();
    crate::threads::arm_all();
    0
}

/// See [`abi::Detach`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_detach() {
    let time = now();
    crate::threads::disarm_all();
    LOCAL.fetch_max(time, Ordering::Relaxed);
    ATTACHED.store(ptr::null_mut(), Ordering::Release);
}

/// See [`abi::LocalNow`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_local_now() -> u64 {
    now()
}

/// The machine's CLOCK_MONOTONIC in nanoseconds.
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_real_ns() -> u64 {
    crate::sys::real_ns()
}

/// See [`abi::DeliverAlarm`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_deliver_alarm() {
    let listens = LISTENS.replace(true);
    crate::alarm::deliver(now());
    LISTENS.set(listens);
}
