//! The process's clock: its own, or that of the attached timeline.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use contract::clock::{self as abi, ConnKey, WaitFd};

use crate::cost::{Price, Source};

/// What a reading costs while no timeline is attached: the time of a reading through the vDSO.
const LOCAL_READ_PS: u64 = 20_000;

struct Attached {
    table: abi::Timeline,
    data: *mut c_void,
    pid: c_int,
}

/// Leaked on attach: a thread may still be inside when it is replaced.
static ATTACHED: AtomicPtr<Attached> = AtomicPtr::new(ptr::null_mut());

/// The clock while no timeline is attached.
static LOCAL: AtomicU64 = AtomicU64::new(0);

/// Time that was used where the timeline could not be asked to run up to it.
static OWED: AtomicU64 = AtomicU64::new(0);

/// What this library has seen of the program.
static ACTIONS: AtomicU64 = AtomicU64::new(0);

/// The price of the next reading.
static PRICE: Price = Price::new();

/// What the calling thread is doing with the timeline.
struct Context {
    /// It is inside a function of the timeline: a signal handler of the program that reads a clock
    /// there must not enter it again.
    inside: Cell<bool>,
    /// The timeline has called back, and may be told of an alarm.
    listens: Cell<bool>,
    /// A handler has set the alarm where the timeline could not be told.
    untold: Cell<bool>,
}

thread_local! {
    static CONTEXT: Context =
        const { Context { inside: Cell::new(false), listens: Cell::new(false), untold: Cell::new(false) } };
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
    CONTEXT.with(|context| {
        if context.inside.replace(true) {
            return otherwise;
        }
        let result = call(attached);
        context.inside.set(false);
        if context.untold.replace(false) {
            alarm(crate::alarm::at());
        }
        result
    })
}

/// The time, without a cost.
pub fn now() -> u64 {
    match attached() {
        // SAFETY: `now` may be called from anywhere with the table's own data.
        Some(it) => unsafe { (it.table.now)(it.data) + OWED.load(Ordering::Relaxed) },
        None => LOCAL.load(Ordering::Relaxed),
    }
}

/// Advances the clock by `ps` picoseconds; returns the new time and delivers an alarm that has become due.
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

/// The thread waits `ps` picoseconds for something that this library does not know.
pub fn wait_a_while(ps: u64) -> u64 {
    ACTIONS.fetch_add(1, Ordering::Relaxed);
    spend(ps)
}

/// What one reading of a clock costs.
pub fn read_cost() -> u64 {
    ACTIONS.fetch_add(1, Ordering::Relaxed);
    attached().map_or(LOCAL_READ_PS, |it| it.table.clock_read_ps)
}

/// What this reading of `source` costs: see [`Price`].
pub fn impatient_cost(source: Source) -> u64 {
    PRICE.next(source, read_cost(), calls().unwrap_or(0))
}

/// The program did something other than reading a clock.
pub fn acted() {
    PRICE.reset();
    ACTIONS.fetch_add(1, Ordering::Relaxed);
}

/// A counter of what this library has seen of the program.
pub fn actions() -> u64 {
    ACTIONS.load(Ordering::Relaxed)
}

/// The last time that anything waits for, 212 days after the start: a day is left for what programs do then, before the
/// numbers end.
const LAST: u64 = u64::MAX - 86_400 * 1_000_000_000_000;

/// The time `ps` picoseconds after another.
pub fn later(time: u64, ps: u64) -> u64 {
    time.saturating_add(ps).min(LAST)
}

/// The time `ps` picoseconds from now.
pub fn after(ps: u64) -> u64 {
    later(now(), ps)
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

/// Advances the clock to `at` (never back), without waiting for anything.
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
    CONTEXT.with(|context| {
        if context.inside.get() && !context.listens.get() {
            return context.untold.set(true);
        }
        let inside = context.inside.replace(true);
        // SAFETY: the table's function with its data, where the timeline is not at work.
        unsafe { (it.table.alarm)(it.data, at) };
        context.inside.set(inside);
    });
}

/// See [`abi::Timeline::memory_wait`]. The thread is known not to be inside.
pub fn memory_wait(places: &abi::Places) {
    acted();
    // SAFETY: the table's function with its data, from a loop proven to wait on memory.
    let time = enter(None, |it| Some(unsafe { (it.table.memory_wait)(it.data, places) }));
    crate::alarm::deliver(time.unwrap_or_else(now));
}

/// See [`abi::Timeline::thread_starts`]; 0 while no timeline is attached.
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
/// or no timeline is attached.
pub fn calls() -> Option<u64> {
    let it = attached()?;
    // SAFETY: the table's function, which only loads, with its data.
    (!CONTEXT.with(|context| context.inside.get())).then(|| unsafe { (it.table.calls)(it.data) })
}

/// A forked child starts alone at its parent's time.
pub fn forked(time: u64) {
    ATTACHED.store(ptr::null_mut(), Ordering::Release);
    LOCAL.store(time, Ordering::Relaxed);
    CONTEXT.with(|context| {
        context.inside.set(false);
        context.listens.set(false);
    });
}

/// The process's time comes from this timeline from now on.
pub fn attach(table: abi::Timeline, data: *mut c_void) {
    let attached = Attached { table, data, pid: crate::sys::getpid() };
    ATTACHED.store(Box::into_raw(Box::new(attached)), Ordering::Release);
}

/// Delivers an alarm that is due, from inside the timeline, which may be told of the next one meanwhile.
pub fn deliver_alarm() {
    let listens = CONTEXT.with(|context| context.listens.replace(true));
    crate::alarm::deliver(now());
    CONTEXT.with(|context| context.listens.set(listens));
}
